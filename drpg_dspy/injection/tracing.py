"""What the predictors of a call were given and what they answered, by route."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from drpg_dspy.carrier import carried, carry
from drpg_dspy.exceptions import StorageError
from drpg_dspy.plain import from_plain, to_plain
from drpg_dspy.types import PLAIN_VALUE, Call

__all__ = ["TRACE", "Recorder", "record_trace"]

TRACE = "drpg_trace"
# Arguments that steer a call and are no part of the task.
_PRIVILEGED = frozenset({"signature", "demos", "config", "lm"})
_MAX_DEPTH = 8  # below it, one member without a plain form turns its whole branch into a repr
_ATOMS = (str, int, float, bool, type(None))


@contextmanager
def record_trace() -> Iterator[list[Call]]:
    """Record every call of an attached predictor made inside the block.

    Calls stand in the order in which they ended, those in async tasks, DSPy's workers and plain
    threads included; one that failed has an ``error`` and no outputs. Values are copies in the
    form that :func:`drpg_dspy.plain.to_plain` accepts; what has no such form is kept as its
    ``repr``. Policy and examples are left out: they are the same for the whole call.

    Yields:
        The list; it fills while the block runs. Recordings nest, each gets every call.
    """
    calls: list[Call] = []
    recorder = Recorder((*_lists(carried(TRACE)), calls))
    with carry(TRACE, recorder):
        yield calls


class Recorder:
    """Writes calls into the lists of all recordings in progress."""

    def __init__(self, lists: tuple[list[Call], ...]) -> None:
        self.lists = lists

    def answered(self, route: str, inputs: Mapping[str, Any], result: Any) -> None:
        """Record a call that returned."""
        outputs = dict(result.items()) if hasattr(result, "items") else {PLAIN_VALUE: result}
        self._add(Call(route=route, inputs=inputs, outputs=_snapshot(outputs)))

    def failed(self, route: str, inputs: Mapping[str, Any], error: BaseException) -> None:
        """Record a call that raised."""
        reason = f"{type(error).__name__}: {error}"
        self._add(Call(route=route, inputs=inputs, outputs=None, error=reason))

    def given(self, kwargs: Mapping[str, Any], ours: tuple[str, ...]) -> dict[str, Any]:
        """Return a copy of a call's arguments, taken before the call can change them."""
        hidden = _PRIVILEGED.union(ours)
        return _snapshot({name: value for name, value in kwargs.items() if name not in hidden})

    def _add(self, call: Call) -> None:
        for calls in self.lists:
            calls.append(call)


def _lists(recorder: Recorder | None) -> tuple[list[Call], ...]:
    return recorder.lists if recorder is not None else ()


def _snapshot(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy(value) for name, value in values.items()}


def _copy(value: Any, depth: int = 0) -> Any:
    if type(value) in _ATOMS:
        return value
    try:
        return from_plain(to_plain(value))
    except (StorageError, ValueError, TypeError):  # pydantic raises its own for odd members
        pass
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): _copy(item, depth + 1) for key, item in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, (list, tuple)):
        return [_copy(item, depth + 1) for item in value]
    return repr(value)
