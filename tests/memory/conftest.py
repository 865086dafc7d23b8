from __future__ import annotations

import pytest

for part in ("contract", "search_contract", "toys"):
    pytest.register_assert_rewrite(f"drpg_dspy.testing.memory_{part}")
