"""A gate before any method: what it writes must win a trial before calls are given it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from drpg_dspy.arguments import number, whole
from drpg_dspy.exceptions import BudgetSpent
from drpg_dspy.judging import to_feedback
from drpg_dspy.memory.base import Memory, MemoryView
from drpg_dspy.optimizers.around import Around
from drpg_dspy.optimizers.base import OnlineOptimizer, Rerun
from drpg_dspy.optimizers.trial import Judge, Replay, Shadow, by_chance, lower_end
from drpg_dspy.types import Experience, Guidance, Policy, Rule, Usage
from drpg_dspy.usage import Purse, paid_from

__all__ = ["Gated"]

_FEWEST_WATCHED = 10
_DECISIONS_KEPT = 50
_REPLAY = Replay()

Texts = dict[str, list[dict[str, Any]]]
"""Rules by route, as plain values."""


class Gated(Around):
    """Give calls a policy only after it has beaten the one that stands.

    Every ``every`` verdicts the guarded method is asked for its policy. If that differs from the
    one that stands (at first none at all), both are tried on the same cases: questions that only
    the candidate gets right against those that only the standing one does. The candidate is
    adopted when it is ahead and the exact one-sided McNemar test gives at most ``level``; in
    every other case nothing changes. The examples that a method retrieves are not gated: both
    sides of a trial see those that the case was answered with.

    What was adopted is watched. Once at least ten verdicts came under it and their mean is below
    the band of the policy before (Wilson's 95 % interval of its last verdicts), that policy
    stands again. Of verdicts on one answer the last counts.

    What people put above it is no part of it: pinned rules and constraints are given as they stand,
    in calls and in trials, and what stands is watched beneath them.

    For a method that writes a policy for each question, such as DRPG, a gate makes one of them
    stand for all; calls then cost no policy writing, trials do.

    Args:
        optimizer: The method to guard.
        judge: Judges a new answer to an old question; from labelled examples
            :func:`~drpg_dspy.optimizers.trial.judged_by`. Questions that it does not know are no
            part of a trial; where it has a method ``knows(inputs)``, they are not asked either.
        trial: :class:`~drpg_dspy.optimizers.trial.Replay` or
            :class:`~drpg_dspy.optimizers.trial.Shadow`, each with its own bound on LM calls.
        every: Verdicts from one trial to the next, at least 1.
        level: Adopt at this p-value at most, in (0, 0.5].
        watch: Verdicts of the policy before that make its band, at least 10.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.

    Source: ours. Off unless it is put around a method, so that figures stay comparable.
    """

    name = "gated"

    def __init__(
        self,
        optimizer: OnlineOptimizer,
        judge: Judge,
        *,
        trial: Replay | Shadow = _REPLAY,
        every: int = 10,
        level: float = 0.1,
        watch: int = 50,
    ) -> None:
        if not isinstance(optimizer, OnlineOptimizer):
            raise ValueError(f"optimizer must be the method to guard, got {optimizer!r}.")
        if isinstance(optimizer, Gated):
            raise ValueError("This optimizer is gated already.")
        if not callable(judge):
            raise ValueError(
                "judge must be a function of inputs and answer, e.g. judged_by(examples, metric), "
                f"got {judge!r}."
            )
        if not isinstance(trial, (Replay, Shadow)):
            raise ValueError(f"trial must be a Replay or a Shadow, got {trial!r}.")
        self.optimizer = optimizer
        self.judge = judge
        self.trial = trial
        self.every = whole("every", every, 1)
        self.level = number("level", level, 0, 0.5)
        self.watch = whole("watch", watch, _FEWEST_WATCHED)
        self._rerun: Rerun | None = None
        self._threshold = 0.5
        self._standing: Texts = {}
        self._before: Texts = {}
        self._band: float | None = None
        self._verdicts: list[tuple[str, int]] = []  # by answer: a verdict may be revised
        self._seen = 0
        self._candidate: Texts = {}
        self._pairs: list[list[int]] = []
        self._spent = 0
        self.decisions: list[dict[str, Any]] = []

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step: what the method learns, one policy of it, and a trial."""
        return 2 * self.optimizer.max_lm_calls + self.trial.calls

    @property
    def standing(self) -> dict[str, Policy]:
        """The policies that calls are given now, by route."""
        return _policies(self._standing, self.optimizer.name)

    @property
    def learns_from_unreadable(self) -> bool:  # type: ignore[override]
        """True: a policy that makes replies unreadable has to be noticed."""
        return True

    def bind_memory(self, memory: Memory) -> None:
        """Let the guarded method know as well."""
        super().bind_memory(memory)
        self._threshold = memory.threshold

    def equip(self, rerun: Rerun) -> None:
        """Be given the program, to answer cases with."""
        super().equip(rerun)
        self._rerun = rerun

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the guarded method's examples with the policies that stand."""
        return self._with_standing(self.optimizer.propose_plain(inputs, memory))

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Let the method learn; watch what stands; begin, go on with or decide a trial."""
        if self.optimizer.learns_from_unreadable or not experience.rollout.failed:
            self.optimizer.update(experience, memory)
        if self._revised(experience, memory):
            return
        self._seen += 1
        if _stood(experience.rollout.guidance.policies, self._standing):
            self._verdicts.append((experience.id, int(experience.correct)))
            self._verdicts = self._verdicts[-self.watch :]
            self._watch()
        if experience.rollout.failed:
            return  # no case to try anything on
        if self._candidate:
            self._shadow(experience)
        elif self._seen % self.every == 0:
            self._begin(experience, memory)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Return what the method keeps, with the policies that stand instead of its own."""
        return self._with_standing(self.optimizer.consolidate(memory))

    def state_dict(self) -> dict[str, Any]:
        """Return what stands, what stood before, the trial under way, and the method's state."""
        return {
            "standing": self._standing,
            "before": self._before,
            "band": self._band,
            "verdicts": [list(each) for each in self._verdicts],
            "seen": self._seen,
            "candidate": self._candidate,
            "pairs": self._pairs,
            "spent": self._spent,
            "decisions": self.decisions,
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self._standing = dict(state["standing"])
        self._before = dict(state["before"])
        self._band = state["band"]
        self._verdicts = [
            (str(each[0]), int(each[1])) if isinstance(each, list) else ("", int(each))
            for each in state["verdicts"]  # before, they had no names
        ]
        self._seen = state["seen"]
        self._candidate = dict(state["candidate"])
        self._pairs = [list(pair) for pair in state["pairs"]]
        self._spent = state["spent"]
        self.decisions = [dict(one) for one in state["decisions"]]
        self.optimizer.load_state_dict(state["optimizer"])

    def _with_standing(self, guidance: Guidance) -> Guidance:
        """Return a guidance with what stands instead of what was learned, beneath constraints."""
        required = {
            route: tuple(rule for rule in policy.rules if rule.required)
            for route, policy in guidance.policies.items()
        }
        return dataclasses.replace(
            guidance, policies=_beneath(required, self._standing, self.optimizer.name)
        )

    def _revised(self, experience: Experience, memory: MemoryView) -> bool:
        """Put a revised verdict in the place of the one before; tell whether it is one."""
        known = memory.experience(experience.id) is not None
        at = next((i for i, (id, _) in enumerate(self._verdicts) if id == experience.id), None)
        if at is not None:
            self._verdicts[at] = (experience.id, int(experience.correct))
            self._watch()
        return known or at is not None

    def _begin(self, experience: Experience, memory: MemoryView) -> None:
        proposed = self.optimizer.propose(experience.rollout.inputs, memory)
        candidate = _plain(proposed.policies)
        if not candidate or _texts(candidate) == _texts(self._standing):
            return
        self._candidate, self._pairs, self._spent = candidate, [], 0
        if isinstance(self.trial, Shadow):
            return
        try:
            for case in memory.recent(self.trial.cases):
                if not self._pair(case):
                    break
        except Exception:  # the learner says why; the next trial begins anew
            self._log("broken off", 0, 0, len(self._pairs))
            self._candidate, self._pairs, self._spent = {}, [], 0
            raise
        self._decide()

    def _shadow(self, experience: Experience) -> None:
        if not self._pair(experience) or len(self._pairs) >= self.trial.cases:
            self._decide()

    def _pair(self, case: Experience) -> bool:
        """Add one case's verdicts under both; return whether the trial can pay more."""
        purse = Purse(self._exceeded, Usage(calls=self._spent))
        stood = _stood(case.rollout.guidance.policies, self._standing)
        try:
            with paid_from(purse):
                after = self._verdict(case, self._candidate)
                known = stood or after is None
                now = int(case.correct) if known else self._verdict(case, self._standing)
        except BudgetSpent:
            if not purse.why:  # it is not this trial's budget
                raise
            return False
        finally:
            self._spent = purse.total().calls
        if after is not None and now is not None:
            self._pairs.append([now, after])
        return True

    def _verdict(self, case: Experience, texts: Texts) -> int | None:
        """Answer a case under policies, with the examples it had; ``None`` = not judged."""
        if self._rerun is None:
            raise ValueError(
                "A gate tries policies with the program: give it to OnlinePolicyOptimizer."
            )
        knows = getattr(self.judge, "knows", None)
        if knows is not None and not knows(case.rollout.inputs):
            return None
        served = case.rollout.guidance.policies
        people = {
            route: tuple(rule for rule in policy.rules if rule.pinned)
            for route, policy in served.items()
        }
        policies = _beneath(people, texts, self.optimizer.name)
        guidance = Guidance(policies=policies, shots=case.rollout.guidance.shots)
        rollout = self._rerun(case.rollout.inputs, guidance)
        if rollout.failed:
            return 0
        verdict = self.judge(case.rollout.inputs, rollout.answer)
        score = math.nan if verdict is None else to_feedback(verdict).score
        return None if math.isnan(score) else int(score >= self._threshold)

    def _exceeded(self, spent: Usage, seconds: float) -> str:
        limit = self.trial.calls
        return f"the trial's {limit} LM calls are used up" if spent.calls >= limit else ""

    def _decide(self) -> None:
        fixed = sum(pair == [0, 1] for pair in self._pairs)
        broken = sum(pair == [1, 0] for pair in self._pairs)
        adopted = fixed > broken and by_chance(fixed, broken) <= self.level
        self._log("adopted" if adopted else "kept", fixed, broken, len(self._pairs))
        if adopted:
            n, right = len(self._verdicts), self._right()
            self._band = lower_end(right, n) if n >= _FEWEST_WATCHED else None
            self._before, self._standing, self._verdicts = self._standing, self._candidate, []
        self._candidate, self._pairs, self._spent = {}, [], 0

    def _watch(self) -> None:
        """Let the policy before stand again where what was adopted falls below its band."""
        n = len(self._verdicts)
        if self._band is None or n < _FEWEST_WATCHED or self._right() / n >= self._band:
            return
        self._log("rolled back", 0, 0, n)
        self._standing, self._before = self._before, {}
        self._band, self._verdicts = None, []
        # A trial under way was against what stands no more.
        self._candidate, self._pairs, self._spent = {}, [], 0

    def _right(self) -> int:
        return sum(correct for _, correct in self._verdicts)

    def _log(self, what: str, fixed: int, broken: int, n: int) -> None:
        entry = {
            "at": self._seen,
            "what": what,
            "fixed": fixed,
            "broken": broken,
            "n": n,
            "calls": self._spent,
            "rules": {route: [rule["text"] for rule in rules] for route, rules in self._tried()},
        }
        self.decisions = [*self.decisions, entry][-_DECISIONS_KEPT:]

    def _tried(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return list((self._candidate or self._standing).items())


def _plain(policies: Mapping[str, Policy]) -> Texts:
    """Return what was learned, as plain values: without the rules that people put there."""
    learned = {
        route: [rule for rule in policy.rules if not rule.pinned]
        for route, policy in policies.items()
    }
    return {
        route: [{**dataclasses.asdict(rule), "sources": list(rule.sources)} for rule in rules]
        for route, rules in learned.items()
        if rules
    }


def _policies(texts: Texts, author: str) -> dict[str, Policy]:
    return {
        route: Policy(
            route,
            tuple(Rule(**{**rule, "sources": tuple(rule["sources"])}) for rule in rules),
            author=author,
            message="adopted by the gate",
        )
        for route, rules in texts.items()
    }


def _beneath(
    people: Mapping[str, tuple[Rule, ...]], texts: Texts, author: str
) -> dict[str, Policy]:
    """Return policies with people's rules first in them."""
    policies = _policies(texts, author)
    for route, rules in people.items():
        if rules:
            said = {rule.text for rule in rules}
            own = policies.get(route) or Policy(route, author=rules[0].author)
            rest = tuple(rule for rule in own.rules if rule.text not in said)
            policies[route] = dataclasses.replace(own, rules=(*rules, *rest))
    return policies


def _stood(served: Mapping[str, Policy], standing: Texts) -> bool:
    """Tell whether a call had what stands, whatever people put above it."""
    for route in {*served, *standing}:
        rules = served[route].rules if route in served else ()
        wanted = {rule["text"] for rule in standing.get(route, ())}
        learned = {rule.text for rule in rules if not rule.pinned}
        if not learned <= wanted <= {rule.text for rule in rules}:
            return False
    return True


def _texts(texts: Texts) -> dict[str, list[str]]:
    return {route: [rule["text"] for rule in rules] for route, rules in texts.items()}
