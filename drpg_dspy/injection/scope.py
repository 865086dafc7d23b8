"""The policies and examples in force for one call, as one snapshot that nothing can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dspy

from drpg_dspy.carrier import Held, carried
from drpg_dspy.plain import sendable

__all__ = ["SCOPE", "Scope", "is_governed", "plainly", "scope_for", "shots_of", "text_of"]

SCOPE = "drpg_scope"

Shots = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """A snapshot of policies and examples by route.

    Attributes:
        policies: Policy texts by route.
        shots: Examples by route, most similar last.
        complete: A route that is missing runs as the plain program; otherwise it falls back to
            the enclosing scope, then to the predictor's own policy.
        owner: Only for predictors attached together under this name; ``""`` = for all.
        outer: The enclosing scope.
    """

    policies: Mapping[str, str] = field(default_factory=dict)
    shots: Mapping[str, Shots] = field(default_factory=dict)
    complete: bool = False
    owner: str = ""
    outer: Scope | None = None

    def concerns(self, owner: str) -> bool:
        """True when the scope is meant for predictors of this owner."""
        return not self.owner or self.owner == owner


def scope_for(route: str, owner: str, own_policy: str) -> tuple[str, Shots]:
    """Return the policy text and the examples in force for a route.

    Args:
        route: The predictor's route.
        owner: What it was attached with.
        own_policy: The predictor's own policy, used where no scope says otherwise.
    """
    text: str | None = None
    shots: Shots | None = None
    scope: Scope | None = carried(SCOPE)
    while scope is not None and (text is None or shots is None):
        if scope.concerns(owner):
            missing: tuple[str | None, Shots | None] = ("", ()) if scope.complete else (None, None)
            text = scope.policies.get(route, missing[0]) if text is None else text
            shots = scope.shots.get(route, missing[1]) if shots is None else shots
        scope = scope.outer
    return own_policy if text is None else text, shots or ()


def is_governed(owner: str) -> bool:
    """True inside a guidance: it alone says which policy the predictors of this owner get."""
    scope: Scope | None = carried(SCOPE)
    while scope is not None and not scope.concerns(owner):
        scope = scope.outer
    return scope is not None and scope.complete


@contextmanager
def plainly() -> Iterator[None]:
    """Show every predictor as the user wrote it, whatever is in force."""
    with dspy.context(**{SCOPE: Held(Scope(complete=True))}):
        yield


def text_of(route: str, text: Any) -> str:
    """Return a policy text in the form in which it is sent; one of blanks only is no policy.

    Raises:
        ValueError: It is no text.
    """
    if not isinstance(text, str):
        raise ValueError(f"The policy of route {route!r} must be a text, got {text!r}.")
    return str(sendable(text)) if text.strip() else ""


def shots_of(route: str, shots: Sequence[Mapping[str, Any]]) -> Shots:
    """Return a copy of a route's examples in the form in which they are sent.

    Raises:
        ValueError: They are no sequence of field values.
    """
    copies = []
    for shot in shots:
        if not hasattr(shot, "items"):
            raise ValueError(
                f"A shot for route {route!r} must be a mapping of field values, got {shot!r}."
            )
        copies.append({name: sendable(value) for name, value in shot.items()})
    return tuple(copies)
