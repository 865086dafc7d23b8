"""The first difference between two results, in words for a person and for a policy writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.sql.compare import Row, Scoring, same_columns
from evaluators.sql.runner import Outcome

__all__ = ["difference", "shown_row"]

_MAX_VALUE = 40
_MAX_VALUES = 6


def difference(expected: Outcome, got: Outcome, scoring: Scoring, *, ordered: bool) -> str:
    """Name what makes a result wrong under a scoring, the most telling thing first.

    Returns:
        One or two sentences, at most a few hundred characters, values cut short.
    """
    if not got.rows or not expected.rows:
        return _about_emptiness(expected, got)
    if len(expected.columns) != len(got.columns):
        return (
            f"The result has {_count(len(got.columns), 'column')} ({_names(got.columns)}); "
            f"expected {len(expected.columns)} ({_names(expected.columns)})."
        )
    return (
        _about_column_order(expected, got, scoring)
        or _about_row_order(expected, got, ordered)
        or _about_duplicates(expected, got, scoring)
        or _about_rows(expected, got, scoring)
    )


def shown_row(row: Row) -> str:
    r"""Show a row in SQL's spelling, long values and long rows cut.

    >>> shown_row((None, "it's", 1.5, b"A"))
    "(NULL, 'it''s', 1.5, x'41')"
    """
    values = [_shown(value) for value in row[:_MAX_VALUES]]
    if len(row) > _MAX_VALUES:
        values.append(f"… {len(row) - _MAX_VALUES} more")
    return f"({', '.join(values)})"


def _about_emptiness(expected: Outcome, got: Outcome) -> str:
    if got.rows:
        rows = _count(len(got.rows), "row")
        return f"The query returns {rows}, the first {shown_row(got.rows[0])}; expected no rows."
    if expected.rows:
        rows = _count(len(expected.rows), "row")
        return (
            f"The query returns no rows; expected {rows}, the first {shown_row(expected.rows[0])}."
        )
    return "Both results are empty, which this scoring counts as wrong."


def _about_column_order(expected: Outcome, got: Outcome, scoring: Scoring) -> str:
    if scoring.permutes_columns or len(expected.columns) == 1:
        return ""
    ours, theirs = list(dict.fromkeys(expected.rows)), list(dict.fromkeys(got.rows))
    if not _same(ours, theirs):
        return ""
    return (
        f"The right columns in another order: got ({_names(got.columns)}), expected "
        f"({_names(expected.columns)})."
    )


def _about_row_order(expected: Outcome, got: Outcome, ordered: bool) -> str:
    if not ordered or not _same(expected.rows, got.rows):
        return ""
    pairs = zip(expected.rows, got.rows, strict=True)
    place, (want, have) = next(
        ((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1]),
        (1, (expected.rows[0], got.rows[0])),
    )
    return (
        f"The right rows in another order: row {place} is {shown_row(have)}, "
        f"expected {shown_row(want)}."
    )


def _about_duplicates(expected: Outcome, got: Outcome, scoring: Scoring) -> str:
    if not scoring.counts_duplicates or set(expected.rows) != set(got.rows):
        return ""
    want, have = Counter(expected.rows), Counter(got.rows)
    row = next((row for row in have if have[row] != want[row]), None)
    if row is None:
        return ""
    kind = "Extra duplicate rows" if have[row] > want[row] else "Duplicate rows are missing"
    return (
        f"{kind}: {shown_row(row)} comes {_count(have[row], 'time')}, expected {want[row]} "
        f"({_count(len(got.rows), 'row')} in all, expected {len(expected.rows)})."
    )


def _about_rows(expected: Outcome, got: Outcome, scoring: Scoring) -> str:
    if scoring.counts_duplicates:
        ours, theirs, kind = list(expected.rows), list(got.rows), "row"
    else:
        ours, theirs = list(dict.fromkeys(expected.rows)), list(dict.fromkeys(got.rows))
        plain = len(ours) == len(expected.rows) and len(theirs) == len(got.rows)
        kind = "row" if plain else "distinct row"
    known, given = set(ours), set(theirs)
    missing = [row for row in ours if row not in given]
    extra = [row for row in theirs if row not in known]
    if len(ours) == len(theirs) and missing and extra:
        return _about_values(expected.columns, missing, extra, len(ours))
    parts = [f"The query returns {_count(len(theirs), kind)}; expected {len(ours)}."]
    if missing:
        parts.append(f"Missing: {shown_row(missing[0])}{_and_more(missing)}.")
    if extra:
        parts.append(f"Not expected: {shown_row(extra[0])}{_and_more(extra)}.")
    return " ".join(parts)


def _about_values(
    columns: Sequence[str], missing: Sequence[Row], extra: Sequence[Row], total: int
) -> str:
    want, have = missing[0], extra[0]
    apart = [i for i, (a, b) in enumerate(zip(want, have, strict=True)) if a != b]
    one = len(apart) == 1 and len(want) > 1
    where = f" in column {apart[0] + 1} ({_readable(columns[apart[0]])})" if one else ""
    what = "The row is wrong" if total == 1 else f"{len(missing)} of {total} rows are wrong"
    return f"{what}: got {shown_row(have)}, expected {shown_row(want)}{where}."


def _same(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    try:
        return same_columns(ours, theirs)
    except EvaluationFailed:  # only a nicer sentence is lost
        return False


def _and_more(rows: Sequence[Row]) -> str:
    return f" and {len(rows) - 1} more" if len(rows) > 1 else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(columns: Sequence[str]) -> str:
    shown = [_readable(column) for column in columns[:_MAX_VALUES]]
    return ", ".join(shown + (["…"] if len(columns) > _MAX_VALUES else []))


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        cut = "…" if len(value) > _MAX_VALUE // 2 else ""
        return f"x'{value[: _MAX_VALUE // 2].hex()}{cut}'"
    if isinstance(value, str):
        return "'" + _readable(value.replace("'", "''")) + "'"
    return repr(value)


def _readable(text: str) -> str:
    """Cut a text, and spell out what cannot be printed or would break the line."""
    cut = text[:_MAX_VALUE] + ("…" if len(text) > _MAX_VALUE else "")
    raw = cut.encode("utf-8", "surrogateescape")
    clear = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in clear)
