"""Experiences as few-shot examples, for the route that each of them belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drpg_dspy.types import Experience, ProgramCard, RouteCard

__all__ = ["shots_by_route"]

Shot = Mapping[str, Any]


def shots_by_route(
    experiences: Iterable[Experience], card: ProgramCard
) -> dict[str, tuple[Shot, ...]]:
    """Turn experiences into examples for each route of a program.

    In a program with one predictor an example is the question and the answer: of the inputs
    only what retrieval looked at, not the long context (as StreamBench and DRPG show them). In
    a program with several, each route gets its own calls out of the traces, inputs whole,
    because only there are they what that predictor was asked. A route that an experience never
    called gets nothing from it; of several calls the last one counts.

    Args:
        experiences: In the order in which they are to be shown.
        card: The program.

    Returns:
        Route to examples; routes without any are left out.
    """
    shots: dict[str, list[Shot]] = {}
    single = len(card.routes) == 1
    for experience in experiences:
        calls = {call.route: call for call in experience.rollout.trace if call.outputs is not None}
        for route in card.routes:
            call = calls.get(route.name)
            if call is None or call.outputs is None:
                continue
            inputs = _question(call.inputs, experience) if single else call.inputs
            shots.setdefault(route.name, []).append(_fields(inputs, call.outputs, route))
    return {name: tuple(items) for name, items in shots.items()}


def _question(inputs: Mapping[str, Any], experience: Experience) -> Mapping[str, Any]:
    key = experience.rollout.key
    asked = {
        name: value
        for name, value in inputs.items()
        if isinstance(value, str) and value and value in key
    }
    return asked or inputs


def _fields(inputs: Shot, outputs: Shot, route: RouteCard) -> Shot:
    shot = {name: inputs[name] for name in route.inputs if name in inputs}
    shot.update({name: outputs[name] for name in route.outputs if name in outputs})
    return shot
