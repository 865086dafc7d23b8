"""Self-StreamICL: the most similar answers that were right, as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.types import Guidance

__all__ = ["SelfStreamICL"]


class SelfStreamICL(OnlineOptimizer):
    """Show the k most similar correct answers, most similar last, without their verdict.

    The strongest memory baseline of StreamBench and of the DRPG paper, which adds policies to
    exactly these examples.

    Args:
        k: Examples, at least 1 (16 for text-to-SQL and diagnosis, 4 for HotpotQA and DS-1000).

    Raises:
        ValueError: ``k`` is no whole number of at least 1.

    Source: Wu et al. 2024, "StreamBench: Towards Benchmarking Continuous Improvement of
    Language Agents", Algorithm 3.

    Deviations: exactly k correct ones whenever k exist (the released code filters its nearest
    10·k neighbours and may show fewer); a failed LM call is never remembered.
    """

    name = "self_stream_icl"
    paper = "Wu et al. 2024, StreamBench"
    writes_policies = False

    def __init__(self, k: int = 16) -> None:
        self.k = whole("k", k, 1)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Retrieve the examples."""
        card = self.require_card()
        if memory.count("correct") == 0:
            return Guidance()
        hits = memory.search(card.key(inputs), self.k, "correct")
        shots = shots_by_route((hit.experience for hit in reversed(hits)), card)
        return Guidance(shots=shots, retrieved={"shots": tuple(hit.experience.id for hit in hits)})

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the k answers that were right last."""
        recent = memory.recent(self.k, "correct")
        return Guidance(shots=shots_by_route(recent, self.require_card()))
