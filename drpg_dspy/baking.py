"""What was learned, baked into a plain program: instructions and demos, nothing of ours."""

from __future__ import annotations

import dspy

from drpg_dspy.injection import detach, routes
from drpg_dspy.types import OPEN_FIELD, Guidance

__all__ = ["bake"]

_HEADING = "Rules learned from feedback:"
_LEFT_OUT = "(not shown)"


def bake(program: dspy.Module, guidance: Guidance) -> dspy.Module:
    """Detach a program and write a guidance into it for good.

    The policy of a route is appended to its instructions, its examples to its demos. An open
    policy or examples field stays in the signature, empty.

    Args:
        program: An attached program; changed in place.
        guidance: What it is to keep.

    Returns:
        The program.
    """
    predictors = routes(program)
    detach(program)
    for name, predictor in predictors.items():
        policy = guidance.policies.get(name)
        if policy is not None and policy.text:
            instructions = f"{predictor.signature.instructions}\n\n{_HEADING}\n{policy.text}"
            predictor.signature = predictor.signature.with_instructions(instructions)
        shown = predictor.signature.input_fields
        ours = {
            field for field, info in shown.items() if (info.json_schema_extra or {}).get(OPEN_FIELD)
        }
        # A demo that lacks an input is moved and labelled incomplete by the adapters.
        blank = {field: "" if field in ours else _LEFT_OUT for field in shown}
        predictor.demos = [
            *predictor.demos,
            *(dspy.Example(**{**blank, **shot}) for shot in guidance.shots.get(name, ())),
        ]
    return program
