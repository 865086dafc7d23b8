"""What came out: the figures of a run, and of runs side by side."""

from __future__ import annotations

from drpg_dspy.analysis.comparison import Comparison, Outcome, Record, Results
from drpg_dspy.analysis.series import Curve, Series, read_series
from drpg_dspy.analysis.statistics import mcnemar, wilcoxon, wilson
from drpg_dspy.analysis.summary import RunSummary, rolling_scores, steps_table, summarise

__all__ = [
    "Comparison",
    "Curve",
    "Outcome",
    "Record",
    "Results",
    "RunSummary",
    "Series",
    "mcnemar",
    "read_series",
    "rolling_scores",
    "steps_table",
    "summarise",
    "wilcoxon",
    "wilson",
]
