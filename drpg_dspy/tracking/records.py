"""From the memory's event log to records that a tracker can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from drpg_dspy.memory.base import Event, Memory
from drpg_dspy.plain import to_plain
from drpg_dspy.tracking.base import StepRecord
from drpg_dspy.tracking.metrics import RunningMetrics
from drpg_dspy.types import Feedback, Policy

__all__ = ["RecordBuilder", "record_to_plain", "replay"]

_PAGE = 1000


class RecordBuilder:
    """Turns events into records, in order, each with the figures as of that event.

    Feedback is read from the rollout's history, so a record shows the verdict that its own
    event brought, even when it has been revised by the time the record is built.

    Args:
        memory: Where the events come from.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.metrics = RunningMetrics()
        self._verdicts: Counter[str] = Counter()
        self._last_rollout = ""

    def skip_to(self, cursor: int) -> None:
        """Take in all events up to and including number ``cursor`` without building records."""
        seen = 0
        while seen < cursor:
            events = self.memory.events(after=seen, limit=min(_PAGE, cursor - seen))
            events = [event for event in events if event.seq <= cursor]
            if not events:
                return
            for event in events:
                if event.kind != "policy":
                    self._take(event)
            seen = events[-1].seq

    def build(self, events: Sequence[Event], *, complete: bool) -> list[StepRecord]:
        """Return the records of the next events.

        A policy is shown with the rollout or feedback of its own transaction, which stands
        right behind it in the log.

        Args:
            events: The log's next entries, in order.
            complete: Nothing followed them when they were read. Otherwise policies at the end
                are left for the next call, since their rollout may not be among ``events``.
        """
        records: list[StepRecord] = []
        policies: list[Policy] = []
        for event in events:
            if event.kind == "policy":
                route, _, version = event.ref.rpartition("@")
                policies.append(self.memory.policy(route, int(version)))
                continue
            feedback = self._take(event)
            records.append(self._record(event, feedback, tuple(policies)))
            policies = []
        if policies and complete and self._last_rollout:
            current = self.memory.feedback(self._last_rollout)
            records.append(self._record(events[-1], current, tuple(policies)))
        return records

    def _take(self, event: Event) -> Feedback | None:
        self._last_rollout = event.ref
        if event.kind == "rollout":
            self.metrics.add_rollout(self.memory.rollout(event.ref))
            return None
        history = self.memory.feedback_history(event.ref)
        number = self._verdicts[event.ref]
        self._verdicts[event.ref] += 1
        if event.kind == "retraction":
            feedback = None
        elif number < len(history):
            feedback = history[number][1]
        else:  # a memory that keeps a shorter history than its log
            feedback = self.memory.feedback(event.ref)
        self.metrics.set_feedback(event.ref, feedback)
        return feedback

    def _record(
        self, event: Event, feedback: Feedback | None, policies: tuple[Policy, ...]
    ) -> StepRecord:
        rollout = self.memory.rollout(self._last_rollout)
        return StepRecord(
            seq=event.seq,
            rollout=rollout,
            feedback=feedback,
            policies=policies,
            metrics=self.metrics.figures(rollout, feedback),
            at=event.at,
            kind=event.kind,
        )


def replay(memory: Memory) -> Iterator[StepRecord]:
    """Yield every record of a run, from its first event to its last."""
    builder = RecordBuilder(memory)
    cursor = 0
    limit = _PAGE
    while events := memory.events(after=cursor, limit=limit):
        records = builder.build(events, complete=len(events) < limit)
        yield from records
        if not records and len(events) < limit:
            return
        # A page of nothing but policies is read again together with what follows it.
        limit = _PAGE if records else limit + _PAGE
        cursor = records[-1].seq if records else cursor


def record_to_plain(record: StepRecord) -> dict[str, Any]:
    """Return a record in its plain JSON form, with each policy's text spelled out."""
    plain: dict[str, Any] = to_plain(record, where=f"record {record.seq}")
    for entry, policy in zip(plain["policies"], record.policies, strict=True):
        entry["text"] = policy.text
    guidance = plain["rollout"]["guidance"]
    guidance["policy_texts"] = {r: p.text for r, p in record.rollout.guidance.policies.items()}
    return plain
