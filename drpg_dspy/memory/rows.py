"""How records become rows and come back.

Values are written in their plain form (:mod:`drpg_dspy.plain`). Most retrieved experiences are
shown by their inputs and outputs alone, so the guidance under which they were made, by far the
largest part, is read only when it is looked into.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from drpg_dspy.exceptions import StorageError
from drpg_dspy.plain import dumps, loads
from drpg_dspy.types import Call, Experience, Feedback, Guidance, Policy, Rollout, Rule, Usage

__all__ = [
    "BODY_COLUMNS",
    "POLICY_COLUMNS",
    "ROLLOUT_COLUMNS",
    "ROLLOUT_NUMBER",
    "SIZED",
    "VERDICT",
    "Deferred",
    "GuidanceLoader",
    "decode_experience",
    "decode_feedback",
    "decode_guidance",
    "decode_policy",
    "decode_rollout",
    "decode_text",
    "decode_usages",
    "encode_body",
    "encode_feedback",
    "encode_guidance",
    "encode_policy",
    "encode_text",
    "is_whole",
    "text_hash",
]

BODY_COLUMNS = "created_at, seconds, error, usage, key, inputs, outputs, trace"
POLICY_COLUMNS = "route, version, rules, parent, author, step, message"
ROLLOUT_COLUMNS = (
    "h.seq, h.id, h.step, h.verdict, b.created_at, b.seconds, b.error, b.usage, b.key, b.inputs, "
    "b.outputs, b.trace"
)
"""Of ``rollouts h`` and ``bodies b``."""
ROLLOUT_NUMBER, VERDICT = 0, 3
SIZED = slice(8, 12)
"""Places among them: the rollout's number, the feedback that stands, what may be long."""

Row = tuple[Any, ...]
GuidanceLoader = Callable[[int], Mapping[str, Any]]

GUIDANCE_PARTS = ("policies", "shots", "retrieved", "counts", "memo")
"""The fields of a guidance that are mappings."""

# NaN is refused, so that it takes the way of what JSON cannot hold.
_ENCODER = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False
)
_DECODER = json.JSONDecoder()
_USAGE_FIELDS = tuple(field.name for field in fields(Usage))
_FEEDBACK_FIELDS = tuple(field.name for field in fields(Feedback))
_NO_USAGE = Usage()
_FREE = _ENCODER.encode([[getattr(_NO_USAGE, name) for name in _USAGE_FIELDS]] * 2)

_SAME = 0
"""Stands in a trace for the rollout's own inputs or outputs: most programs are one call."""


class Deferred(Mapping[str, Any]):
    """A read-only mapping that is loaded when it is looked into.

    >>> shots = Deferred(lambda name: {name: 1}, "shots")
    >>> shots == {"shots": 1}, len(shots)
    (True, 1)
    """

    __slots__ = ("_load", "_name")

    def __init__(self, load: Callable[[str], Mapping[str, Any]], name: str) -> None:
        self._load = load
        self._name = name

    def _loaded(self) -> Mapping[str, Any]:
        return self._load(self._name)

    def __getitem__(self, key: str) -> Any:
        return self._loaded()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def __repr__(self) -> str:
        return repr(self._loaded())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self._loaded()),)  # copies and pickles are plain dicts


def encode_text(text: str) -> str | bytes:
    r"""Return what SQLite keeps of a text: itself, or bytes where UTF-8 cannot hold it.

    >>> encode_text("é"), encode_text("\ud800")
    ('é', b'\xed\xa0\x80')
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(value: str | bytes) -> str:
    """Undo :func:`encode_text`."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def text_hash(text: str) -> bytes:
    """Return the 20 bytes under which a text is found."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=20).digest()


def is_whole(vectors: np.ndarray) -> np.ndarray:
    """Tell of each row whether it is finite, and of unit length or zero."""
    norms = np.einsum("ij,ij->i", vectors, vectors)
    return np.asarray((np.abs(norms - 1.0) <= 0.02) | (norms == 0.0))  # NaN is neither


def encode_body(rollout: Rollout) -> Row:
    """Return a rollout's :data:`BODY_COLUMNS`.

    Raises:
        StorageError: A value has no plain form; the message names the field.
    """
    inputs = _dumps(_mapping(rollout.inputs, "rollout.inputs"), "rollout.inputs")
    outputs = None
    if rollout.outputs is not None:
        outputs = _dumps(_mapping(rollout.outputs, "rollout.outputs"), "rollout.outputs")
    trace = [
        [
            call.route,
            _SAME if _same(call.inputs, rollout.inputs) else call.inputs,
            _SAME if _same(call.outputs, rollout.outputs) else call.outputs,
            call.error,
        ]
        for call in rollout.trace
    ]
    usage = [_usage_row(rollout.usage), _usage_row(rollout.guidance.usage)]
    return (
        rollout.created_at,
        rollout.seconds,
        encode_text(rollout.error),
        _dumps(usage, "rollout.usage"),
        encode_text(rollout.key),
        inputs,
        outputs,
        _dumps(trace, "rollout.trace"),
    )


def decode_rollout(row: Row, guidance: GuidanceLoader, *, deferred: bool = False) -> Rollout:
    """Restore a rollout from its :data:`ROLLOUT_COLUMNS`.

    Args:
        row: The columns.
        guidance: Gives the parts of the guidance of a rollout's number.
        deferred: Read the guidance when it is first looked into.
    """
    seq, id, step, _, created_at, seconds, error, usage, key, inputs, outputs, trace = row
    answering, writing = decode_usages(usage)
    load = _Once(guidance, seq)
    parts = {name: Deferred(load, name) if deferred else load(name) for name in GUIDANCE_PARTS}
    given = _loads(inputs)
    made = None if outputs is None else _loads(outputs)
    calls = [
        Call(route, given if got == _SAME else got, made if gave == _SAME else gave, failure)
        for route, got, gave, failure in _loads(trace)
    ]
    return Rollout(
        id=decode_text(id),
        step=step,
        key=decode_text(key),
        created_at=created_at,
        seconds=seconds,
        error=decode_text(error),
        usage=answering,
        inputs=given,
        outputs=made,
        trace=tuple(calls),
        guidance=Guidance(usage=writing, **parts),
    )


def decode_usages(text: str) -> tuple[Usage, Usage]:
    """Restore what answering cost and what writing the guidance cost."""
    if text == _FREE:
        return _NO_USAGE, _NO_USAGE
    answering, writing = _loads(text)
    return Usage(*answering), Usage(*writing)


def encode_guidance(guidance: Guidance) -> str:
    """Return the parts of a guidance, but for its policies, as one text.

    Raises:
        StorageError: A value has no plain form; the message names the field.
    """
    parts = {name: getattr(guidance, name) for name in GUIDANCE_PARTS if name != "policies"}
    return _dumps(parts, "rollout.guidance")


def decode_guidance(text: str) -> dict[str, Any]:
    """Undo :func:`encode_guidance`."""
    parts: dict[str, Any] = _loads(text)
    for name in ("shots", "retrieved"):
        parts[name] = {route: tuple(items) for route, items in parts[name].items()}
    return parts


def encode_feedback(feedback: Feedback) -> str:
    """Return a feedback as one text.

    Raises:
        StorageError: A subscore has no plain form.
    """
    values = {name: getattr(feedback, name) for name in _FEEDBACK_FIELDS}
    values["subscores"] = _mapping(feedback.subscores, "feedback.subscores")
    values["usage"] = _usage_row(feedback.usage) if feedback.usage != _NO_USAGE else None
    return _dumps(values, "feedback")


def decode_feedback(text: str) -> Feedback:
    """Undo :func:`encode_feedback`."""
    values = _loads(text)
    usage = values["usage"]
    values["usage"] = _NO_USAGE if usage is None else Usage(*usage)
    return Feedback(**values)


def decode_experience(
    row: Row, guidance: GuidanceLoader, threshold: float, *, deferred: bool = False
) -> Experience:
    """Restore an experience from the :data:`ROLLOUT_COLUMNS` of its rollout."""
    feedback = decode_feedback(row[VERDICT])
    rollout = decode_rollout(row, guidance, deferred=deferred)
    return Experience(rollout, feedback, feedback.score >= threshold)


def encode_policy(policy: Policy) -> tuple[bytes, str | bytes, str]:
    """Return what identifies a policy's text among its route's, the text, and its rules."""
    rules: Any = [
        [rule.text, rule.id, rule.author, rule.pinned, list(rule.sources)] for rule in policy.rules
    ]
    identity = policy.text
    if policy.category:
        rules = {"category": policy.category, "rules": rules}
        identity = f"{policy.category}\0{policy.text}"
    return text_hash(identity), encode_text(policy.text), _dumps(rules, "policy.rules")


def decode_policy(row: Row) -> Policy:
    """Restore a policy from its :data:`POLICY_COLUMNS`."""
    stored = _loads(row[2])
    sorted_out = isinstance(stored, dict)  # only those of a category
    rules = tuple(
        Rule(text=text, id=id_, author=author, pinned=pinned, sources=tuple(sources))
        for text, id_, author, pinned, sources in (stored["rules"] if sorted_out else stored)
    )
    return Policy(
        route=decode_text(row[0]),
        version=row[1],
        rules=rules,
        parent=row[3],
        author=decode_text(row[4]),
        step=row[5],
        message=decode_text(row[6]),
        category=stored["category"] if sorted_out else "",
    )


class _Once:
    """Loads the parts of one guidance when the first of them is asked for."""

    __slots__ = ("_load", "_parts", "_seq")

    def __init__(self, load: GuidanceLoader, seq: int) -> None:
        self._load = load
        self._seq = seq
        self._parts: Mapping[str, Any] | None = None

    def __call__(self, name: str) -> Mapping[str, Any]:
        if self._parts is None:  # twice, from two threads, gives the same
            self._parts = self._load(self._seq)
        part: Mapping[str, Any] = self._parts[name]
        return part


def _mapping(value: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StorageError(
            f"{where} must be a mapping of names to values, got {type(value).__qualname__}."
        )
    return value


def _usage_row(usage: Usage) -> list[Any]:
    return [getattr(usage, name) for name in _USAGE_FIELDS]


def _same(values: Mapping[str, Any] | None, others: Mapping[str, Any] | None) -> bool:
    """Tell whether two mappings hold the same texts and the same objects."""
    if values is None or others is None or values.keys() != others.keys():
        return False
    for name, value in values.items():
        other = others[name]  # comparing arrays, say, would not give a bool
        if value is not other and not (type(value) is type(other) is str and value == other):
            return False
    return True


def _dumps(value: Any, where: str) -> str:
    """Do what :func:`.plain.dumps` does, faster for what JSON can hold as it is."""
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # not JSON as it is: NaN, dates, models, …
        return dumps(value, where=where)
    return dumps(value, where=where) if '"$' in text else text


def _loads(text: str) -> Any:
    # Every mark of the plain form is a key that starts with "$": without one, JSON says it all.
    return loads(text) if '"$' in text else _DECODER.raw_decode(text)[0]
