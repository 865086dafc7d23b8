"""What came out: the figures of a run."""

from __future__ import annotations

from drpg_dspy.analysis.summary import RunSummary, rolling_scores, steps_table, summarise

__all__ = ["RunSummary", "rolling_scores", "steps_table", "summarise"]
