"""A run's figures without its texts: what a report of many long runs reads.

A rollout of a text-to-SQL stream has tens of kilobytes of schema and examples. Its figures are
a few dozen numbers that stand first in their rows, so SQLite never touches the pages behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from drpg_dspy.memory import reading
from drpg_dspy.memory.base import StepFigures
from drpg_dspy.memory.rows import decode_feedback, decode_text, decode_usages
from drpg_dspy.memory.store import Store
from drpg_dspy.plain import loads

__all__ = ["read_figures"]

_PAGE = 1000


def read_figures(store: Store) -> Iterator[StepFigures]:
    """Yield the figures of all rollouts by step; no lock is held between pages.

    Args:
        store: The memory file.
    """
    place = (0, 0)
    while True:
        with store.snapshot() as db:
            rows = reading.figures_page(db, place, _PAGE)
        for seq, id, step, failed, verdict, seconds, usage, versions in rows:
            answering, writing = decode_usages(usage)
            yield StepFigures(
                id=decode_text(id),
                step=step,
                failed=bool(failed),
                seconds=seconds,
                answering=answering,
                writing=writing,
                versions=loads(versions),
                feedback=None if verdict is None else decode_feedback(verdict),
            )
            place = (step, seq)
        if len(rows) < _PAGE:
            return
