"""A keeper's reply, whatever it looks like, as edits that can be made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import json_repair

from drpg_dspy.optimizers.corrections.replies import read

__all__ = ["edits_schema", "read_edits", "read_list", "read_objects"]

_MAX_REPLY_CHARS = 40_000
_MAX_EDITS = 100
_MARKER = re.compile(r"\[\[ ## \w+ ## \]\]")


def read_edits(reply: str, field: str) -> list[dict[str, Any]]:
    """Return the edits in a reply: objects with an operation's name in lower case under ``op``.

    An object with the field, a bare array, one edit alone, fenced, or cut off: what is there
    counts, and what is no object is left out.

    Args:
        reply: The raw reply.
        field: The field that holds the edits.

    >>> read_edits('[{"op": "ADD", "text": "Use cents."}, "nonsense"]', "edits")
    [{'op': 'add', 'text': 'Use cents.'}]
    >>> read_edits('{"edits": [{"operation": "Upvote", "id": "r-1"}, {"op": "ad', "edits")
    [{'id': 'r-1', 'op': 'upvote'}, {'op': 'ad'}]
    >>> read_edits("I cannot help with that.", "edits")
    []
    """
    return [
        {**{str(k): v for k, v in item.items() if k != "operation"}, "op": name}
        for item in _items(reply, field)[:_MAX_EDITS]
        if isinstance(item, Mapping)
        and (name := str(item.get("op", item.get("operation", ""))).strip().lower())
    ]


def read_objects(reply: str, field: str) -> list[dict[str, Any]]:
    """Return the objects in a reply: those of a field that holds a list, or of a bare array.

    >>> read_objects('{"pairs": [{"rule": 1}, 2]}', "pairs")
    [{'rule': 1}]
    """
    items = _items(reply, field)[:_MAX_EDITS]
    return [{str(k): v for k, v in item.items()} for item in items if isinstance(item, Mapping)]


def read_list(reply: str, field: str) -> list[str]:
    """Return the texts in a reply: those of a field that holds a list, or of a bare array.

    >>> read_list('{"notes": ["Use cents.", {"text": "Dates are text."}, 3]}', "notes")
    ['Use cents.', 'Dates are text.']
    """
    found = []
    for item in _items(reply, field):
        if isinstance(item, Mapping):
            item = max((v for v in item.values() if isinstance(v, str)), key=len, default="")
        if isinstance(item, str) and item.strip():
            found.append(item)
    return found


def edits_schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a list of edits with these operations."""
    text = {"type": "string"}
    edit = {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": list(names)},
            "id": text,
            "ids": {"type": "array", "items": text},
            "section": text,
            "text": text,
        },
        "required": ["op", "id", "ids", "section", "text"],
        "additionalProperties": False,
    }
    return {"type": "array", "items": edit}


def _items(reply: str, field: str) -> list[Any]:
    text = _MARKER.sub("", reply[:_MAX_REPLY_CHARS])
    found: Any = read(text).get(field)
    if found is None:
        start = min((at for mark in "[{" if (at := text.find(mark)) >= 0), default=-1)
        found = _parsed(text[start:]) if start >= 0 else []
    if isinstance(found, str):
        found = _parsed(found) if found.lstrip()[:1] in ("[", "{") else []
    if isinstance(found, Mapping):  # one edit alone
        found = found.get(field, [found])
    return found if isinstance(found, list) else []


def _parsed(text: str) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (json.JSONDecodeError, RecursionError):
        return json_repair.loads(text)
