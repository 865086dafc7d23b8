"""What the page of an audit shows of an instruction: what caused it, and what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drpg_dspy.analysis.audit import Answered, Paired
from drpg_dspy.analysis.audit_reading import (
    AuditedItem,
    Cause,
    InstructionAudit,
    paired_items,
    read_causes,
)
from drpg_dspy.memory.base import Memory
from drpg_dspy.optimizers.corrections.traces import ModuleGraph, show_calls
from drpg_dspy.types import Feedback, Rollout

__all__ = ["CauseView", "FlipView", "InstructionView", "instruction_view"]

MOST_FLIPS = 20
"""Flips shown in full for an instruction and part; all of them stand in the table."""

_LONGEST = 700


@dataclass(frozen=True, slots=True)
class CauseView:
    """A failure behind an instruction.

    Attributes:
        item: What was asked, by its id.
        asked: The inputs, in words.
        trajectory: Its calls, as the diagnosis saw them.
        answer: What the program answered.
        judge: What the judge said.
        correction: What the diagnosis had the route told.
    """

    item: str
    asked: str
    trajectory: str
    answer: str
    judge: str
    correction: str


@dataclass(frozen=True, slots=True)
class FlipView:
    """An item whose verdict changed.

    Attributes:
        item: Its id.
        fixed: It became right; else it became wrong.
        asked: The inputs, in words.
        steps: What changed: route, what it gave before, what it gave after.
        judges: What the judge said before and after.
        others: Other instructions that the calls after had.
    """

    item: str
    fixed: bool
    asked: str
    steps: tuple[tuple[str, str, str], ...]
    judges: tuple[str, str]
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstructionView:
    """One instruction's page.

    Attributes:
        anchor: Its place on the page.
        run: Name of the run.
        audit: The instruction.
        causes: Failures behind it.
        trial: Its flips on the selection items.
        measured: Flips of the measured items that had it.
        reached: How many measured items had it.
        figures: What became of these.
        left_out: Flips that are not shown.
    """

    anchor: str
    run: str
    audit: InstructionAudit
    causes: tuple[CauseView, ...]
    trial: tuple[FlipView, ...]
    measured: tuple[FlipView, ...]
    reached: int
    figures: Paired
    left_out: int


def instruction_view(
    run: str,
    number: int,
    one: InstructionAudit,
    memory: Memory,
    items: Sequence[AuditedItem],
    scoring: str,
    before: Memory | None = None,
) -> InstructionView:
    """Gather what is shown of an instruction.

    Args:
        run: Name of the run.
        number: Of the instruction on the page.
        one: The instruction.
        memory: The run's.
        items: The measured ones.
        scoring: By which they flip.
        before: Where the answers from before are; ``None`` = in the same memory.
    """
    decision = one.decision
    had = [item for item in items if decision.id in _given(item)]
    figures = paired_items(had, scoring)
    by_id = {item.id: item for item in had}
    flips = [(id, True) for id in figures.fixed] + [(id, False) for id in figures.broken]
    trial = _trial_flips(one)
    measured = (
        _flip(
            id,
            fixed,
            (before or memory).rollout(by_id[id].before.rollout),
            memory.rollout(by_id[id].after.rollout),
            ((before or memory), memory),
            tuple(sorted(_given(by_id[id]) - {decision.id})),
        )
        for id, fixed in flips[:MOST_FLIPS]
    )
    tried = (
        _flip(id, fixed, memory.rollout(was.rollout), memory.rollout(now.rollout), (memory, memory))
        for id, fixed, was, now in trial[:MOST_FLIPS]
    )
    return InstructionView(
        anchor=f"instruction-{number}",
        run=run,
        audit=one,
        causes=tuple(_cause(cause) for cause in read_causes(memory, decision)),
        trial=tuple(tried),
        measured=tuple(measured),
        reached=len(had),
        figures=figures,
        left_out=max(0, len(flips) - MOST_FLIPS) + max(0, len(trial) - MOST_FLIPS),
    )


def _given(item: AuditedItem) -> set[str]:
    """Return the instructions that the calls after had, where a module with them was called."""
    return {
        id for route, ids in item.after.given.items() if route in item.after.called for id in ids
    }


def _trial_flips(one: InstructionAudit) -> list[tuple[str, bool, Answered, Answered]]:
    paired = one.trial
    if paired is None:
        return []
    flips = [(id, True) for id in paired.fixed] + [(id, False) for id in paired.broken]
    return [(id, fixed, one.before[id], one.after[id]) for id, fixed in flips]


def _cause(cause: Cause) -> CauseView:
    rollout = cause.rollout
    return CauseView(
        item=cause.id,
        asked=_fields(rollout.inputs),
        trajectory=show_calls(ModuleGraph.of(rollout)),
        answer=_answer(rollout),
        judge=_said(cause.feedback),
        correction=cause.correction,
    )


def _flip(
    item: str,
    fixed: bool,
    before: Rollout,
    after: Rollout,
    memories: tuple[Memory, Memory],
    others: tuple[str, ...] = (),
) -> FlipView:
    was, now = _steps(before), _steps(after)
    places = list(dict.fromkeys([*was, *now]))
    steps = tuple(
        (place, was.get(place, "(not called)"), now.get(place, "(not called)"))
        for place in places
        if was.get(place) != now.get(place)
    )
    judges = (
        _said(memories[0].feedback(before.id)),
        _said(memories[1].feedback(after.id)),
    )
    return FlipView(item, fixed, _fields(after.inputs), steps, judges, others)


def _steps(rollout: Rollout) -> dict[str, str]:
    """Return what each call gave, by its route; a route's further calls are numbered."""
    found: dict[str, str] = {}
    calls: dict[str, int] = {}
    for call in rollout.trace:
        calls[call.route] = calls.get(call.route, 0) + 1
        number = f" ({calls[call.route]})" if calls[call.route] > 1 else ""
        gave = call.error if call.outputs is None else _fields(call.outputs)
        found[f"{call.route}{number}"] = gave
    found["answer"] = _answer(rollout)
    return found


def _answer(rollout: Rollout) -> str:
    return f"raised {rollout.error}" if rollout.outputs is None else _fields(rollout.outputs)


def _said(feedback: Feedback | None) -> str:
    if feedback is None:
        return "(no verdict)"
    score = f"score {feedback.score:g}" if feedback.judged else "not judged"
    return f"{score}: {_cut(feedback.text)}" if feedback.text else score


def _fields(values: Mapping[str, Any]) -> str:
    return "\n".join(_lines(values.items()))


def _lines(values: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, value in values:
        yield f"{name}: {_cut(value if isinstance(value, str) else repr(value))}"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} [… {len(text) - _LONGEST:,} characters cut]"
