"""A stored rollout as judges expect it: with inputs and answer in the program's own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from drpg_dspy.injection import as_type
from drpg_dspy.types import ProgramCard, Rollout

__all__ = ["answer_of", "inputs_of"]


def answer_of(rollout: Rollout, card: ProgramCard) -> Any:
    """Return the answer of a stored rollout as the program returned it.

    A memory keeps values in plain form. An output that has the name of a predictor's output
    field comes back in the type that the field declares: a metric written for models, enum
    members or dates reads the same whether labels come with the call or a week later. What no
    field declares, or does not fit, stays in plain form.

    Args:
        rollout: As stored.
        card: The program.
    """
    answer = rollout.answer
    if not isinstance(answer, dspy.Prediction):
        return answer
    return dspy.Prediction(**_restored(dict(answer.items()), card, "output_fields"))


def inputs_of(rollout: Rollout, card: ProgramCard) -> dict[str, Any]:
    """Return the inputs of a stored rollout as they were given; see :func:`answer_of`."""
    return _restored(rollout.inputs, card, "input_fields")


def _restored(values: Mapping[str, Any], card: ProgramCard, side: str) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    for route in card.routes:  # of two that declare a name, the one nearer to the answer counts
        declared.update(getattr(route.signature, side, {}))
    return {
        name: as_type(value, declared[name].annotation) if name in declared else value
        for name, value in values.items()
    }
