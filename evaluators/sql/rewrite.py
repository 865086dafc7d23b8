"""Rewritings of a query that the judge may run beside it, made on its tokens.

None of them ever touches the text that a verdict says was run, except the removal of
``DISTINCT`` that defines the test-suite scoring.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from evaluators.sql.text import Token, tokens

__all__ = ["Cut", "cuts", "fix_order", "nulls_last", "orders_rows", "text_as_numbers",
           "without_distinct"]  # fmt: skip


def without_distinct(sql: str) -> str:
    """Return a query without the word DISTINCT, outside literals and quoted names.

    ``IS [NOT] DISTINCT FROM`` is a comparison and stays.

    >>> without_distinct("SELECT count(DISTINCT a), 'DISTINCT' FROM t")
    "SELECT count( a), 'DISTINCT' FROM t"
    """
    out: list[str] = []
    before = ""
    for token in tokens(sql):
        if token.keyword == "DISTINCT" and before not in ("IS", "NOT"):
            # A blank keeps the neighbours apart where only a comment or quote did.
            out.append("" if out and out[-1].endswith((" ", "\n", "\t", "(")) else " ")
        else:
            out.append(token.text)
        if token.kind not in ("space", "comment"):
            before = token.keyword
    return "".join(out)


def orders_rows(sql: str) -> bool:
    """Tell whether a query has ORDER BY anywhere, as the test-suite script asks.

    >>> orders_rows("SELECT 'order by' FROM t"), orders_rows("SELECT a FROM t order  by a")
    (False, True)
    """
    words = [t.keyword for t in tokens(sql) if t.kind not in ("space", "comment")]
    return ("ORDER", "BY") in itertools.pairwise(words)


@dataclass(frozen=True, slots=True)
class Cut:
    """One place where a query cuts its rows off, or ends.

    Attributes:
        at: Offset of its LIMIT, or of the query's end.
        terms: Its ORDER BY terms as ``(start, end)`` offsets; empty without ORDER BY.
        outermost: It belongs to the whole query, not to a part in parentheses.
        limited: It has a LIMIT.
    """

    at: int
    terms: tuple[tuple[int, int], ...]
    outermost: bool
    limited: bool

    @property
    def ordered(self) -> bool:
        """True when there is an ORDER BY."""
        return bool(self.terms)


def cuts(sql: str) -> list[Cut]:
    """Find every LIMIT of a query with the ORDER BY before it, and the query's own end.

    >>> [(c.outermost, c.limited, len(c.terms)) for c in cuts(
    ...     "SELECT a FROM (SELECT a FROM t ORDER BY b, c LIMIT 3) ORDER BY a")]
    [(False, True, 2), (True, False, 1)]
    """
    found: list[Cut] = []
    stack: list[_Level] = [_Level()]
    real = [t for t in tokens(sql) if t.kind not in ("space", "comment")]
    for token, following in zip(real, [*real[1:], None], strict=False):
        level = stack[-1]
        if token.text == "(" and token.kind == "mark":
            level.saw(token)
            stack.append(_Level())
            continue
        if token.text == ")" and token.kind == "mark" and len(stack) > 1:
            stack.pop()
            stack[-1].saw(token)
            continue
        if token.keyword == "ORDER" and following is not None and following.keyword == "BY":
            level.start_order()
        elif token.keyword == "LIMIT":
            found.append(Cut(token.start, level.finish(), len(stack) == 1, True))
        else:
            level.saw(token)
    if not any(cut.outermost for cut in found):
        end = real[-1].end if real else len(sql)
        found.append(Cut(end, stack[0].finish(), True, False))
    return found


def fix_order(sql: str, columns: int, direction: str) -> str:
    """Break every tie at a cut by the output columns, in one direction.

    Each result is one that the query itself may give: further sort terms only choose among
    rows that its own ORDER BY leaves equal. Columns are named by number, which works whatever
    the select list holds; of an inner query only the first is sure to exist.
    """
    edits: list[tuple[int, int, str]] = []
    for cut in cuts(sql):
        numbers = range(1, (columns if cut.outermost else 1) + 1)
        extra = ", ".join(f"{number} {direction}" for number in numbers)
        edits.append((cut.at, cut.at, f", {extra} " if cut.ordered else f" ORDER BY {extra} "))
    return _edit(sql, edits)


def nulls_last(sql: str) -> str:
    """Send NULL keys to the end wherever rows are cut off after sorting."""
    edits = [
        (end, end, " NULLS LAST")
        for cut in cuts(sql)
        if cut.limited
        for start, end in cut.terms
        if "NULLS" not in _keywords(sql[start:end])
    ]
    return _edit(sql, edits)


def text_as_numbers(sql: str) -> str:
    """Sort text keys that spell numbers as those numbers, wherever rows are cut off."""
    edits: list[tuple[int, int, str]] = []
    for cut in cuts(sql):
        for start, end in cut.terms if cut.limited else ():
            real = [t for t in tokens(sql[start:end]) if t.kind not in ("space", "comment")]
            while real and real[-1].keyword in ("ASC", "DESC", "NULLS", "FIRST", "LAST"):
                real.pop()
            number = len(real) == 1 and real[0].kind == "number"
            # A column number would turn into a constant; an inner query holds cuts of its own.
            if not real or number or any(t.keyword == "SELECT" for t in real):
                continue
            stop = start + real[-1].end
            key = sql[start:stop]
            edits.append(
                (
                    start,
                    stop,
                    f"CASE WHEN typeof({key}) = 'text' AND ({key}) = CAST(({key}) AS NUMERIC) "
                    f"THEN CAST(({key}) AS NUMERIC) ELSE ({key}) END",
                )
            )
    return _edit(sql, edits)


class _Level:
    """What is known of the query inside one pair of parentheses."""

    def __init__(self) -> None:
        self.order: list[list[Token]] | None = None

    def start_order(self) -> None:
        self.order = [[]]

    def saw(self, token: Token) -> None:
        if self.order is None:
            return
        if token.kind == "mark" and token.text == ",":
            self.order.append([])
        elif not (token.keyword == "BY" and self.order == [[]]):
            self.order[-1].append(token)

    def finish(self) -> tuple[tuple[int, int], ...]:
        terms = tuple((term[0].start, term[-1].end) for term in self.order or () if term)
        self.order = None
        return terms


def _keywords(sql: str) -> set[str]:
    return {t.keyword for t in tokens(sql)}


def _edit(sql: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql
