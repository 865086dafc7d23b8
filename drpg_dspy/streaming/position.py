"""Where a run stands, read from its memory alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from drpg_dspy.analysis.summary import Tally, standing
from drpg_dspy.memory.base import Memory

__all__ = ["Position", "find_position", "is_stream_step", "last_step", "rollout_name"]

_PAGE = 5000


@dataclass(slots=True)
class Position:
    """Where a run stands.

    Attributes:
        step: The last step that needs no prediction any more; 0 = none.
        waiting: ``(step, rollout id)`` of predictions whose feedback is still to come, in order.
        failures: Failed steps in a row up to ``step``.
        last_error: What the last failed step raised; ``""`` = none failed.
        attempts: For steps that were predicted before: how often.
        tally: What was met and spent so far.
    """

    tally: Tally
    step: int = 0
    waiting: deque[tuple[int, str]] = field(default_factory=deque)
    failures: int = 0
    last_error: str = ""
    attempts: Counter[int] = field(default_factory=Counter)

    def name_next(self) -> str:
        """Return the id of the rollout of the next step."""
        return rollout_name(self.step + 1, self.attempts[self.step + 1] + 1)


def rollout_name(step: int, attempt: int = 1) -> str:
    """Return the id of a step's rollout; a further attempt after a failure gets its number.

    >>> rollout_name(41), rollout_name(41, attempt=2)
    ('00041', '00041.2')
    """
    return f"{step:05d}" if attempt == 1 else f"{step:05d}.{attempt}"


def is_stream_step(rollout_id: str) -> bool:
    """Tell a stream's rollout from a call made beside it.

    >>> is_stream_step("00041.2"), is_stream_step("9f86d081884c7d65")
    (True, False)
    """
    name = standing(rollout_id)
    return name.isdigit() and len(name) >= 5


def last_step(memory: Memory) -> int:
    """Return the last step of the stream that was predicted; 0 = none.

    One pass over the file; the memory needs no embedder.
    """
    steps = (rollout.step for rollout, _ in memory.rollouts() if is_stream_step(rollout.id))
    return max(steps, default=0)


def find_position(memory: Memory, stop_after_failures: int | None, retry_from: int = 0) -> Position:
    """Read from memory where a run stands.

    A run that ended because of failures goes back to the first of them. Otherwise failed
    steps stay failed, whoever was interrupted in between.

    Args:
        memory: The run.
        stop_after_failures: So many failures in a row stop a run; ``None`` = never.
        retry_from: First failed step of the end on record; 0 = none.
    """
    position = Position(Tally(memory))
    failed: set[str] = set()
    unjudged: list[tuple[int, str]] = []
    for rollout, feedback in memory.rollouts():
        if not is_stream_step(rollout.id):
            continue
        position.tally.add_rollout(rollout)
        position.attempts[rollout.step] += 1
        if rollout.failed:
            failed.add(rollout.id)
            position.last_error = rollout.error
            continue
        position.tally.add_feedback(feedback)
        if feedback is None:
            unjudged.append((rollout.step, rollout.id))

    tail: list[int] = []
    for name in _recorded(memory):
        position.step = int(standing(name))
        if name in failed:
            tail.append(position.step)
        else:
            tail.clear()
    if tail and (min(tail) == retry_from or len(tail) >= (stop_after_failures or len(tail) + 1)):
        position.step = min(tail) - 1
    else:
        position.failures = len(tail)
    position.waiting = deque(sorted(unjudged))
    return position


def _recorded(memory: Memory) -> Iterator[str]:
    """Yield the stream's rollouts in the order in which they were recorded."""
    cursor = 0
    while events := memory.events(after=cursor, limit=_PAGE):
        cursor = events[-1].seq
        for event in events:
            if event.kind == "rollout" and is_stream_step(event.ref):
                yield event.ref
