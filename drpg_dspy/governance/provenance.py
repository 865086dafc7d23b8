"""From a rule to the cases it came from and the calls it was active in, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drpg_dspy.exceptions import UnknownRollout
from drpg_dspy.memory import Memory
from drpg_dspy.types import Feedback, Policy, Rollout, Rule

__all__ = ["Activity", "Case", "Provenance", "Source", "case_of", "rule_provenance"]


@dataclass(frozen=True, slots=True)
class Source:
    """A case that a rule came from.

    Attributes:
        id: The experience's.
        step: Its step; 0 = this memory never saw it.
        key: Its question.
        verdict: ``"correct"``, ``"wrong"``, ``"not judged"``, ``"waiting"`` or ``"unknown"``.
        text: What the judge said.
    """

    id: str
    step: int
    key: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class Activity:
    """Calls, and how they went.

    Attributes:
        steps: Of the calls.
        judged: Those with a score.
        score: Their mean, in [0, 1]; NaN without any.
    """

    steps: tuple[int, ...] = ()
    judged: int = 0
    score: float = math.nan


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a rule came from, and what happened under it.

    Attributes:
        route: Its route.
        rule: The rule, as it was written last.
        versions: Those that have it, oldest first.
        sources: The cases that it came from, in whichever version.
        active: The calls that were given it.
        before: As many calls right before it was first active.
        without: All calls that were not given it.
    """

    route: str
    rule: Rule
    versions: tuple[Policy, ...]
    sources: tuple[Source, ...]
    active: Activity
    before: Activity
    without: Activity


@dataclass(frozen=True, slots=True)
class Case:
    """The other way: what a call was given, and what came of it.

    Attributes:
        rollout: The call.
        verdict: As in :class:`Source`.
        active: Policies that it was given, by route.
        led_to: Rules that name it among their sources, each with the first version that has it.
    """

    rollout: Rollout
    verdict: str
    active: tuple[Policy, ...]
    led_to: tuple[tuple[Policy, Rule], ...]


def rule_provenance(
    memory: Memory, route: str, versions: Sequence[Policy], rule: Rule
) -> Provenance:
    """Return where a rule came from, and what happened under it.

    Args:
        memory: Where it stands.
        route: Its route.
        versions: All of the route's.
        rule: The rule.
    """
    having = [p for p in versions if any(one.text == rule.text for one in p.rules)]
    numbers = {policy.version for policy in having}
    ids = dict.fromkeys(
        source
        for policy in having
        for one in policy.rules
        if one.text == rule.text
        for source in one.sources
    )
    active: list[tuple[int, float]] = []
    without: list[tuple[int, float]] = []
    for figures in memory.figures():
        score = _score(figures.failed, figures.feedback)
        given = figures.versions.get(route, 0) in numbers
        (active if given else without).append((figures.step, score))
    first = min((step for step, _ in active), default=0)
    before = [pair for pair in without if pair[0] < first][-len(active) :] if active else []
    return Provenance(
        route=route,
        rule=rule,
        versions=tuple(having),
        sources=tuple(_source(memory, id) for id in ids),
        active=_activity(active),
        before=_activity(before),
        without=_activity(without),
    )


def case_of(memory: Memory, rollout_id: str) -> Case:
    """Return what a call was given, and the rules that came of it.

    Raises:
        UnknownRollout: This memory never recorded it.
    """
    rollout = memory.rollout(rollout_id)
    led_to: dict[tuple[str, str], tuple[Policy, Rule]] = {}
    for policy in memory.policies():
        for rule in policy.rules:
            if rollout_id in rule.sources:
                led_to.setdefault((policy.route, rule.text), (policy, rule))
    verdict = _verdict(memory, rollout, memory.feedback(rollout_id))
    given = tuple(policy for policy in rollout.guidance.policies.values() if policy.rules)
    return Case(rollout, verdict, given, tuple(led_to.values()))


def _source(memory: Memory, id: str) -> Source:
    try:
        rollout = memory.rollout(id)
    except UnknownRollout:
        return Source(id, 0, "", "unknown", "")
    feedback = memory.feedback(id)
    text = feedback.text if feedback is not None else ""
    return Source(id, rollout.step, rollout.key, _verdict(memory, rollout, feedback), text)


def _verdict(memory: Memory, rollout: Rollout, feedback: Feedback | None) -> str:
    if rollout.failed:
        return "failed"
    if feedback is None:
        return "waiting"
    if not feedback.judged:
        return "not judged"
    return "correct" if memory.is_correct(feedback) else "wrong"


def _score(failed: bool, feedback: Feedback | None) -> float:
    if failed:
        return 0.0
    return math.nan if feedback is None else feedback.score


def _activity(calls: Iterable[tuple[int, float]]) -> Activity:
    found = list(calls)
    scores = [score for _, score in found if not math.isnan(score)]
    mean = sum(scores) / len(scores) if scores else math.nan
    return Activity(tuple(step for step, _ in found), len(scores), mean)
