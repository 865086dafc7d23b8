"""Experiences as few-shot examples, for the route that each of them belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drpg_dspy.injection import holds_media
from drpg_dspy.types import REVISION, SHOT_VERDICT, Call, Experience, ProgramCard, RouteCard

__all__ = ["shots_by_route"]

Shot = Mapping[str, Any]


def shots_by_route(
    experiences: Iterable[Experience], card: ProgramCard, *, verdicts: bool = False
) -> dict[str, tuple[Shot, ...]]:
    """Turn experiences into examples for each route of a program.

    In a program with one predictor an example is the question and the answer: of the inputs
    only what retrieval looked at, not the long context (as StreamBench and DRPG show them). In
    a program with several, each route gets its own calls out of the traces, inputs whole,
    because only there are they what that predictor was asked. A route that an experience never
    called gets nothing from it; of several calls the last one counts. Images, sound and files
    are left out: k of them would cost more than all the rest of a prompt. Where the answer was
    revised, the last call that gave a field is shown with what became of it.

    Args:
        experiences: In the order in which they are to be shown.
        card: The program.
        verdicts: Show each with the verdict on the whole answer.

    Returns:
        Route to examples; routes without any are left out.
    """
    shots: dict[str, list[Shot]] = {}
    single = len(card.routes) == 1
    media = {route.name: _media(route) for route in card.routes}
    for experience in experiences:
        calls = _last_calls(experience.rollout.trace)
        said = {SHOT_VERDICT: "correct" if experience.correct else "wrong"} if verdicts else {}
        for route in card.routes:
            call = calls.get(route.name)
            if call is None or call.outputs is None:
                continue
            inputs = _question(call.inputs, experience) if single else call.inputs
            inputs = {n: value for n, value in inputs.items() if n not in media[route.name]}
            shot = {**_fields(inputs, call.outputs, route), **said}
            shots.setdefault(route.name, []).append(shot)
    return {name: tuple(items) for name, items in shots.items()}


def _last_calls(trace: Sequence[Call]) -> dict[str, Call]:
    """Return the last answered call of each route, with revised fields as they were given."""
    revised: dict[str, Any] = {}
    calls: dict[str, Call] = {}
    for call in reversed(trace):
        if call.outputs is None or call.route in calls:
            continue
        if call.route == REVISION:
            revised = dict(call.outputs)
            continue
        if revised:
            outputs = {name: revised.pop(name, value) for name, value in call.outputs.items()}
            call = dataclasses.replace(call, outputs=outputs)
        calls[call.route] = call
    return calls


def _question(inputs: Mapping[str, Any], experience: Experience) -> Mapping[str, Any]:
    key = experience.rollout.key
    asked = {
        name: value
        for name, value in inputs.items()
        if isinstance(value, str) and value and value in key
    }
    return asked or inputs


def _media(route: RouteCard) -> set[str]:
    declared = getattr(route.signature, "fields", {})
    return {name for name in declared if holds_media(declared[name].annotation)}


def _fields(inputs: Shot, outputs: Shot, route: RouteCard) -> Shot:
    shot = {name: inputs[name] for name in route.inputs if name in inputs}
    shot.update({name: outputs[name] for name in route.outputs if name in outputs})
    return shot
