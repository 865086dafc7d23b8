"""Putting policies and examples in force for what runs inside a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dspy

from drpg_dspy.carrier import carried, carry
from drpg_dspy.injection.attaching import attached_as, check_routes
from drpg_dspy.injection.notices import name_strangers
from drpg_dspy.injection.scope import SCOPE, Scope, shots_of, text_of
from drpg_dspy.types import Guidance
from drpg_dspy.usage import watch_calls

__all__ = ["use_guidance", "use_policy"]


@contextmanager
def use_guidance(guidance: Guidance, *, program: dspy.Module | None = None) -> Iterator[None]:
    """Put a guidance in force for every attached predictor that runs inside the block.

    The guidance is copied: nothing that happens later changes what is in force, so that two
    predictors of one call never see different versions. A route without a policy in it runs
    with the prompt of the plain program. Blocks nest, the innermost counts; they reach async
    tasks, DSPy's workers, and plain threads started inside.

    Args:
        guidance: Policies and shots by route.
        program: The program it is for. Where given, attached predictors of other programs that
            happen to be called inside keep to what is in force for them.

    Raises:
        ValueError: A policy is not a text, a shot is not a mapping, or ``program`` is not
            attached or has no such route.
    """
    texts = {route: policy.text for route, policy in guidance.policies.items()}
    with _in_force(texts, guidance.shots, program, complete=True):
        yield


@contextmanager
def use_policy(
    policies: Mapping[str, str],
    shots: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    *,
    program: dspy.Module | None = None,
) -> Iterator[None]:
    """Put plain policy texts in force inside the block; see :func:`use_guidance`.

    A route that is not named keeps the policy of the enclosing block, or its own.

    Args:
        policies: Texts by route; an empty one means none.
        shots: Examples by route as field values, most similar last.
        program: The program they are for.

    Raises:
        ValueError: As :func:`use_guidance`.
    """
    with _in_force(policies, shots or {}, program, complete=False):
        yield


@contextmanager
def _in_force(
    policies: Mapping[str, str],
    shots: Mapping[str, Sequence[Mapping[str, Any]]],
    program: dspy.Module | None,
    complete: bool,
) -> Iterator[None]:
    owner = ""
    if program is not None:
        owner, known = attached_as(program)
        check_routes({**policies, **shots}, known)
    scope = Scope(
        policies={route: text_of(route, text) for route, text in policies.items()},
        shots={route: shots_of(route, given) for route, given in shots.items()},
        complete=complete,
        owner=owner,
        outer=carried(SCOPE),
    )
    with carry(SCOPE, scope), watch_calls(name_strangers):
        yield
