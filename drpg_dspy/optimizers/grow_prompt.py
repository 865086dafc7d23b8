"""GrowPrompt: the cases met last, right and wrong alike, with their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.types import Guidance

__all__ = ["GrowPrompt"]


class GrowPrompt(OnlineOptimizer):
    """Show the cases judged last, whatever the verdict, oldest first, each with its verdict.

    Nothing is looked up: the prompt grows with the stream until it holds so many cases.

    Args:
        last: Cases shown, at least 1; 16 on every benchmark.

    Raises:
        ValueError: ``last`` is no whole number of at least 1.

    Source: Wu et al. 2024, "StreamBench: Towards Benchmarking Continuous Improvement of
    Language Agents".

    Deviations: a failed LM call is no case; a compiled program, which cannot show verdicts,
    keeps the right answers given last.
    """

    name = "grow_prompt"
    paper = "Wu et al. 2024, StreamBench"
    writes_policies = False

    def __init__(self, last: int = 16) -> None:
        self.last = whole("last", last, 1)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the cases judged last."""
        cases = memory.recent(self.last)
        if not cases:
            return Guidance()
        return Guidance(
            shots=shots_by_route(cases, self.require_card(), verdicts=True),
            retrieved={"shots": tuple(case.id for case in reversed(cases))},
        )

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the answers that were right last, without their verdict."""
        return Guidance(
            shots=shots_by_route(memory.recent(self.last, "correct"), self.require_card())
        )
