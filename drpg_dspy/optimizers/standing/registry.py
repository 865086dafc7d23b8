"""All constraints that people put into force, as one immutable value.

Which of them are in force on a route at a time follows from it alone: those that hold there and
have not expired, without those that a newer one overrides which is in force there itself.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from drpg_dspy.constraints import TYPES, Constraint, known_type
from drpg_dspy.exceptions import PolicyTooLong, StorageError
from drpg_dspy.types import CONSTRAINT, Policy, Rule

__all__ = ["Registry", "from_mapping", "overlap", "shown"]

_ORDER = {name: place for place, name in enumerate(TYPES)}
_SHOWN = 60
_OTHER = "(any other route)"


@dataclass(frozen=True)
class Registry:
    """All constraints that were put into force and not withdrawn since.

    Attributes:
        constraints: At most one of a type on a route, in the order in which they are rendered:
            by type, as :data:`~drpg_dspy.constraints.TYPES` has them, then by route, then by id.
        overrides: Pairs of ids: a constraint, and an older one that it contradicts.
        number: Of the last change, from 1; 0 = never changed.
        author: Who made it.
        message: What it was, in one line.
        routes: The program's; empty = not known yet.
    """

    constraints: tuple[Constraint, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    number: int = 0
    author: str = "person"
    message: str = ""
    routes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.constraints, key=_place))
        object.__setattr__(self, "constraints", ordered)

    def in_force(self, route: str = "", now: float = -math.inf) -> tuple[Constraint, ...]:
        """Return the constraints in force on a route (``""`` = on any) at a time."""
        out = self.overridden(route, now)
        return tuple(one for one in self.constraints if one.holds(route, now) and one.id not in out)

    def overridden(self, route: str = "", now: float = -math.inf) -> dict[str, tuple[str, ...]]:
        """Return the constraints that are not in force because a newer one contradicts them.

        Args:
            route: On this route; ``""`` = on every route that they hold for.
            now: The time.

        Returns:
            Ids, each with the ids of those in force that override it.
        """
        if not self.overrides:
            return {}
        if route:
            return self._overridden(route, now)
        found = [self._overridden(each, now) for each in self._places]
        out: dict[str, tuple[str, ...]] = {}
        for one in self.constraints:
            places = zip(self._places, found, strict=True)
            own = [losers.get(one.id) for place, losers in places if one.holds(place, now)]
            if own and all(own):
                winners = (id for ids in own for id in ids or ())
                out[one.id] = tuple(dict.fromkeys(winners))
        return out

    def _overridden(self, route: str, now: float) -> dict[str, tuple[str, ...]]:
        winners: dict[str, list[str]] = {}
        for winner, loser in self.overrides:
            winners.setdefault(loser, []).append(winner)
        standing = {one.id for one in self.constraints if one.holds(route, now)}

        @functools.cache
        def beaten(id: str) -> tuple[str, ...]:  # one that is overridden overrides nothing
            return tuple(w for w in winners.get(id, ()) if w in standing and not beaten(w))

        return {id: beaten(id) for id in winners if id in standing and beaten(id)}

    @functools.cached_property
    def _places(self) -> tuple[str, ...]:
        """The routes to look at, and one that stands for all others where these are not known."""
        named = dict.fromkeys(route for one in self.constraints for route in one.routes)
        return tuple(dict.fromkeys([*self.routes, *named])) if self.routes else (*named, _OTHER)

    def find(self, name: str, routes: Sequence[str] = ()) -> Constraint:
        """Return the constraint of an id or a type, on certain routes where several have one.

        Raises:
            ValueError: There is none, or several; the message names what is in force.
        """
        by_id = [one for one in self.constraints if one.id == name]
        if by_id:
            return by_id[0]
        try:
            kind = known_type(name)
        except ValueError as error:
            ids = ", ".join(one.id for one in self.constraints) or "none"
            raise ValueError(f"{error} Nor has any constraint that id; there are: {ids}.") from None
        found = [one for one in self.constraints if one.type == kind]
        if routes:
            found = [one for one in found if set(one.routes) == set(routes)] or [
                one for one in found if overlap(one.routes, routes)
            ]
        if len(found) == 1:
            return found[0]
        on = f" on {', '.join(routes)}" if routes else ""
        if found:
            each = "; ".join(f"{one.id} on {', '.join(one.routes) or 'all'}" for one in found)
            raise ValueError(
                f"Several constraints of type {kind}{on} are in force ({each}): give the id in "
                "place of the type."
            )
        kinds = ", ".join(dict.fromkeys(one.type for one in self.constraints)) or "none"
        raise ValueError(f"No constraint of type {kind}{on} is in force; in force: {kinds}.")

    def clashing(self, new: Constraint, now: float) -> Constraint | None:
        """Return the constraint of the same type that is in force where the new one is to hold."""
        there = (one for one in self.constraints if now < one.expires)
        same = (one for one in there if one.type == new.type and one.id != new.id)
        return next((one for one in same if overlap(one.routes, new.routes)), None)

    def changed(
        self,
        *,
        out: str = "",
        into: Constraint | None = None,
        over: Iterable[str] = (),
        now: float,
        author: str,
        message: str,
    ) -> Registry:
        """Return what it is after the next change; what has expired goes with it.

        Args:
            out: Id of one that is taken out.
            into: One that is added, or takes the place of the one of its id.
            over: Ids of those that it contradicts: it overrides them.
            now, author, message: Of the change.
        """
        gone = {out} if into is None else {out, into.id}
        stay = [one for one in self.constraints if one.id not in gone and now < one.expires]
        ids = {one.id for one in stay}
        pairs = [pair for pair in self.overrides if pair[0] in ids and pair[1] in ids]
        new = [] if into is None else [into]
        return replace(
            self,
            constraints=(*stay, *new),
            overrides=(*pairs, *((one.id, loser) for one in new for loser in over)),
            number=self.number + 1,
            author=author,
            message=message,
        )

    def policy(self, route: str, now: float, step: int = 0) -> Policy:
        """Return a route's policy: a rule for each constraint, in its own words and no others."""
        out = self.overridden(route, now)
        pairs = zip(self.constraints, self._rules, strict=True)
        rules = tuple(r for one, r in pairs if one.holds(route, now) and one.id not in out)
        return Policy(route, rules, author=self.author, step=step, message=self._said(now))

    def policies(self, routes: Iterable[str], now: float) -> dict[str, Policy]:
        """Return the policies of the routes that have one, in one pass over the constraints."""
        if self.overrides:
            each = (self.policy(route, now) for route in routes)
            return {policy.route: policy for policy in each if policy.rules}
        rules: dict[str, list[Rule]] = {route: [] for route in routes}
        for one, rule in zip(self.constraints, self._rules, strict=True):
            if now < one.expires:
                for route in one.routes or rules:
                    if route in rules:
                        rules[route].append(rule)
        said = self._said(now)
        return {
            route: Policy(route, tuple(own), author=self.author, message=said)
            for route, own in rules.items()
            if own
        }

    def check_size(self, max_chars: int, routes: Iterable[str], now: float) -> None:
        """Refuse a registry whose policy would be too long for a route.

        Raises:
            PolicyTooLong: Names the route and both lengths.
        """
        named = {route for one in self.constraints for route in one.routes}
        for route in [*dict.fromkeys([*routes, *sorted(named)])] or [""]:
            length = len(self.policy(route, now).text) if route else self._length(now)
            if length > max_chars:
                raise PolicyTooLong(
                    f"The constraints in force{f' on {route!r}' if route else ''} would take "
                    f"{length} characters, max_chars is {max_chars}. Withdraw or shorten some, or "
                    "raise max_chars; nothing was changed."
                )

    @functools.cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return tuple(
            Rule(one.text, id=_rule_id(one.id), author=one.author, pinned=True)
            for one in self.constraints
        )

    def to_text(self) -> str:
        """Return it as the text that a memory keeps."""
        plain = {
            "constraints": [one.to_plain() for one in self.constraints],
            "overrides": [list(pair) for pair in self.overrides],
            "number": self.number,
            "author": self.author,
            "message": self.message,
            "routes": list(self.routes),
        }
        return json.dumps(plain, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str | None) -> Registry:
        """Undo :meth:`to_text`; ``None`` = never changed.

        Raises:
            StorageError: The text is damaged.
        """
        if text is None:
            return cls()
        try:
            plain: dict[str, Any] = json.loads(text)
            constraints = tuple(map(Constraint.from_plain, plain["constraints"]))
            return cls(
                constraints,
                tuple((winner, loser) for winner, loser in plain["overrides"]),
                plain["number"],
                plain["author"],
                plain["message"],
                tuple(plain["routes"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"The constraints kept in this memory are damaged: {error}."
            ) from error

    def _said(self, now: float) -> str:
        expired = [one.type for one in self.constraints if now >= one.expires]
        return f"{self.message}; expired: {', '.join(expired)}" if expired else self.message

    def _length(self, now: float) -> int:
        return sum(len(one.text) + 3 for one in self.in_force(now=now))


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether two sets of routes share one; an empty set means all routes.

    >>> overlap(("answer",), ()), overlap(("answer",), ("query",))
    (True, False)
    """
    return not one or not other or bool(set(one) & set(other))


def shown(text: str, limit: int = _SHOWN) -> str:
    """Return a text in quotes, cut visibly where it is long."""
    return repr(text if len(text) <= limit else f"{text[:limit].rstrip()}…")


def _place(one: Constraint) -> tuple[int, tuple[str, ...], str]:
    return _ORDER[one.type], one.routes, one.id


def from_mapping(given: Mapping[str, Any] | Iterable[Any]) -> list[Constraint]:
    """Return constraints given as a mapping of type to text, or as a list.

    Raises:
        ValueError: An entry is neither a constraint nor a mapping of its fields.

    >>> [one.type for one in from_mapping({"Length": "Keep it under 20 words."})]
    ['Length']
    """
    if isinstance(given, Mapping):
        return [Constraint(kind, text) for kind, text in given.items()]
    if isinstance(given, str):
        raise ValueError(
            f"constraints must be a mapping of type to text, or a list; got {given!r}."
        )
    found = []
    for item in given:
        if not isinstance(item, (Constraint, Mapping)):
            raise ValueError(
                f"constraints must hold Constraints or mappings of their fields; got {item!r}."
            )
        found.append(item if isinstance(item, Constraint) else Constraint.from_plain(dict(item)))
    return found


def _rule_id(id: str) -> str:
    return id if id.startswith(CONSTRAINT) else f"{CONSTRAINT}{id}"
