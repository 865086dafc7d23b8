"""DRPG: a policy written for each question from retrieved successes and failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.memory.base import Hit, MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.rules import MAX_RULES, similar
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.optimizers.writers import CaseView, PolicyWriter, SetWriter
from drpg_dspy.retrieval.contrastive import Contrast, Contrastive
from drpg_dspy.types import Experience, Guidance, Policy, Rule

__all__ = ["DRPG"]

_CONSOLIDATED = 200


class DRPG(OnlineOptimizer):
    """Dynamic Retrieval-based Policy Generation.

    For each question: the k most similar correct cases become examples (R_t, Eq. 1); k/2
    similar correct and k/2 similar wrong cases (R'_t, Eq. 4-6) are turned into a policy of at
    most five rules (P_t, Eq. 3); the program answers with both (Eq. 2), and the triple of
    question, answer and verdict is stored.

    Args:
        k: Experiences retrieved, at least 1. The paper: 16 for Spider, CoSQL, BIRD and DDXPlus,
            4 for HotpotQA and DS-1000. Of an odd k the correct side gets the extra case.
        policy_lm: The LM that writes policies; ``None`` = the one that answers (Table 2 lets a
            smaller or stronger one write).
        contrast: ``"both"``, or cases of one verdict only (Appendix D).
        previous_policy: Show the writer the policy of the step before (Appendix E).
        use_feedback: False hides the verdicts from the writer (Appendix F).
        feedback_text: Also show the writer what the judge said. Off in the paper, where
            verdicts are one bit; worth turning on whenever a judge or a person explains.
        writer: Who puts the rules into words; ``None`` = :class:`SetWriter`, the paper's. See
            :class:`CaseWriter` and :class:`QuoteWriter` for small policy writers.
        shots: Examples shown beside the policy; ``None`` = k, 0 = policy only.

    Source: Chang et al. 2026, "Smarter by the Moment: Environment-Driven Dynamic Policies for
    Continual LLM Improvement", arXiv 2609.16800, Algorithm 1.

    Deviations: the verdict filters before the search, so a side is short only when memory is;
    rules are parsed, cut and freed of repetition, where the released code puts any reply into
    the prompt; no policy is used for a step whose reply holds no rule, and it is counted; the
    same evidence and LM reuse the same policy; one policy serves all routes of a program with
    several; a failed LM call is never remembered as an answer.
    """

    name = "drpg"
    paper = "Chang et al. 2026, arXiv 2609.16800"

    def __init__(
        self,
        k: int = 16,
        *,
        policy_lm: dspy.BaseLM | None = None,
        contrast: Contrast = "both",
        previous_policy: bool = False,
        use_feedback: bool = True,
        feedback_text: bool = False,
        writer: PolicyWriter | None = None,
        shots: int | None = None,
    ) -> None:
        self._contrastive = Contrastive(k, contrast)
        flags = {
            "previous_policy": previous_policy,
            "use_feedback": use_feedback,
            "feedback_text": feedback_text,
        }
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        if shots is not None and (type(shots) is not int or shots < 0):
            raise ValueError(f"shots must be None or a whole number of at least 0, got {shots!r}.")
        if policy_lm is not None and not isinstance(policy_lm, dspy.BaseLM):
            raise ValueError(f"policy_lm must be a dspy.LM, got {policy_lm!r}.")
        if feedback_text and not use_feedback:
            raise ValueError("feedback_text=True shows verdicts: it needs use_feedback=True.")
        if writer is not None and not isinstance(writer, PolicyWriter):
            raise ValueError(f"writer must be an instance, e.g. CaseWriter(), got {writer!r}.")
        if writer is not None and writer.needs_feedback_text and not feedback_text:
            raise ValueError(f"{type(writer).__name__} needs feedback_text=True.")
        self.k = k
        self.policy_lm = policy_lm
        self.contrast = contrast
        self.previous_policy = previous_policy
        self.use_feedback = use_feedback
        self.feedback_text = feedback_text
        self.writer = writer
        self.shots = shots
        self._writer = writer if writer is not None else SetWriter()
        self._view = CaseView(verdict=use_feedback, feedback=feedback_text)

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step beside the program's own."""
        return self._writer.calls_to_propose + self._writer.calls_to_learn

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Retrieve, write the policy, and return it with the examples."""
        card = self.require_card()
        if memory.count() == 0:
            return Guidance()
        text = card.key(inputs)
        # R_t and R'_{t,1} are the head of one ranking: it is searched once.
        correct = memory.search(text, max(self._n_shots, self._contrastive.sides[0]), "correct")
        plain = self._examples(correct[: self._n_shots])  # R_t, Eq. 1
        cases = self._contrastive(text, memory, correct=correct)  # R'_t, Eq. 6
        with self._writing():
            written = self._writer.write(
                cases, self._previous(memory), self._view, card, memory
            )  # P_t = g(R'_t), Eq. 3
        return dataclasses.replace(
            plain,
            policies=self._policies(written.rules),
            retrieved={
                **plain.retrieved,
                "correct": tuple(hit.experience.id for hit in cases.correct),
                "wrong": tuple(hit.experience.id for hit in cases.wrong),
            },
            usage=written.usage,
            counts=written.counts,
            memo=written.memo,
        )

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Retrieve the examples alone; no policy is written."""
        if memory.count("correct") == 0 or self._n_shots == 0:
            return Guidance()
        text = self.require_card().key(inputs)
        return self._examples(memory.search(text, self._n_shots, "correct"))

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Let the writer take note of the verdict; the memory itself is the learner's."""
        with self._writing():
            self._writer.learn(experience, self._view, self.require_card(), memory)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the rules that stood behind most right answers, and the last right answers.

        Over the last 200 experiences, each rule counts +1 for a right and -1 for a wrong
        answer given under it; rules that say the same count together; the best of those that
        did more good than harm stay.
        """
        standing: list[tuple[Rule, int]] = []
        for experience in memory.recent(_CONSOLIDATED):
            rules = next((p.rules for p in experience.rollout.guidance.policies.values()), ())
            for rule in rules:
                _count(standing, rule, 1 if experience.correct else -1)
        standing.sort(key=lambda pair: -pair[1])
        best = tuple(rule for rule, votes in standing if votes > 0)[:MAX_RULES]
        shown = memory.recent(self._n_shots, "correct") if self._n_shots else []
        return Guidance(self._policies(best), shots_by_route(shown, self.require_card()))

    @property
    def _n_shots(self) -> int:
        return self.k if self.shots is None else self.shots

    def _examples(self, shown: Sequence[Hit]) -> Guidance:
        experiences = (hit.experience for hit in reversed(shown))
        return Guidance(
            shots=shots_by_route(experiences, self.require_card()),
            retrieved={"shots": tuple(hit.experience.id for hit in shown)},
        )

    def _writing(self) -> Any:
        return dspy.context(lm=self.policy_lm) if self.policy_lm else dspy.context()

    def _previous(self, memory: MemoryView) -> Sequence[Rule]:
        if not self.previous_policy:
            return ()
        last = memory.recent(1)  # P_{t-1}: the policy of the step learned last
        policies = last[0].rollout.guidance.policies if last else {}
        return next((policy.rules for policy in policies.values()), ())

    def _policies(self, rules: tuple[Rule, ...]) -> dict[str, Policy]:
        if not rules:
            return {}
        cases = len({source for rule in rules for source in rule.sources})
        message = (
            f"{len(rules)} rule{'s' * (len(rules) != 1)} from {cases} case{'s' * (cases != 1)}"
        )
        return {
            route: Policy(route, rules, author=self.name, message=message)
            for route in self.require_card().route_names
        }


def _count(standing: list[tuple[Rule, int]], rule: Rule, vote: int) -> None:
    for i, (other, votes) in enumerate(standing):
        if similar(other.text, rule.text):
            standing[i] = (other, votes + vote)
            return
    standing.append((rule, vote))
