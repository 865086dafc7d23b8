"""Says in a line where a result first departs from what was expected."""

from __future__ import annotations

import contextlib
from typing import Any

__all__ = ["difference"]

_MOST_SHOWN = 120


def difference(result: Any, expected: Any) -> str:
    """Return the first difference in words, or ``""`` where none is found.

    >>> difference([1, 2], [1, 3])
    'At [1]: expected 3, got 2.'
    >>> difference((1,), [1, 2])
    'Expected list of length 2, got tuple of length 1.'
    """
    with contextlib.suppress(Exception):  # results compare in ways of their own
        return _between(result, expected, "")
    return ""


def _between(result: Any, expected: Any, place: str) -> str:
    kind = type(expected).__name__
    if kind == "DataFrame" and type(result) is type(expected):
        return _frames(result, expected, place)
    if kind in ("Series", "Index") and type(result) is type(expected):
        return _series(result, expected, place)
    if kind in ("DataFrame", "Series") and type(result) is not type(expected):
        return _words(place, _named(expected), _named(result))
    if hasattr(expected, "toarray") and hasattr(result, "toarray"):
        return _between(result.toarray(), expected.toarray(), place)
    if hasattr(expected, "shape") and hasattr(result, "shape"):
        return _arrays(result, expected, place)
    if isinstance(expected, dict) and isinstance(result, dict):
        return _dicts(result, expected, place)
    if isinstance(expected, (list, tuple)) and isinstance(result, (list, tuple)):
        return _sequences(result, expected, place)
    if type(result) is not type(expected) and not _alike(result, expected):
        return _words(place, _named(expected), _named(result))
    return "" if _same(result, expected) else _words(place, _short(expected), _short(result))


def _frames(result: Any, expected: Any, place: str) -> str:
    if list(result.columns) != list(expected.columns):
        return _words(f"{place} columns", _short(list(expected.columns)), _short(list(result)))
    if len(result) != len(expected):
        return _words(place, f"{len(expected)} rows", f"{len(result)} rows")
    if not _same(result.index, expected.index):
        return _words(f"{place} index", _short(list(expected.index)), _short(list(result.index)))
    for number, column in enumerate(expected.columns):
        found = _series(result.iloc[:, number], expected.iloc[:, number], f"{place} {column!r}")
        if found:
            return found
    return ""


def _series(result: Any, expected: Any, place: str) -> str:
    if len(result) != len(expected):
        return _words(place, f"length {len(expected)}", f"length {len(result)}")
    for number, (got, wanted) in enumerate(zip(result, expected, strict=True)):
        if not _same(got, wanted):
            return _words(f"{place} row {number}", _short(wanted), _short(got))
    if getattr(result, "name", None) != getattr(expected, "name", None):
        return _words(f"{place} name", _short(expected.name), _short(result.name))
    if result.dtype != expected.dtype:
        return _words(f"{place} dtype", str(expected.dtype), str(result.dtype))
    index = getattr(result, "index", None)
    if index is not None and not _same(index, expected.index):
        return _words(f"{place} index", _short(list(expected.index)), _short(list(index)))
    return ""


def _arrays(result: Any, expected: Any, place: str) -> str:
    if tuple(result.shape) != tuple(expected.shape):
        return _words(f"{place} shape", str(tuple(expected.shape)), str(tuple(result.shape)))
    flat, wanted = result.reshape(-1).tolist(), expected.reshape(-1).tolist()
    for number, (got, want) in enumerate(zip(flat, wanted, strict=True)):
        if not _same(got, want):
            where = f"{place} element {number}" if len(wanted) > 1 else place
            return _words(where, _short(want), _short(got))
    if result.dtype != expected.dtype:
        return _words(f"{place} dtype", str(expected.dtype), str(result.dtype))
    return ""


def _dicts(result: dict[Any, Any], expected: dict[Any, Any], place: str) -> str:
    if result.keys() != expected.keys():
        return _words(f"{place} keys", _short(list(expected)), _short(list(result)))
    for name, wanted in expected.items():
        found = _between(result[name], wanted, f"{place}[{name!r}]")
        if found:
            return found
    return ""


def _sequences(result: Any, expected: Any, place: str) -> str:
    if len(result) != len(expected):
        return _words(place, _named(expected), _named(result))
    for number, (got, wanted) in enumerate(zip(result, expected, strict=True)):
        found = _between(got, wanted, f"{place}[{number}]")
        if found:
            return found
    return ""


def _same(left: Any, right: Any) -> bool:
    if hasattr(left, "equals"):
        return bool(left.equals(right))
    if isinstance(left, float) and isinstance(right, float):
        close = abs(left - right) <= 1e-8 + 1e-5 * abs(right)
        return close or left == right or (left != left and right != right)
    equal = left == right
    both_missing = _is_missing(left) and _is_missing(right)
    return both_missing or (bool(equal) if not hasattr(equal, "all") else bool(equal.all()))


def _alike(left: Any, right: Any) -> bool:
    """Compare values of two kinds; those that cannot be compared differ."""
    try:
        return _same(left, right)
    except Exception:  # noqa: BLE001 - results compare in ways of their own
        return False


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NaTType", "NAType") or value != value


def _named(value: Any) -> str:
    sized = f" of length {len(value)}" if isinstance(value, (list, tuple, dict, set, str)) else ""
    if hasattr(value, "shape"):
        sized = f" of shape {tuple(value.shape)}"
    if not sized or isinstance(value, str):
        sized = f" {_short(value)}"
    return type(value).__name__ + sized


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"


def _words(place: str, expected: str, got: str) -> str:
    place = place.strip()
    opening = f"At {place}: expected" if place else "Expected"
    return f"{opening} {expected}, got {got}."
