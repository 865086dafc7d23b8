"""What an optimizer may know of the program that it serves: its predictors, never its labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ProgramCard", "RouteCard"]


@dataclass(frozen=True, slots=True)
class RouteCard:
    """What an optimizer may know of one predictor: its name, task and fields.

    Attributes:
        name: The predictor's path in the program, as ``named_predictors()`` gives it.
        instructions: Its signature's instructions.
        inputs, outputs: Its field names, without policy and shots.
        signature: The DSPy signature as the program declared it, with types and descriptions;
            ``None`` in a card made by hand. Not part of a comparison.
    """

    name: str
    instructions: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProgramCard:
    """What an optimizer may know of the program it serves.

    Attributes:
        name: The program's class name or the name given to the learner.
        task: A short description of the task, shown to policy writers.
        routes: Its predictors, in DSPy's order.
        key: Gives the text to embed for a call's inputs.
    """

    name: str
    task: str
    routes: tuple[RouteCard, ...]
    key: Callable[[Mapping[str, Any]], str]

    @property
    def route_names(self) -> Sequence[str]:
        """Names of all routes."""
        return tuple(route.name for route in self.routes)
