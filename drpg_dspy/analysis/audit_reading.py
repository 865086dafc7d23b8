"""From a run's memory to its audit: pairs of answers, and what each instruction came from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.analysis.audit import Answered, Paired, compare_answers
from drpg_dspy.analysis.audit_epochs import Answers, Epoch, read_epochs
from drpg_dspy.memory.base import Memory
from drpg_dspy.optimizers.corrections.decisions import Decision
from drpg_dspy.plain import digest
from drpg_dspy.types import Feedback, Rollout

__all__ = [
    "AuditedItem",
    "Cause",
    "InstructionAudit",
    "Kinds",
    "Side",
    "input_name",
    "paired_items",
    "read_addressed",
    "read_causes",
    "read_decisions",
    "read_epoch_items",
    "read_instructions",
    "read_stream_items",
    "scorings_of",
]

PASS = "pass"
"""The scoring of a judge that has one only: its score reaches the threshold."""

_ALL = "_all"
_STAYED = ("accepted", "adopted")

Kinds = Mapping[str, tuple[str, ...]]
"""What an item may be sorted by, e.g. ``{"category": ("comparison",)}``."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of an item's two answers.

    Attributes:
        rollout: Its id.
        right: By scoring: the verdict; ``None`` = not judged.
        called: Routes that were called.
        given: Ids of the instructions that a route had, by route.
    """

    rollout: str
    right: Mapping[str, bool | None]
    called: frozenset[str] = frozenset()
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def verdict(self, scoring: str) -> bool | None:
        """Return the verdict of a scoring; where the program raised there is one for all."""
        return self.right.get(scoring, self.right[PASS])

    @classmethod
    def of(cls, memory: Memory, rollout: Rollout, feedback: Feedback | None) -> Side:
        """Return what an audit needs of a rollout."""
        return cls(
            rollout.id,
            _verdicts(memory, rollout, feedback),
            frozenset(call.route for call in rollout.trace),
            {
                route: tuple(rule.id for rule in policy.rules)
                for route, policy in rollout.guidance.policies.items()
                if policy.rules
            },
        )


@dataclass(frozen=True, slots=True)
class AuditedItem:
    """One item with the answers from before and after.

    Attributes:
        id: Its name.
        kinds: What it may be sorted by.
        before, after: The answers.
    """

    id: str
    kinds: Kinds
    before: Side
    after: Side

    def changed(self, route: str) -> bool:
        """Tell whether a route was called under another policy after than before."""
        called = route in self.before.called | self.after.called
        return called and self.before.given.get(route) != self.after.given.get(route)


@dataclass(frozen=True, slots=True)
class Cause:
    """A failure that an instruction was written from.

    Attributes:
        id: Of the experience.
        rollout: What happened.
        feedback: What the judge says about it; ``None`` = the verdict was taken back.
        correction: What the diagnosis of this failure had the route told.
    """

    id: str
    rollout: Rollout
    feedback: Feedback | None
    correction: str


@dataclass(frozen=True, slots=True)
class InstructionAudit:
    """An instruction that was accepted or adopted.

    Attributes:
        decision: The one by which it came to stand.
        ended: The one by which it went: retired, withdrawn, superseded or crowded out; ``None`` =
            it stands.
        trial: The selection items without it and with it; ``None`` = it was tried on calls as
            they came, or adopted.
        before, after: The answers behind ``trial``.
    """

    decision: Decision
    ended: Decision | None
    trial: Paired | None
    before: Answers = field(default_factory=dict, repr=False)
    after: Answers = field(default_factory=dict, repr=False)


def scorings_of(items: Iterable[AuditedItem], compare: str | None) -> list[str]:
    """Return the scorings by which items were judged, the one that counted first.

    A judge that gives ``strict_all`` and ``loose_all`` beside its score has two.

    Args:
        items: The items.
        compare: The scoring that the run was started with.
    """
    found = dict.fromkeys(
        name for item in items for side in (item.before, item.after) for name in side.right
    )
    named = [name for name in found if name != PASS]
    if not named:
        return [PASS]
    return sorted(named, key=lambda name: name != compare)


def paired_items(items: Iterable[AuditedItem], scoring: str) -> Paired:
    """Return what became of items under a scoring."""
    items = list(items)
    return compare_answers(
        {one.id: Answered(one.before.rollout, one.before.verdict(scoring)) for one in items},
        {one.id: Answered(one.after.rollout, one.after.verdict(scoring)) for one in items},
    )


def read_epoch_items(memory: Memory, part: str = "test") -> list[AuditedItem]:
    """Return the items of a part before the first finished epoch and after the last.

    Args:
        memory: The run.
        part: ``"test"`` or ``"selection"``.
    """
    epochs = [epoch for epoch in read_epochs(memory) if epoch.finished]
    if not epochs:
        return []
    before, after = epochs[0].before.get(part, {}), epochs[-1].after.get(part, {})
    return [
        AuditedItem(
            item,
            epochs[-1].kinds.get(item, {}),
            _side(memory, before[item]),
            _side(memory, after[item]),
        )
        for item in before
        if item in after
    ]


def read_stream_items(
    before: Memory, after: Memory, known: Mapping[str, tuple[str, Kinds]] | None = None
) -> list[AuditedItem]:
    """Return the items that two runs were both asked, in the order of the second.

    Args:
        before, after: The runs.
        known: Id and kinds of items, by :func:`input_name`; an item that is not in it is called
            after its step.

    A step that was tried again stands as it ended. What one of the runs was not asked, or what
    waits for its verdict, is left out.
    """
    known = known or {}
    first = {name: side for name, _, side in _stream(before)}
    items: dict[str, AuditedItem] = {}
    for name, step, side in _stream(after):
        if name in first:
            id, kinds = known.get(name, (f"step {step}", {}))
            items[name] = AuditedItem(id, kinds, first[name], side)
    return list(items.values())


def input_name(inputs: Mapping[str, Any]) -> str:
    """Return a short name for what was asked."""
    return digest(dict(inputs), length=16)


def read_decisions(memory: Memory) -> list[Decision]:
    """Return every decision of a run's optimizer, the oldest first."""
    found: list[Decision] = []
    while (text := memory.recall(f"nlpg:decision:{len(found) + 1}")) is not None:
        found.append(Decision.from_plain(json.loads(text)))
    return found


def read_instructions(memory: Memory) -> list[InstructionAudit]:
    """Return every instruction that was accepted or adopted, in that order."""
    decisions, epochs = read_decisions(memory), read_epochs(memory)
    found = []
    for place, decision in enumerate(decisions):
        if decision.outcome not in _STAYED:
            continue
        later = (d for d in decisions[place + 1 :] if d.id == decision.id)
        ended = next((d for d in later if d.outcome not in ("tried", *_STAYED)), None)
        before, after = _tried(epochs, decision.id)
        trial = compare_answers(before, after) if before else None
        found.append(InstructionAudit(decision, ended, trial, before, after))
    return found


def read_causes(memory: Memory, decision: Decision) -> list[Cause]:
    """Return the failures that an instruction was written from."""
    causes = []
    for id in decision.sources:
        corrections = json.loads(memory.recall(f"nlpg:gradients:{id}") or "{}")
        said = str(corrections.get(decision.route, ""))
        causes.append(Cause(id, memory.rollout(id), memory.feedback(id), said))
    return causes


def read_addressed(memory: Memory) -> Counter[str]:
    """Return how many failures had a correction for each route."""
    return Counter(
        route
        for rollout, _ in memory.rollouts()
        for route in json.loads(memory.recall(f"nlpg:gradients:{rollout.id}") or "{}")
    )


def _tried(epochs: Sequence[Epoch], id: str) -> tuple[Answers, Answers]:
    for epoch in reversed(epochs):
        for one in epoch.accepted:
            if one.id == id:
                return one.before, one.after
    return {}, {}


def _stream(memory: Memory) -> Iterator[tuple[str, int, Side]]:
    for rollout, feedback in memory.rollouts():
        if rollout.failed or feedback is not None:
            yield input_name(rollout.inputs), rollout.step, Side.of(memory, rollout, feedback)


def _side(memory: Memory, answered: Answered) -> Side:
    rollout = memory.rollout(answered.rollout)
    return Side.of(memory, rollout, memory.feedback(rollout.id))


def _verdicts(
    memory: Memory, rollout: Rollout, feedback: Feedback | None
) -> dict[str, bool | None]:
    if rollout.failed:
        return {PASS: False}
    if feedback is None or not feedback.judged:
        return {PASS: None}
    named = {
        name.removesuffix(_ALL): value >= 1.0
        for name, value in feedback.subscores.items()
        if name.endswith(_ALL)
    }
    return {PASS: memory.is_correct(feedback), **named}
