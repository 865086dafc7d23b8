"""Values as the types that a signature declares, after a memory gave them back in plain form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import dspy
from dspy.adapters.types.base_type import (
    CUSTOM_TYPE_END_IDENTIFIER,
    CUSTOM_TYPE_START_IDENTIFIER,
)
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

__all__ = ["as_type", "holds_media", "named_media", "typed"]

_SIMPLE = (str, int, float, bool, type(None), Any, list, dict)
_MEDIA = (dspy.Image, dspy.Audio, dspy.File)


def typed(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return field values with each as the type its field declares; see :func:`as_type`.

    Args:
        values: By field name.
        fields: A signature's fields.
    """
    return {
        name: as_type(value, fields[name].annotation) if name in fields else value
        for name, value in values.items()
    }


def as_type(value: Any, annotation: Any) -> Any:
    """Return a value in plain form as the type that was declared for it.

    A model comes back as a model, with its members in the order of its class, an enum member as
    itself; so do those inside lists and dicts. What does not fit the declaration is returned as
    it is: a program may change a value on its way.

    >>> import enum
    >>> Colour = enum.Enum("Colour", {"RED": "red"})
    >>> as_type(["red", "red"], list[Colour])
    [<Colour.RED: 'red'>, <Colour.RED: 'red'>]
    >>> as_type("blue", Colour)
    'blue'
    """
    if value is None or _is_simple(annotation):
        return value
    if isinstance(value, str) and CUSTOM_TYPE_START_IDENTIFIER in value:
        return _media(value)
    if get_origin(annotation) is list and isinstance(value, list) and holds_media(annotation):
        return [as_type(item, get_args(annotation)[0]) for item in value]
    if isinstance(annotation, type) and isinstance(value, annotation):
        return value
    try:
        # No cache of adapters: a program saved by value takes this module's globals along.
        return TypeAdapter(annotation).validate_python(value)
    except (ValueError, TypeError, PydanticUserError):
        return value
    except Exception:  # noqa: BLE001 - a validator of the user's own may raise anything
        return value


def holds_media(annotation: Any) -> bool:
    """True for a field of images, sound or files, also in a list or as an option."""
    if isinstance(annotation, type) and issubclass(annotation, _MEDIA):
        return True
    return any(map(holds_media, get_args(annotation)))


def named_media(text: str) -> str:
    """Return a text with each image, sound or file in it named instead of shown.

    DSPy writes these into a text between marks, and makes parts of a message of them wherever
    it finds the marks: a text-only model that is to read a record would refuse it.

    >>> named_media(f"a {dspy.Image('https://example.org/a.png')!s}")
    'a [image_url]'
    """
    return _MARKED.sub(lambda found: f"[{_kind(found.group(1))}]", text)


def _media(text: str) -> Any:
    """Return the image, sound or file that a text is; another one is returned as it is."""
    found = _MARKED.fullmatch(text)
    parts = _parts(found.group(1)) if found is not None else []
    if len(parts) != 1:
        return text
    try:
        match parts[0]:
            case {"type": "image_url", "image_url": {"url": url}}:
                return dspy.Image(url)
            case {"type": "file", "file": {**known}}:
                return dspy.File(**{str(name): value for name, value in known.items()})
            case {"type": "input_audio", "input_audio": {"data": data, "format": kind}}:
                return dspy.Audio(data=data, audio_format=kind)
    except (ValueError, TypeError):  # another release wrote it
        pass
    return text


def _kind(marked: str) -> str:
    parts = _parts(marked)
    kind = parts[0].get("type") if parts and isinstance(parts[0], dict) else None
    return str(kind or "media")


def _parts(marked: str) -> list[Any]:
    try:
        parts = json.loads(marked)
    except ValueError:
        return []
    return parts if isinstance(parts, list) else []


_MARKED = re.compile(f"{CUSTOM_TYPE_START_IDENTIFIER}(.*?){CUSTOM_TYPE_END_IDENTIFIER}", re.DOTALL)


def _is_simple(annotation: Any) -> bool:
    if annotation in _SIMPLE:
        return True
    origin = get_origin(annotation)
    if origin is Literal:
        return True
    if origin in (None, tuple, set, frozenset):
        return False
    return all(map(_is_simple, get_args(annotation)))
