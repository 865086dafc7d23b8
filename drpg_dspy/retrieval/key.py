"""Which text stands for a call's inputs when similar ones are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drpg_dspy.injection import named_media
from drpg_dspy.plain import digest, dumps, to_plain

__all__ = ["default_key"]

QUESTION_NAMES = (
    "question",
    "query",
    "utterance",
    "user_message",
    "message",
    "instruction",
    "request",
    "prompt",
    "claim",
    "task",
    "problem",
    "input",
    "text",
    "sentence",
)
"""Names of fields that ask something, the most telling first."""

_SHORT = 2000
"""Characters up to which a field without such a name is taken for a question, not a context."""


def default_key(inputs: Mapping[str, Any]) -> str:
    """Return the question among a call's inputs, without its long context.

    The first of these that gives a text:

    1. the fields named like a question (:data:`QUESTION_NAMES`, in that order; the name itself,
       else a name that ends in it, as ``user_question``): the first that is not empty;
    2. all texts of at most 2,000 characters, in the order of the inputs, a line each;
    3. the shortest text;
    4. everything, as canonical JSON; of a longer text, an image or a file in it only a digest.

    Args:
        inputs: The call's arguments.

    Returns:
        The text, stripped; ``""`` when there are no inputs.

    Raises:
        StorageError: An input that is no text has no plain form.

    >>> default_key({"db_schema": "CREATE TABLE singer (id INT)", "question": "How many? "})
    'How many?'
    >>> default_key({"first": "bread", "second": "butter", "count": 2})
    'bread\\nbutter'
    >>> default_key({"numbers": [3, 1]})
    '{"numbers":[3,1]}'
    """
    texts = {
        name: value.strip()
        for name, value in inputs.items()
        if isinstance(value, str) and value.strip()
    }
    for wanted in QUESTION_NAMES:
        for matches in (str.__eq__, lambda name, end: name.endswith(f"_{end}")):
            for name, text in texts.items():
                if matches(name.lower(), wanted):
                    return text
    short = [text for text in texts.values() if len(text) <= _SHORT]
    if short:
        return "\n".join(short)
    if texts:
        return min(texts.values(), key=len)
    return dumps(_shortened(to_plain(dict(inputs), where="inputs"))) if inputs else ""


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, str) and (len(value) > _SHORT or named_media(value) != value):
        return digest(value)
    return value
