"""MAM-StreamICL: several agents take turns and share one memory of right answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.types import Guidance

__all__ = ["MAMStreamICL"]

_AGENT = "agent_"


class MAMStreamICL(OnlineOptimizer):
    """Multi-agent memory: K LMs answer in turn, and each learns from what all got right.

    Call t, counted from 0, is answered by agent t mod K. It is shown the k most similar right
    answers of any agent, most similar last, without their verdict. Who answered stands in the
    rollout's counts, as ``agent_0`` for the first.

    Whose turn it is follows from the number of rollouts in memory, judged or not, so a run goes
    on with the right agent wherever it stopped. Calls that are made at the same time count the
    same rollouts and get the same agent.

    Args:
        lms: The agents, at least two. ``None`` stands for the LM that is configured when the
            call is made. An LM is in force like one given to ``dspy.context``: a predictor with
            an LM of its own keeps to it, and a program whose predictors all have one is refused.
        k: Examples, at least 1 (16 for text-to-SQL and diagnosis, 4 for HotpotQA and DS-1000).

    Raises:
        ValueError: An argument is of the wrong kind, or there are fewer than two agents.

    Source: Wu et al. 2024, "StreamBench: Towards Benchmarking Continuous Improvement of
    Language Agents".

    Deviations: the first call is agent 0's (the released code begins with agent 1); works on
    every program (the released code only on DDXPlus); exactly k right answers whenever k exist;
    a failed LM call is never remembered, but it was a turn.
    """

    name = "mam_stream_icl"
    paper = "Wu et al. 2024, StreamBench"
    writes_policies = False

    def __init__(self, lms: Sequence[dspy.BaseLM | None], k: int = 16) -> None:
        if not isinstance(lms, (list, tuple)):
            raise ValueError(f"lms must be a list of dspy.LM, got {lms!r}.")
        for i, lm in enumerate(lms):
            if lm is not None and not isinstance(lm, dspy.BaseLM):
                raise ValueError(
                    f"lms[{i}] must be a dspy.LM, or None for the one that is configured, "
                    f"got {lm!r}."
                )
        if len(lms) < 2:
            raise ValueError(
                f"MAM-StreamICL needs at least two agents, got {len(lms)}; "
                "with one it is SelfStreamICL(k)."
            )
        self.lms = lms
        self.k = whole("k", k, 1)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Retrieve the examples and say whose turn it is."""
        card = self.require_card()
        turn = {f"{_AGENT}{memory.count_rollouts() % len(self.lms)}": 1}
        if memory.count("correct") == 0:
            return Guidance(counts=turn)
        hits = memory.search(card.key(inputs), self.k, "correct")
        return Guidance(
            shots=shots_by_route((hit.experience for hit in reversed(hits)), card),
            retrieved={"shots": tuple(hit.experience.id for hit in hits)},
            counts=turn,
        )

    def answering_lm(self, guidance: Guidance) -> dspy.BaseLM | None:
        """Return the agent whose turn it is; the first where retrieval failed."""
        turns = (i for i in range(len(self.lms)) if guidance.counts.get(f"{_AGENT}{i}"))
        return self.lms[next(turns, 0)]

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the k answers that were right last, whoever gave them."""
        return Guidance(shots=shots_by_route(memory.recent(self.k, "correct"), self.require_card()))
