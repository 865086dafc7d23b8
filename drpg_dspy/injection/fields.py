"""Signatures with a place for the policy, and examples in a form that fits them."""

from __future__ import annotations

import abc
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dspy.adapters.types.base_type import CUSTOM_TYPE_START_IDENTIFIER, Type
from dspy.signatures.signature import SignatureMeta

from drpg_dspy.exceptions import StorageError
from drpg_dspy.injection.declared import typed
from drpg_dspy.plain import to_plain
from drpg_dspy.types import (
    JUDGED_SHOTS_DESC,
    OPEN_FIELD,
    POLICY_DESC,
    SHOT_VERDICT,
    PolicyField,
    RouteCard,
    ShotsField,
)

__all__ = [
    "are_judged",
    "as_declared",
    "card",
    "completed",
    "hides_markers",
    "labelled_text",
    "masked",
    "open_field",
    "shots_text",
    "with_judged_shots",
    "with_policy_field",
    "with_policy_instructions",
]

_ADDED = "drpg_added_field"
_OWN_DESC = "drpg_own_desc"  # of a field that is described otherwise for a call
_JUDGED_FIELD = "earlier_cases"
_JUDGED_LABELS = ("verdict", "judged", "verdict_on_answer")
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


def are_judged(shots: Iterable[Mapping[str, Any]]) -> bool:
    """True when any of the examples is to be shown with a verdict."""
    return any(SHOT_VERDICT in shot for shot in shots)


def with_judged_shots(signature: Signature, field: str) -> Signature:
    """Return the signature with a field that says: these examples are right and wrong ones.

    Args:
        signature: The signature.
        field: Its open field for examples, which is described anew; without one (``""``) a
            field is put first.
    """
    if not field:
        field = _JUDGED_FIELD
        while field in signature.fields:
            field += "_"
        info = ShotsField(JUDGED_SHOTS_DESC)
        info.json_schema_extra[_ADDED] = True
        return signature.prepend(field, info, type_=str)
    own = signature.fields[field].json_schema_extra["desc"]
    if own == JUDGED_SHOTS_DESC:
        return signature
    return signature.with_updated_fields(field, desc=JUDGED_SHOTS_DESC, **{_OWN_DESC: own})


def as_declared(signature: Signature, text: str) -> Signature:
    """Undo what was done to a signature for a call under the policy of that text."""
    for name, info in signature.fields.items():
        extra = info.json_schema_extra or {}
        if extra.get(_ADDED):
            signature = signature.delete(name)
        elif _OWN_DESC in extra:
            signature = signature.with_updated_fields(name, desc=extra[_OWN_DESC])
            del signature.fields[name].json_schema_extra[_OWN_DESC]
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


def card(name: str, signature: Signature, ours: Iterable[str]) -> RouteCard:
    """Describe a predictor without the fields that are ours."""
    hidden = set(ours)
    return RouteCard(
        name=name,
        instructions=signature.instructions,
        inputs=tuple(field for field in signature.input_fields if field not in hidden),
        outputs=tuple(signature.output_fields),
        signature=signature,
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
    return [{**blank, **typed(shot, signature.fields)} for shot in present]


def shots_text(shots: Sequence[Mapping[str, Any]], signature: Signature, route: str) -> str:
    r"""Return retrieved examples as one text, a ``field: value`` line for each field.

    Examples are separated by a blank line; one that is judged ends with its verdict. A value of
    several lines begins under its field's name. Where such a value could be misread, because it
    holds a blank line or a line that begins like a field, it stands between lines of quotation
    marks longer than any it contains.

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
    names = {name: name for name, info in signature.fields.items() if not _is_ours(info)}
    if are_judged(shots):
        names[SHOT_VERDICT] = next((w for w in _JUDGED_LABELS if w not in names), SHOT_VERDICT)
    return labelled_text((typed(shot, signature.fields) for shot in shots), names)


def labelled_text(records: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    """Return records as one text in the form of :func:`shots_text`.

    Args:
        records: Values by name; what is missing or ``None`` is left out.
        labels: The names to show, in order, with the word that stands before each value.
    """
    begins = re.compile(rf"(?:{'|'.join(map(re.escape, labels.values()))}):", re.MULTILINE)
    parts = []
    for record in records:
        shown = [name for name in labels if record.get(name) is not None]
        lines = [_labelled(labels[name], _text(record[name]), begins) for name in shown]
        parts.append("\n".join(lines))
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
    if isinstance(value, Type):
        return str(value)  # an image stays one: adapters find its marker in a text
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
