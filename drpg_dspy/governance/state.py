"""What people decided on a memory's policies, as one text in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.types import Rule

__all__ = ["FREE", "KEY", "Decision", "RouteState", "State"]

KEY = "governance"
"""Under which the text is kept (:meth:`.Memory.recall`)."""

MOST_CANDIDATES = 200
"""Candidates of a route that wait for approval, the newest; the versions of older ones stay."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One act of a person, or of a rule that a person has set.

    Attributes:
        number: From 1, never reused.
        action: ``"approve"``, ``"pin"``, ``"unpin"``, ``"edit"``, ``"rollback"``, ``"freeze"``,
            ``"thaw"``, ``"reject"``, ``"require approval"``, ``"drop approval"``.
        route: What it concerns; ``""`` = every route.
        version: The version in question; 0 = none.
        author: Who decided, e.g. ``"person:ada"``.
        reason: Why, in the person's words.
        at: Seconds since the epoch.
    """

    number: int
    action: str
    route: str
    version: int
    author: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class RouteState:
    """How one route is governed.

    Attributes:
        standing: The version that every call gets; 0 = no policy; ``None`` = what the optimizer
            proposes.
        pinned: Rules that every call gets, whatever else it gets.
        candidates: Learned versions that wait for approval, each with the version that was
            standing when it was learned (0 = none), oldest first.
        rejected: Versions that were not to wait any more, each with the version that stood then:
            learned again while that stands, they do not wait again.
        seen: What was taken up from a registry: ``"champion"`` and ``"newest"``, by number there.
    """

    standing: int | None = None
    pinned: tuple[Rule, ...] = ()
    candidates: Mapping[int, int] = field(default_factory=dict)
    rejected: Mapping[int, int] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)


FREE = RouteState()


@dataclass(frozen=True, slots=True)
class State:
    """Everything that people decided.

    Attributes:
        approval: Learned versions wait until somebody approves them.
        routes: By name; a route that is missing is free.
        decisions: Oldest first.
    """

    approval: bool = False
    routes: Mapping[str, RouteState] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether calls go on as if nobody had decided anything."""
        return not self.approval and all(
            route.standing is None and not route.pinned for route in self.routes.values()
        )

    def route(self, name: str) -> RouteState:
        """Return how a route is governed."""
        return self.routes.get(name, FREE)

    def with_route(self, name: str, **changes: Any) -> State:
        """Return the state with one route governed otherwise."""
        changed = dataclasses.replace(self.route(name), **changes)
        return dataclasses.replace(self, routes={**self.routes, name: changed})

    def with_candidate(self, route: str, version: int) -> State:
        """Return the state with one more version that waits for approval."""
        governed = self.route(route)
        others = {v: parent for v, parent in governed.candidates.items() if v != version}
        waiting = {**others, version: governed.standing or 0}
        kept = dict(list(waiting.items())[-MOST_CANDIDATES:])
        return self.with_route(route, candidates=kept)

    def deciding(self, decision: Decision) -> State:
        """Return the state with a decision logged, under the next number."""
        numbered = dataclasses.replace(decision, number=len(self.decisions) + 1)
        return dataclasses.replace(self, decisions=(*self.decisions, numbered))

    def encode(self) -> str:
        """Return the text that :meth:`decode` reads."""
        plain = dataclasses.asdict(self)
        return json.dumps(plain, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | None) -> State:
        """Read what :meth:`encode` gave; nothing is the state in which nobody decided."""
        if not text:
            return cls()
        plain = json.loads(text)
        return cls(
            approval=plain["approval"],
            routes={name: _route(given) for name, given in plain["routes"].items()},
            decisions=tuple(Decision(**given) for given in plain["decisions"]),
        )


def _route(given: Mapping[str, Any]) -> RouteState:
    return RouteState(
        standing=given["standing"],
        pinned=tuple(
            Rule(**{**rule, "sources": tuple(rule["sources"])}) for rule in given["pinned"]
        ),
        candidates={int(version): parent for version, parent in given["candidates"].items()},
        rejected={int(version): parent for version, parent in given.get("rejected", {}).items()},
        seen=given["seen"],
    )
