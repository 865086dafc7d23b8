"""``python -m drpg_dspy`` is ``drpg``."""

from __future__ import annotations

from drpg_dspy.cli import main

if __name__ == "__main__":
    main()
