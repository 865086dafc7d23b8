"""A program, an optimizer and a memory: a learner."""

from __future__ import annotations

from drpg_dspy.online.learner import OnlinePolicyOptimizer

__all__ = ["OnlinePolicyOptimizer"]
