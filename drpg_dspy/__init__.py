"""Online policy optimisation for DSPy."""

from __future__ import annotations

__version__ = "0.1.0"
