"""What a gold answer is worth: is it determined by the data, and does agreeing prove anything?

A gold query with ORDER BY … LIMIT may cut through a tie, put a NULL first, or sort numbers as
text. Another right query then gives another answer, and a verdict is a coin toss. Each case is
found by running the query again with a change that is neutral where the data settles the
answer, so nothing is flagged by guessing from its words:

* further sort terms, once ascending and once descending: two results = a tie was cut;
* ``NULLS LAST``: another result = a NULL came first;
* text that spells numbers, sorted as numbers: another result = text was sorted.

This costs two to four more runs of the gold query, once, and only where it has a LIMIT.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluators.sql.database import Fingerprint, quoted
from evaluators.sql.rewrite import cuts, fix_order, nulls_last, text_as_numbers
from evaluators.sql.runner import Outcome

__all__ = ["Gold", "GoldCache"]

Run = Callable[[str], Outcome]

_MAX_ORDER_TERMS = 50
_RANDOM = frozenset({"random", "randomblob"})
_CLOCK = frozenset({"current_date", "current_time", "current_timestamp"})


@dataclass(slots=True)
class Gold:
    """A gold query's result, and what is found out about it when first asked.

    Attributes:
        database: The file it ran on.
        sql: The query as it was run.
        ordered: The order of rows counts.
        outcome: What came of it.
    """

    database: Path
    sql: str
    ordered: bool
    outcome: Outcome
    _notes: dict[str, str] = field(default_factory=dict)

    def undetermined(self, run: Run) -> str:
        """Say why the data does not determine the rows; ``""`` when nothing speaks against it."""
        return self._note("rows", lambda: _undetermined_rows(self.sql, self.outcome, run))

    def undetermined_order(self, run: Run) -> str:
        """Say why the data does not determine the order of the rows."""
        return self._note("order", lambda: _undetermined_order(self.sql, self.outcome, run))

    def vacuous(self, run: Run) -> str:
        """Say why a result that agrees with this one proves nothing."""
        return self._note("vacuous", lambda: _vacuous(self.outcome, run))

    def _note(self, name: str, find: Callable[[], str]) -> str:
        # Two threads may both find out; they find the same.
        if name not in self._notes:
            self._notes[name] = find()
        return self._notes[name]


class GoldCache:
    """Gold results by file, file state and query; the least used go when it is full.

    Args:
        max_bytes: Rough size of all rows kept.
    """

    def __init__(self, max_bytes: int = 64_000_000) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Fingerprint, str], Gold] = OrderedDict()
        self._bytes = 0

    def get(self, fingerprint: Fingerprint, sql: str) -> Gold | None:
        """Return what is kept for a query on a file in this state."""
        with self._lock:
            gold = self._kept.get((fingerprint, sql))
            if gold is not None:
                self._kept.move_to_end((fingerprint, sql))
            return gold

    def put(self, fingerprint: Fingerprint, sql: str, gold: Gold) -> None:
        """Keep a result, unless it alone would fill a quarter of the cache."""
        size = gold.outcome.size + 500
        with self._lock:
            if size > self.max_bytes // 4 or (fingerprint, sql) in self._kept:
                return
            self._kept[fingerprint, sql] = gold
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, old = self._kept.popitem(last=False)
                self._bytes -= old.outcome.size + 500


def _undetermined_rows(sql: str, outcome: Outcome, run: Run) -> str:
    if outcome.functions & _RANDOM:
        return "it uses random()"
    if outcome.functions & _CLOCK:
        return "it depends on today's date"
    limited = [cut for cut in cuts(sql) if cut.limited]
    if not limited:
        return ""
    width = min(len(outcome.columns), _MAX_ORDER_TERMS)
    base = _bag(run(fix_order(sql, width, "ASC")))
    if base is None:
        return ""
    if _differs(base, run(fix_order(sql, width, "DESC"))):
        unordered = not all(cut.ordered for cut in limited)
        return "LIMIT without ORDER BY" if unordered else "LIMIT cuts through a tie"
    for rewritten, reason in (
        (nulls_last(sql), "a NULL comes first in the order"),
        (text_as_numbers(sql), "numbers stored as text are sorted as text"),
    ):
        if rewritten != sql and _differs(base, run(fix_order(rewritten, width, "ASC"))):
            return reason
    return ""


def _undetermined_order(sql: str, outcome: Outcome, run: Run) -> str:
    width = min(len(outcome.columns), _MAX_ORDER_TERMS)
    up = run(fix_order(sql, width, "ASC"))
    down = run(fix_order(sql, width, "DESC"))
    if up.failure or down.failure or up.rows == down.rows:
        return ""
    return "its sort key leaves rows in any order"


def _vacuous(outcome: Outcome, run: Run) -> str:
    if not outcome.rows:
        return "both results are empty"
    if len(outcome.rows) > 1 or any(outcome.rows[0]):
        return ""
    if all(value is None for value in outcome.rows[0]):
        return "both results are a single NULL"
    if outcome.tables:
        exist = (f"EXISTS (SELECT 1 FROM {quoted(table)})" for table in sorted(outcome.tables))
        probe = run(f"SELECT {' OR '.join(exist)}")
        if not probe.failure and probe.rows == ((0,),):
            return "the tables it reads have no rows"
    return ""


def _bag(outcome: Outcome) -> Counter[tuple[Any, ...]] | None:
    return None if outcome.failure else Counter(outcome.rows)


def _differs(base: Counter[tuple[Any, ...]], outcome: Outcome) -> bool:
    bag = _bag(outcome)
    return bag is not None and bag != base
