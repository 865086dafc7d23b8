"""Why not just GEPA? Optimizers side by side: same program, examples, metric, models, budget."""

from __future__ import annotations

from drpg_dspy.comparing.columns import Column, columns_from
from drpg_dspy.comparing.comparing import DEFAULT_OPTIMIZERS, compare
from drpg_dspy.comparing.comparison import Comparison
from drpg_dspy.comparing.results import Answer, ColumnResult, Summary, Versus

__all__ = [
    "DEFAULT_OPTIMIZERS",
    "Answer",
    "Column",
    "ColumnResult",
    "Comparison",
    "Summary",
    "Versus",
    "columns_from",
    "compare",
]
