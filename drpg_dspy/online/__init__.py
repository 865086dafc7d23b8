"""A program, an optimizer and a memory: a learner."""

from __future__ import annotations

from drpg_dspy.online.learner import OnlinePolicyOptimizer
from drpg_dspy.online.restoring import answer_of

__all__ = ["OnlinePolicyOptimizer", "answer_of"]
