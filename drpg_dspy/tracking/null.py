"""A tracker that tells nobody."""

from __future__ import annotations

from collections.abc import Sequence

from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker

__all__ = ["NullTracker"]


class NullTracker(Tracker):
    """Takes every record and keeps none; for switching tracking off without an ``if``."""

    def start(self, run: RunInfo) -> str:
        """Return the run's name as its token."""
        return run.resume_token or run.name

    def write(self, records: Sequence[StepRecord]) -> None:
        """Forget the records."""

    def finish(self, status: str) -> None:
        """Do nothing."""
