"""What people do with constraints: add, edit, delete, look at them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from drpg_dspy.arguments import one_line
from drpg_dspy.constraints import Constraint
from drpg_dspy.optimizers.standing.changes import Change, author_name, expiry_time
from drpg_dspy.optimizers.standing.keeper import KEEP, Keeper

__all__ = ["ConstraintDesk"]


class ConstraintDesk:
    """The people's half of :class:`~drpg_dspy.optimizers.constraints.ConstraintAdapter`."""

    _keeper: Keeper

    def add(
        self,
        type: str,
        text: str,
        *,
        routes: Sequence[str] = (),
        expires: Any = None,
        author: str = "person",
    ) -> Change:
        """Put a constraint into force.

        Args:
            type: One of :data:`drpg_dspy.constraints.TYPES`.
            text: What is asked; shown to the model as it stands, in one line (line breaks become
                blanks).
            routes: Names of the predictors it holds for; empty = all.
            expires: When it stops to hold: a ``datetime``, a ``timedelta``, seconds since the
                epoch, ``"2026-12-31T18:00"``, ``"30d"``; ``None`` = never.
            author: Who says so.

        Returns:
            What was done, with what it contradicts and of what nobody could tell.

        Raises:
            ConstraintConflict: It contradicts what is in force, and ``on_conflict="refuse"``.
            PolicyTooLong: The policy would be longer than ``max_chars``.
            ValueError: An unknown type or route; a text that is empty, longer than
                :data:`drpg_dspy.constraints.MAX_TEXT` or not plain (a control character); a time
                in the past; or a constraint of the type is in force on one of the routes.
        """
        line, until = one_line("text", text), expiry_time(expires)
        new = Constraint(type, line, routes=_names(routes), expires=until)
        return self._keeper.add(new, author_name(author))

    def edit(
        self,
        type: str,
        text: str,
        *,
        routes: Sequence[str] = (),
        expires: Any = KEEP,
        author: str = "person",
    ) -> Change:
        """Replace the text of a constraint in force; it keeps its id and its routes.

        Args:
            type: Its type, or its id.
            text: What is asked from now on.
            routes: Which one is meant, where several of the type are in force.
            expires: As for :meth:`add`; left out = as it was.
            author: Who says so.

        Raises:
            ConstraintConflict, PolicyTooLong: As for :meth:`add`.
            ValueError: No such constraint is in force, or several are; or as for :meth:`add`.
        """
        return self._keeper.edit(type, text, _names(routes), expires, author_name(author))

    def delete(self, type: str, *, routes: Sequence[str] = (), author: str = "person") -> Change:
        """Take a constraint out of force.

        Args:
            type: Its type, or its id.
            routes: Which one is meant, where several of the type are in force.
            author: Who says so.

        Raises:
            ValueError: No such constraint is in force, or several are.
        """
        return self._keeper.delete(type, _names(routes), author_name(author))

    def in_force(self, route: str = "") -> tuple[Constraint, ...]:
        """Return the constraints in force now, on a route or on any, in the order shown."""
        return self._keeper.registry().in_force(route, time.time())

    def overridden(self) -> dict[Constraint, tuple[Constraint, ...]]:
        """Return the constraints that are in force nowhere, because newer ones contradict them.

        They come back by themselves when these are deleted, edited otherwise, or expire.

        Returns:
            Each with those that override it.
        """
        registry = self._keeper.registry()
        by_id = {one.id: one for one in registry.constraints}
        found = registry.overridden(now=time.time())
        return {by_id[id]: tuple(by_id[winner] for winner in ids) for id, ids in found.items()}

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes of the program that serves them; empty = none has so far."""
        return self._keeper.registry().routes

    def history(self) -> list[Change]:
        """Return all changes ever made in this memory, the oldest first."""
        return self._keeper.history()


def _names(routes: Sequence[str]) -> tuple[str, ...]:
    return (routes,) if isinstance(routes, str) else tuple(routes or ())
