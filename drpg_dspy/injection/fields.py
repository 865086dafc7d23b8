"""Signatures with a place for the policy, and examples in a form that fits them."""

from __future__ import annotations

import abc
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dspy.adapters.types.base_type import CUSTOM_TYPE_START_IDENTIFIER
from dspy.signatures.signature import SignatureMeta

from drpg_dspy.exceptions import StorageError
from drpg_dspy.plain import to_plain
from drpg_dspy.types import OPEN_FIELD, POLICY_DESC, PolicyField, RouteCard

__all__ = [
    "card",
    "completed",
    "hides_markers",
    "masked",
    "open_field",
    "repaired",
    "shots_text",
    "with_policy_field",
    "with_policy_instructions",
    "without_policy",
]

_ADDED = "drpg_added_field"
# Demos need a value for every field, else the adapters move them and call them incomplete.
_POLICY_OF_DEMO = "(given below)"
_MISSING_INPUT = "(omitted)"

Signature = Any  # a signature is a class of DSPy's, which ships no types


def open_field(signature: Signature, kind: str, known: str = "") -> str:
    """Return the input field that the signature leaves open for us, or ``""``.

    Args:
        signature: The signature.
        kind: ``"policy"`` or ``"shots"``.
        known: A field known to be open although its mark was lost (ReActV2 copies only the
            description of a field).
    """
    for name, info in signature.model_fields.items():
        if name == known or (info.json_schema_extra or {}).get(OPEN_FIELD) == kind:
            return str(name)
    return ""


def with_policy_field(signature: Signature, field: str) -> Signature:
    """Return the signature with a policy field put first."""
    info = PolicyField()
    info.json_schema_extra[_ADDED] = True
    return signature.prepend(field, info, type_=str)


def with_policy_instructions(signature: Signature, text: str) -> Signature:
    """Return the signature with the policy at the end of its instructions.

    One that holds it already is returned as it is: modules such as RLM derive the signature of
    a call from the one they are shown.
    """
    if _paragraph(text) in signature.instructions:
        return signature
    namespace = {
        "__doc__": signature.instructions + _paragraph(text),
        "__module__": signature.__module__,
        "__qualname__": signature.__qualname__,
    }
    # Only the text differs. Letting pydantic rebuild every field for it costs 0.4 ms a call,
    # since an online policy is new at almost every call.
    return abc.ABCMeta.__new__(SignatureMeta, signature.__name__, (signature,), namespace)


def without_policy(signature: Signature, text: str) -> Signature:
    """Undo :func:`with_policy_field`, or :func:`with_policy_instructions` for that text."""
    for name, info in signature.model_fields.items():
        if (info.json_schema_extra or {}).get(_ADDED):
            return signature.delete(name)
    if text and (paragraph := _paragraph(text)) in signature.instructions:
        return signature.with_instructions(signature.instructions.replace(paragraph, "", 1))
    return signature


def _paragraph(text: str) -> str:
    # As DSPy reads it back from a docstring: tabs expanded, no blank lines at the end.
    return inspect.cleandoc(f".\n\n{POLICY_DESC}\n{text}")[1:]


def hides_markers(text: str) -> bool:
    """True when DSPy would cut a user message at a marker in this text and read it as media.

    In the instructions, which are part of the system message, it does not.
    """
    return CUSTOM_TYPE_START_IDENTIFIER in text


def repaired(value: Any) -> Any:
    """Return a text without lone surrogates, which DSPy refuses to send to any model.

    Pairs of surrogates become the character they stand for, lone ones U+FFFD. Values other
    than texts are returned as they are.
    """
    if not isinstance(value, str):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def card(name: str, signature: Signature, ours: Iterable[str]) -> RouteCard:
    """Describe a predictor without the fields that are ours."""
    hidden = set(ours)
    return RouteCard(
        name=name,
        instructions=signature.instructions,
        inputs=tuple(field for field in signature.input_fields if field not in hidden),
        outputs=tuple(signature.output_fields),
    )


def masked(demos: Iterable[Any], field: str) -> list[dict[str, Any]]:
    """Return the demos with a placeholder as their policy, whatever they recorded as such."""
    return [{**demo, field: _POLICY_OF_DEMO} for demo in demos]


def completed(
    shots: Sequence[Mapping[str, Any]], signature: Signature, route: str
) -> list[dict[str, Any]]:
    """Return retrieved examples as DSPy demos, with every input field filled.

    A missing output is left out: DSPy then says in the prompt that the example is partial,
    which a placeholder in the model's own voice would not.

    Raises:
        ValueError: An example carries no output field of the signature.
    """
    _check_outputs(shots, signature, route)
    blank = {
        name: "" if _is_ours(info) else _MISSING_INPUT
        for name, info in signature.input_fields.items()
    }
    present = [{key: item for key, item in shot.items() if item is not None} for shot in shots]
    return [{**blank, **shot} for shot in present]


def shots_text(shots: Sequence[Mapping[str, Any]], signature: Signature, route: str) -> str:
    r"""Return retrieved examples as one text, a ``field: value`` line for each field.

    Examples are separated by a blank line. A value of several lines begins under its field's
    name. Where such a value could be misread, because it holds a blank line or a line that
    begins like a field, it stands between lines of quotation marks longer than any it contains.

    >>> import dspy
    >>> signature = dspy.Signature("question -> answer")
    >>> shots = [{"question": "1 + 1?", "answer": "2"}, {"answer": "def f():\n  return 3"}]
    >>> print(shots_text(shots, signature, "predict"))
    question: 1 + 1?
    answer: 2
    <BLANKLINE>
    answer:
    def f():
      return 3

    Raises:
        ValueError: An example carries no output field of the signature.
    """
    _check_outputs(shots, signature, route)
    names = [name for name, info in signature.fields.items() if not _is_ours(info)]
    label = re.compile(rf"(?:{'|'.join(map(re.escape, names))}):", re.MULTILINE)
    parts = []
    for shot in shots:
        shown = [name for name in names if shot.get(name) is not None]
        parts.append("\n".join(_labelled(name, _text(shot[name]), label) for name in shown))
    return "\n\n".join(parts)


def _is_ours(info: Any) -> bool:
    return OPEN_FIELD in (info.json_schema_extra or {})


def _labelled(name: str, text: str, label: re.Pattern[str]) -> str:
    lines = text.splitlines()
    fence = max((len(run) for run in re.findall(r'"{3,}', text)), default=2) + 1
    if len(lines) < 2 and text == "".join(lines):
        return f"{name}: {text}" if fence == 3 else f"{name}:\n{_fenced(text, fence)}"
    unclear = fence > 3 or any(not line.strip() or label.match(line) for line in lines)
    if unclear or text != "\n".join(lines):
        return f"{name}:\n{_fenced(text, fence)}"
    return f"{name}:\n{text}"


def _fenced(text: str, length: int) -> str:
    marks = '"' * length
    return f"{marks}\n{text}\n{marks}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(to_plain(value), ensure_ascii=False)
    except (StorageError, ValueError, TypeError):  # no plain form
        return str(value)


def _check_outputs(shots: Sequence[Mapping[str, Any]], signature: Signature, route: str) -> None:
    outputs = signature.output_fields
    for shot in shots:
        if not any(shot.get(name) is not None for name in outputs):
            raise ValueError(
                f"A shot for route {route!r} has the fields {sorted(shot)}, none of which is an "
                f"output of that predictor ({', '.join(outputs)}); an example without an answer "
                "shows nothing. Pass at least one output field."
            )
