"""What the epochs of a run have spent, against what they may."""

from __future__ import annotations

import time

from drpg_dspy.analysis.summary import Tally
from drpg_dspy.memory.base import Memory
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.types import Feedback, Rollout

__all__ = ["BudgetSpent", "Spending"]


class BudgetSpent(Exception):
    """A run of epochs ends because its budget is spent; the message says which."""


class Spending:
    """Adds up a run and stops it before an answer that it can no longer pay.

    Args:
        memory: The run: what earlier processes spent stands in it.
        budget: What the whole run may spend.
        seconds: Wall time of earlier processes.
    """

    def __init__(self, memory: Memory, budget: Budget, seconds: float = 0.0) -> None:
        self.budget = budget
        self._tally = Tally(memory)
        self._before = seconds
        self._begun = time.monotonic()
        for rollout, feedback in memory.rollouts():
            self.add(rollout)
            self.add(feedback)

    @property
    def seconds(self) -> float:
        """Wall time of the run, earlier processes included."""
        return self._before + time.monotonic() - self._begun

    def add(self, spent: Rollout | Feedback | None) -> None:
        """Count an answer, or what judging it and learning from it cost."""
        if isinstance(spent, Rollout):
            self._tally.add_rollout(spent)
        else:
            self._tally.add_feedback(spent)

    def check(self) -> None:
        """Let an answer be made.

        Raises:
            BudgetSpent: There is no budget left for it.
        """
        if reason := self.budget.exceeded(self._tally.spent, self.seconds):
            raise BudgetSpent(reason)
