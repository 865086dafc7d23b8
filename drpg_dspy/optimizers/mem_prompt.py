"""MemPrompt: the most similar cases, right and wrong alike, with their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.types import Guidance

__all__ = ["MemPrompt"]


class MemPrompt(OnlineOptimizer):
    """Show the k most similar cases, whatever the verdict, most similar last, each with it.

    Args:
        k: Cases shown, at least 1 (16 for text-to-SQL and diagnosis, 4 for HotpotQA and
            DS-1000).

    Raises:
        ValueError: ``k`` is no whole number of at least 1.

    Source: Madaan et al. 2022, "Memory-assisted prompt editing to improve GPT-3 after
    deployment", in the form of Wu et al. 2024, "StreamBench: Towards Benchmarking Continuous
    Improvement of Language Agents".

    Deviations: a failed LM call is no case; a compiled program, which cannot show verdicts,
    keeps the k right answers given last.
    """

    name = "mem_prompt"
    paper = "Madaan et al. 2022; Wu et al. 2024, StreamBench"
    writes_policies = False

    def __init__(self, k: int = 16) -> None:
        self.k = whole("k", k, 1)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Retrieve the cases."""
        card = self.require_card()
        if memory.count() == 0:
            return Guidance()
        hits = memory.search(card.key(inputs), self.k)
        cases = (hit.experience for hit in reversed(hits))
        return Guidance(
            shots=shots_by_route(cases, card, verdicts=True),
            retrieved={"shots": tuple(hit.experience.id for hit in hits)},
        )

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the k answers that were right last, without their verdict."""
        return Guidance(shots=shots_by_route(memory.recent(self.k, "correct"), self.require_card()))
