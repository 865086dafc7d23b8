"""One call of a program: its arguments by name, its result as a record."""

from __future__ import annotations

import inspect
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from drpg_dspy.plain import from_plain, to_plain
from drpg_dspy.types import (
    PLAIN_VALUE,
    REVISION,
    Call,
    Guidance,
    ProgramCard,
    Rollout,
    RouteCard,
    Usage,
)

__all__ = ["Made", "Outcome", "ProgramCall", "describe", "run_async"]

# What DSPy's modules take out of the arguments of a call to steer it, each with its kind. Under
# these names no value reaches a signature's input, unless the program itself has such a parameter.
_STEERING: dict[str, Any] = {
    "lm": object,
    "config": Mapping,
    "demos": (list, tuple),
    "signature": (str, type),
    "max_iters": int,
    "_trace": bool,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program returned, or how it failed.

    Attributes:
        result: What the caller gets.
        error: What was raised instead.
        revised: The result is not what the program returned.
        first: What it returned, where that was revised.
    """

    result: Any = None
    error: Exception | None = None
    revised: bool = False
    first: Any = None


@dataclass(slots=True)
class ProgramCall:
    """A call about to be made.

    Attributes:
        function: The program, or one of its methods.
        args, kwargs: What it is called with.
        rollout_id: Name of the rollout; made up where none is given.
        step: Its place in a stream; 0 = the memory numbers it.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    rollout_id: str = ""
    step: int = 0
    started: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.rollout_id = self.rollout_id or uuid.uuid4().hex

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments by name, positional ones named as the program names them.

        What steers the call is left out (``lm``, ``config``, ``demos`` and the like, and any
        LM): it is no part of the task, and seldom has a plain form.
        """
        named = self._named()
        if _STEERING.keys().isdisjoint(named):
            return {n: value for n, value in named.items() if not isinstance(value, dspy.BaseLM)}
        own = self._declared()
        return {n: value for n, value in named.items() if not _steers(n, value, own)}

    @property
    def lm(self) -> dspy.BaseLM | None:
        """The LM that was given with the call, if any."""
        lm = self.kwargs.get("lm")
        return lm if isinstance(lm, dspy.BaseLM) else None

    @property
    def _target(self) -> Callable[..., Any]:
        target: Callable[..., Any] = getattr(self.function, "forward", self.function)
        return target

    def _declared(self) -> set[str]:
        parameters = inspect.signature(self._target).parameters.values()
        return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}

    def _named(self) -> dict[str, Any]:
        if not self.args:
            return dict(self.kwargs)
        try:
            bound = inspect.signature(self._target).bind_partial(*self.args, **self.kwargs)
        except TypeError:
            # The call itself will raise, in the program's own words.
            return {f"argument_{i}": value for i, value in enumerate(self.args)} | self.kwargs
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            named.update(value) if kind is inspect.Parameter.VAR_KEYWORD else named.update(
                {name: value}
            )
        return named

    def run(self) -> Outcome:
        """Make the call; a failure is returned, so that it can be recorded before it is raised."""
        try:
            return Outcome(self.function(*self.args, **self.kwargs))
        except Exception as error:  # noqa: BLE001 - recorded, then raised to the caller
            return Outcome(error=error)

    def rollout(
        self,
        outcome: Outcome,
        guidance: Guidance,
        trace: Sequence[Call] = (),
        usage: Usage = Usage(),
        key: str = "",
    ) -> Rollout:
        """Return the record of the call, in plain form.

        Raises:
            StorageError: An input or output cannot be recorded.
        """
        error = outcome.error
        return Rollout(
            id=self.rollout_id,
            step=self.step,
            inputs=_kept(self.inputs, "inputs"),
            outputs=None if error else _outputs(outcome.result),
            key=key,
            trace=(*trace, *_revision(outcome)),
            guidance=guidance,
            usage=usage,
            error=f"{type(error).__name__}: {error}" if error else "",
            created_at=self.started,
            seconds=time.monotonic() - self.clock,
        )


async def run_async(call: ProgramCall) -> Outcome:
    """Make the call through the program's own ``acall`` where it has one, else in a thread."""
    program = call.function
    try:
        if hasattr(program, "aforward"):
            return Outcome(await program.acall(*call.args, **call.kwargs))  # type: ignore[attr-defined]
        return Outcome(await dspy.asyncify(program)(*call.args, **call.kwargs))
    except Exception as error:  # noqa: BLE001 - recorded, then raised to the caller
        return Outcome(error=error)


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made, with everything its record needs.

    Attributes:
        call: The call.
        guidance: What it was made under.
        outcome: Its result or error.
        trace: The calls of its predictors.
        usage: What it cost.
        failure: What revising the answer raised; the outcome is then the program's own.
    """

    call: ProgramCall
    guidance: Guidance
    outcome: Outcome
    trace: Sequence[Call] = ()
    usage: Usage = Usage()
    failure: Exception | None = None


def describe(
    program: Any,
    routes: tuple[RouteCard, ...],
    name: str,
    key: Callable[[Mapping[str, Any]], str],
) -> ProgramCard:
    """Return the card of a program, with the task it states or its signatures' instructions."""
    task = getattr(program, "task_description", "") or "\n".join(
        dict.fromkeys(route.instructions for route in routes)
    )
    if not isinstance(task, str):
        raise ValueError(f"task_description must be a text, got {task!r}.")
    return ProgramCard(name=name, task=task, routes=routes, key=key)


def _steers(name: str, value: Any, own: Collection[str]) -> bool:
    if isinstance(value, dspy.BaseLM):
        return True
    return name in _STEERING and name not in own and isinstance(value, _STEERING[name])


def _outputs(result: Any) -> dict[str, Any]:
    if isinstance(result, dspy.Prediction):
        return {name: _kept(value, f"outputs[{name!r}]") for name, value in result.items()}
    return {PLAIN_VALUE: _kept(result, "the program's return value")}


def _revision(outcome: Outcome) -> list[Call]:
    """Return the entry of the trace that says what was changed in the program's answer."""
    if not outcome.revised:
        return []
    before, after = _outputs(outcome.first), _outputs(outcome.result)
    changed = [name for name in after if name not in before or before[name] != after[name]]
    given = {name: before[name] for name in changed if name in before}
    return [Call(REVISION, given, {name: after[name] for name in changed})] if changed else []


def _kept(value: Any, where: str) -> Any:
    """Return a value as it will be read back, so that a fresh record is the stored one."""
    return from_plain(to_plain(value, where=where))
