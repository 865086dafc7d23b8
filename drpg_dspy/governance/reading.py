"""How the policies of a memory stand, which versions there are, and where rules came from."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from drpg_dspy.governance.provenance import Provenance, rule_provenance
from drpg_dspy.governance.state import KEY, Decision, State
from drpg_dspy.governance.texts import changed
from drpg_dspy.memory import Memory
from drpg_dspy.types import Policy, Rule

__all__ = ["Change", "PolicyReader", "RouteStatus"]

_SHOWN = 8
_PROGRAM_KEY = "learner:program"
"""Under which a learner writes down the routes of the program whose memory it is."""


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """How one route stands.

    Attributes:
        route: Its name.
        versions: Distinct policy texts that it ever had.
        last: The version that it used last; ``None`` = none, or no policy any more.
        standing: The version that every call gets; ``None`` = what the optimizer proposes, or
            nothing where approval is required.
        held: A person decided what every call gets; with ``standing=None``: no policy.
        pinned: Rules that every call gets.
        candidates: Versions that wait for approval, oldest first.
    """

    route: str
    versions: int
    last: Policy | None
    standing: Policy | None
    held: bool
    pinned: tuple[Rule, ...]
    candidates: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of two versions.

    Attributes:
        before, after: The versions; ``None`` = no policy.
        lines: What went (``-``), came (``+``) and stayed (a blank), rule by rule.
    """

    before: Policy | None
    after: Policy | None
    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(f"{sign} {text}" for sign, text in self.lines)


class PolicyReader:
    """Reads the policies of one memory; changes nothing.

    Args:
        memory: Of a learner or run; it needs no embedder.
        routes: The program's, where they are known; a memory names those that it was filled by.
    """

    def __init__(self, memory: Memory, routes: Iterable[str] = ()) -> None:
        self.memory = memory
        self.routes = tuple(routes)

    def state(self) -> State:
        """Return everything that was decided."""
        return State.decode(self.memory.recall(KEY))

    def status(self) -> list[RouteStatus]:
        """Return how each route stands."""
        state, versions = self.state(), self.memory.policies()
        return [self._status(name, state, versions) for name in self._names()]

    def log(self, route: str | None = None) -> list[Decision]:
        """Return the decisions, oldest first: on one route, those on all included, or every one."""
        decisions = self.state().decisions
        return [one for one in decisions if route is None or one.route in ("", route)]

    def show(self, spec: str) -> Policy:
        """Return a version, named ``"ROUTE@VERSION"``; ``"ROUTE"`` alone is the current one.

        Raises:
            ValueError: There is none of that name; the message names those that exist.
        """
        route, number = self._parse(spec)
        if number is not None:
            return self.memory.policy(route, number)
        current = self.current(route)
        if current is None:
            raise ValueError(f"The route {route!r} has no policy now.")
        return current

    def diff(self, before: str, after: str) -> Change:
        """Return the difference of two versions, each named as for :meth:`show`."""
        one, other = self.show(before), self.show(after)
        return Change(one, other, tuple(changed(one, other)))

    def why(self, route: str, rule: str) -> Provenance:
        """Return where a rule came from, the calls it was active in, and how these went.

        Args:
            route: Its route.
            rule: Its id, its text or the beginning of one.

        Raises:
            ValueError: No version of the route has it, or several rules begin like that.
        """
        versions = [policy for policy in self.memory.policies() if policy.route == route]
        if not versions:
            self._check_route(route)
        return rule_provenance(self.memory, route, versions, self._find_rule(route, rule))

    def current(self, route: str) -> Policy | None:
        """Return what stands for a route, or else the version that it used last."""
        governed = self.state().route(route)
        if governed.standing is not None:
            return self.memory.policy(route, governed.standing) if governed.standing else None
        return self._last(route, governed.candidates)

    def _status(self, route: str, state: State, versions: list[Policy]) -> RouteStatus:
        own = [policy for policy in versions if policy.route == route]
        governed = state.route(route)
        standing = self.memory.policy(route, governed.standing) if governed.standing else None
        waiting = tuple(policy for policy in own if policy.version in governed.candidates)
        return RouteStatus(
            route=route,
            versions=sum(bool(policy.rules) for policy in own),
            last=self._last(route, governed.candidates),
            standing=standing,
            held=governed.standing is not None,
            pinned=governed.pinned,
            candidates=waiting,
        )

    def _last(self, route: str, candidates: Iterable[int]) -> Policy | None:
        last = self.memory.in_force(route)
        if last is None:  # it has policies for categories alone
            waiting = set(candidates)
            real = [one for one in self.memory.policies(route) if one.version not in waiting]
            last = real[-1] if real else None
        return last if last is not None and last.rules else None

    def _known(self, route: str) -> dict[str, Rule]:
        """Return the rules that a route had, by id and by text, the newest of each."""
        known: dict[str, Rule] = {}
        for policy in self.memory.policies(route):
            for rule in policy.rules:
                known[rule.id] = known[rule.text] = dataclasses.replace(rule, pinned=False)
        return known

    def _find_rule(self, route: str, rule: str) -> Rule:
        known = self._known(route)
        if rule in known:
            return known[rule]
        begins = {one.text: one for name, one in known.items() if name.startswith(rule)}
        if len(begins) == 1:
            return next(iter(begins.values()))
        shown = list(begins) or difflib.get_close_matches(rule, list(known), n=_SHOWN, cutoff=0.3)
        problem = "Several rules begin" if begins else "No rule begins"
        listed = "; ".join(repr(text) for text in (shown or list(known))[:_SHOWN])
        raise ValueError(f"{problem} with {rule!r} in {route}: {listed or 'it has none'}.")

    def _parse(self, spec: str) -> tuple[str, int | None]:
        route, at, number = spec.rpartition("@")
        if not at:
            route, number = spec, ""
        self._check_route(route)
        if number and not number.isdigit():
            raise ValueError(f"Expected ROUTE@VERSION, e.g. {route}@3, got {spec!r}.")
        return route, int(number) if number else None

    def _names(self) -> list[str]:
        program = json.loads(self.memory.get_meta(_PROGRAM_KEY) or "{}")
        policies = (policy.route for policy in self.memory.policies())
        return list(dict.fromkeys([*self.routes, *program, *policies, *self.state().routes]))

    def _check_route(self, route: str) -> None:
        if route not in (known := self._names()):
            close = difflib.get_close_matches(route, known, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            listed = ", ".join(known) or "none so far"
            raise ValueError(f"There is no route {route!r}.{meant} The routes: {listed}.")
