"""Values as plain JSON: how inputs, predictions and states are written down.

One documented form per kind of value, so that what is written, read and written again is the
same bytes, and what cannot be kept is refused when it is recorded, not at a checkpoint hours
later.

============================  ==================================================
value                         plain form
============================  ==================================================
``None``, bool, int, str      itself (a lone surrogate survives as an escape)
float                         itself; NaN and infinities as ``{"$float": "nan"}``
list, tuple                   list
dict with string keys         dict
set, frozenset                ``{"$set": [...]}``, sorted by their JSON text
bytes                         ``{"$bytes": base64}``
datetime, date, time          ``{"$datetime": iso}``, ``{"$date": …}``, ``{"$time": …}``
Enum member                   the plain form of its value
pydantic model                its ``model_dump(mode="json")`` as a dict
dataclass                     dict of its fields
dspy.Example, Prediction      dict of its fields
============================  ==================================================

Reading back restores floats, sets, bytes and dates; enum members, models and dataclasses come
back as their plain form, because the class may no longer exist where the file is read.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from drpg_dspy.exceptions import StorageError

__all__ = ["digest", "dumps", "from_plain", "loads", "sendable", "to_plain"]

_MAX_DEPTH = 64
_CANONICAL = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def to_plain(value: Any, *, where: str = "value") -> Any:
    """Return ``value`` in its plain JSON form (see the module's table).

    Args:
        value: Anything that a DSPy program takes or returns.
        where: How to name the value in an error, e.g. ``"inputs['history']"``.

    Raises:
        StorageError: The value, or something inside it, has no plain form.

    >>> to_plain({"when": dt.date(2026, 1, 2), "tags": {"b", "a"}})
    {'when': {'$date': '2026-01-02'}, 'tags': {'$set': ['a', 'b']}}
    """
    return _encode(value, where, 0)


def from_plain(value: Any) -> Any:
    """Undo :func:`to_plain` for the kinds that it marks.

    >>> from_plain({"$set": ["a"]}) == {"a"}
    True
    """
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (mark, inner), *_ = value.items()
        if mark == "$float":
            return float(inner)
        if mark == "$bytes":
            return base64.b64decode(inner)
        if mark == "$set":
            return {_hashable(from_plain(item)) for item in inner}
        if mark == "$dict":
            return {key: from_plain(item) for key, item in inner.items()}
        if mark in _DATES:
            return _DATES[mark].fromisoformat(inner)
    return {key: from_plain(item) for key, item in value.items()}


def dumps(value: Any, *, where: str = "value") -> str:
    """Serialise a value as canonical ASCII JSON: equal values give equal text.

    >>> dumps({"b": 1, "a": float("nan")})
    '{"a":{"$float":"nan"},"b":1}'
    """
    return _CANONICAL.encode(to_plain(value, where=where))


def loads(text: str) -> Any:
    """Read what :func:`dumps` wrote."""
    return from_plain(json.loads(text))


def digest(*parts: Any, length: int = 16) -> str:
    """Return a short stable hexadecimal name for the given values.

    >>> digest("a", 1) == digest("a", 1) != digest("a1")
    True
    """
    return hashlib.sha256(dumps(list(parts)).encode()).hexdigest()[:length]


def sendable(value: Any) -> Any:
    r"""Return a value without lone surrogates, which DSPy refuses to send to any model.

    In a text, pairs of surrogates become the character they stand for and lone ones U+FFFD; so
    in lists and dicts of texts. Any other value is returned as it is.

    >>> sendable("half \ud83d"), sendable(["a \ud83d\ude00 pair"])
    ('half �', ['a 😀 pair'])
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if type(value) in (list, tuple):
        return type(value)(sendable(item) for item in value)
    if type(value) is dict:
        return {sendable(name): sendable(item) for name, item in value.items()}
    return value


_DATES: dict[str, Any] = {"$datetime": dt.datetime, "$date": dt.date, "$time": dt.time}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _encode(value: Any, where: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise StorageError(
            f"{where} is nested deeper than {_MAX_DEPTH} levels, or contains itself; "
            "record an id or a flat form instead."
        )
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return _encode(value.value, where, depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, dt.datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, (dt.date, dt.time)):
        return {f"${type(value).__name__.lower()}": value.isoformat()}
    return _encode_container(value, where, depth)


def _encode_container(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        items = [_encode(item, where, depth + 1) for item in value]
        return {"$set": sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
    if hasattr(value, "model_dump"):
        return _encode(value.model_dump(mode="json"), where, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _encode(fields, where, depth + 1)
    if hasattr(value, "toDict") and callable(value.items):  # dspy.Example and Prediction
        return _encode(dict(value.items()), where, depth + 1)
    if isinstance(value, Mapping):
        return _encode_mapping(value, where, depth)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy arrays and scalars
        return _encode(value.tolist(), where, depth + 1)
    raise StorageError(
        f"{where} is of type {type(value).__qualname__}, which has no plain form. Pass text, "
        "numbers, lists, dicts, dates, dataclasses or pydantic models, or leave it out of what is "
        "recorded."
    )


def _encode_mapping(value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, (str, int, float, bool)) and key is not None:
            raise StorageError(f"{where} has the key {key!r}; only strings and numbers are kept.")
        name = key if isinstance(key, str) else json.dumps(key)
        if name in out:
            raise StorageError(f"{where} has two keys that are both written {name!r}.")
        out[name] = _encode(item, f"{where}[{key!r}]", depth + 1)
    if len(out) == 1 and next(iter(out)) in _MARKS:
        return {"$dict": out}  # a user's dict that looks like one of our marks
    return out


_MARKS = frozenset({"$float", "$bytes", "$set", "$dict", *_DATES})
