"""Who answers, and what becomes of an answer before it is given: the optimizer's choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy

from drpg_dspy.carrier import overridden
from drpg_dspy.injection import routes
from drpg_dspy.memory import Memory
from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.types import Guidance

__all__ = ["answered_by", "revise"]


@contextmanager
def answered_by(
    optimizer: OnlineOptimizer, guidance: Guidance, program: dspy.Module
) -> Iterator[None]:
    """Put the LM in force that the optimizer chose for a call, if it chose one.

    Raises:
        ValueError: It did, and nobody would ask it: every predictor has an LM of its own.
    """
    chosen = optimizer.answering_lm(guidance)
    if chosen is None:
        yield
        return
    if all(predictor.lm is not None for predictor in routes(program).values()):
        raise ValueError(
            f"{type(optimizer).__name__} chooses the LM that answers, but every predictor of "
            f"{type(program).__name__} has an LM of its own, so {chosen.model!r} would never be "
            "asked; take theirs away: program.set_lm(None)."
        )
    with overridden({"lm": chosen}):
        yield


def revise(
    optimizer: OnlineOptimizer,
    program: dspy.Module,
    inputs: Mapping[str, Any],
    answer: Any,
    guidance: Guidance,
    memory: Memory,
) -> Revision:
    """Have the optimizer revise an answer, under the LM that gave it.

    Its LM calls are no part of the program: DSPy's trace does not get them, a stream of the
    program's answer neither.

    Raises:
        ValueError: The optimizer returned something else than a revision.
    """
    beside: dict[str, Any] = {"trace": None, "send_stream": None}
    own = list(routes(program).values())[-1].lm
    if own is not None:
        beside["lm"] = own
    with overridden(beside):
        revision = optimizer.revise(inputs, answer, guidance, memory)
    if not isinstance(revision, Revision):
        raise ValueError(
            f"{type(optimizer).__name__}.revise must return a Revision, got {revision!r}."
        )
    return revision
