"""What judges read of examples and predictions, and what feedback repeats of them."""

from __future__ import annotations

from typing import Any

__all__ = ["label", "output", "shown"]

_SHOWN = 200


def label(example: Any, name: str) -> Any:
    """Return a label of an example.

    Raises:
        ValueError: It has none of that name; the message lists what it has.
    """
    try:
        return example[name]
    except (KeyError, TypeError) as error:
        raise ValueError(_lacks("example", example, name)) from error


def output(prediction: Any, name: str) -> Any:
    """Return an output of a prediction; what is no ``dspy.Prediction`` is the output itself.

    Raises:
        ValueError: The prediction has none of that name; the message lists what it has.
    """
    if not hasattr(prediction, "toDict"):
        return prediction
    try:
        return prediction[name]
    except (KeyError, TypeError) as error:
        raise ValueError(_lacks("prediction", prediction, name)) from error


def shown(text: str, limit: int = _SHOWN) -> str:
    """Return a text on one line, cut visibly.

    >>> shown("one two\\nthree", limit=7)
    'one two […6 more characters]'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[:limit]} […{len(flat) - limit} more characters]"


def _lacks(what: str, record: Any, name: str) -> str:
    fields = ", ".join(record.keys()) if hasattr(record, "keys") else type(record).__name__
    return f"The {what} has no {name!r} to judge by; it has: {fields or 'nothing'}."
