"""Zero-shot: the program as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.types import Guidance

__all__ = ["ZeroShot"]


class ZeroShot(OnlineOptimizer):
    """Learns nothing: the baseline that every method has to beat.

    Experiences are recorded all the same, so that a run can be compared step by step.

    >>> ZeroShot()
    ZeroShot()
    """

    name = "zero_shot"
    paper = "the unchanged program"
    writes_policies = False

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return no policy and no examples."""
        return Guidance()
