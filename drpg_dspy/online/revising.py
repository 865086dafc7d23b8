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

__all__ = ["answered_by", "lm_of", "revise", "written_by"]


def lm_of(program: dspy.Module, given: dspy.BaseLM | None) -> dspy.BaseLM | None:
    """Return the LM that answers otherwise than by DSPy's settings; ``None`` = by these.

    Args:
        program: The program: that of its last predictor, where it has one of its own.
        given: What was given with the call, which comes before.
    """
    if given is not None:
        return given
    last: dspy.BaseLM | None = list(routes(program).values())[-1].lm
    return last


@contextmanager
def written_by(
    optimizer: OnlineOptimizer, program: dspy.Module, given: dspy.BaseLM | None = None
) -> Iterator[None]:
    """Let an optimizer without an LM of its own write with the one that answers.

    Args:
        optimizer: Who may write.
        program: Who answers.
        given: The LM that was given with the call.
    """
    lm = lm_of(program, given) if optimizer.max_lm_calls else None
    if lm is None:
        yield
        return
    with overridden({"lm": lm}):
        yield


@contextmanager
def answered_by(
    optimizer: OnlineOptimizer,
    guidance: Guidance,
    program: dspy.Module,
    given: dspy.BaseLM | None = None,
) -> Iterator[None]:
    """Put the LM in force that the optimizer chose for a call, if it chose one.

    Raises:
        ValueError: It did, and nobody would ask it: every predictor has an LM of its own, or
            one was given with the call.
    """
    chosen = optimizer.answering_lm(guidance)
    if chosen is None:
        yield
        return
    if given is not None:
        raise ValueError(
            f"{type(optimizer).__name__} chooses the LM that answers, but the call brings "
            f"lm={given.model!r}, so {chosen.model!r} would never be asked; leave lm= out."
        )
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
    given: dspy.BaseLM | None = None,
) -> Revision:
    """Have the optimizer revise an answer, under the LM that gave it.

    Its LM calls are no part of the program: DSPy's trace does not get them, a stream of the
    program's answer neither.

    Raises:
        ValueError: The optimizer returned something else than a revision.
    """
    beside: dict[str, Any] = {"trace": None, "send_stream": None}
    if (lm := lm_of(program, given)) is not None:
        beside["lm"] = lm
    with overridden(beside):
        revision = optimizer.revise(inputs, answer, guidance, memory)
    if not isinstance(revision, Revision):
        raise ValueError(
            f"{type(optimizer).__name__}.revise must return a Revision, got {revision!r}."
        )
    return revision
