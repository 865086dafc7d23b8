"""Keeps the constraints in force in a memory, for every process that shares it."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import dspy
from dspy.utils.exceptions import DSPyError

from drpg_dspy.arguments import one_line
from drpg_dspy.constraints import Constraint, parse_rule
from drpg_dspy.exceptions import ConstraintConflict, StorageError
from drpg_dspy.memory.base import Memory, MemoryView
from drpg_dspy.optimizers.books.showing import under
from drpg_dspy.optimizers.standing.changes import Change, expiry_time
from drpg_dspy.optimizers.standing.clashes import own_clash
from drpg_dspy.optimizers.standing.conflicts import Comparison, compare, compare_by_lm
from drpg_dspy.optimizers.standing.registry import Registry, shown
from drpg_dspy.types import Policy

__all__ = ["KEEP", "Keeper", "OnConflict"]

logger = logging.getLogger(__name__)

OnConflict = Literal["newest", "refuse"]

KEEP = object()
"""An edit leaves this as it was."""

_KEY = "constraints"
_MAX_TRIES = 8

Plan = Callable[[Registry, float], tuple[Registry, Change]]


class _Moved(Exception):
    """Somebody else changed the constraints meanwhile."""


class Keeper:
    """The constraints in force: read at every call, changed one transaction at a time.

    Until it has a memory it keeps them itself; what it holds then becomes the memory's, unless
    constraints were ever changed there.

    Args:
        on_conflict: ``"newest"``: a new constraint overrides what it contradicts. ``"refuse"``:
            it is not put into force.
        policy_lm: Asked for contradictions of which no rule can tell; ``None`` = nobody is.
        max_chars: Length of a route's policy.
    """

    def __init__(
        self, on_conflict: OnConflict, policy_lm: dspy.BaseLM | None, max_chars: int
    ) -> None:
        self.on_conflict = on_conflict
        self.policy_lm = policy_lm
        self.max_chars = max_chars
        self.memory: Memory | None = None
        self._own = Registry()
        self._own_changes: list[Change] = []
        self._read: tuple[str, Registry] | None = None

    # -- reading ----------------------------------------------------------------------------

    def registry(self, memory: MemoryView | None = None) -> Registry:
        """Return the constraints as they stand now, whoever changed them last."""
        source = memory if memory is not None else self.memory
        text = source.recall(_KEY) if source is not None else None
        return self._own if text is None else self._parsed(text)

    def history(self) -> list[Change]:
        """Return all changes, the oldest first."""
        if self.memory is None:
            return list(self._own_changes)
        texts = (self.memory.recall(_change_key(n)) for n in range(1, self.registry().number + 1))
        return [Change.from_plain(json.loads(text)) for text in texts if text is not None]

    def _parsed(self, text: str) -> Registry:
        read = self._read
        if read is None or read[0] != text:
            read = (text, Registry.from_text(text))
            self._read = read
        return read[1]

    # -- binding ----------------------------------------------------------------------------

    def bind(self, memory: Memory, routes: Sequence[str]) -> None:
        """Serve a memory from now on; what was put into force before goes into it.

        Raises:
            StorageError: There is something to write, and it cannot be written.
        """
        self.memory = memory
        text = memory.recall(_KEY)
        if text is None and self._own.number:
            self._write(lambda stood: self._own if stood is None else None, routes)
        elif text is not None and self._own.number:
            self._explain(self._parsed(text))
        if routes and self.registry().routes != tuple(routes):
            try:
                self._write(Registry.from_text, routes)
            except StorageError as error:
                logger.warning("The program's routes are not on record: %s", error)
        strangers = {r for one in self.registry().constraints for r in one.routes} - set(routes)
        if routes and strangers:
            logger.warning(
                "Constraints in force are limited to routes that the program does not have: %s.",
                ", ".join(sorted(strangers)),
            )

    def _write(
        self, choose: Callable[[str | None], Registry | None], routes: Sequence[str]
    ) -> None:
        """Write a registry with the program's routes, and the changes that it came from."""
        memory = self._memory()
        step = memory.count_rollouts() + 1

        def amendment(stood: str | None) -> tuple[Mapping[str, str], Sequence[Policy]]:
            chosen = choose(stood)
            if chosen is None:
                return {}, ()
            chosen = dataclasses.replace(chosen, routes=tuple(routes))
            own = self._own_changes if stood is None else ()
            texts = {_change_key(change.number): _as_text(change) for change in own}
            before = Registry() if stood is None else Registry.from_text(stood)
            policies = _changed_policies(before, chosen, time.time(), step)
            return {_KEY: chosen.to_text(), **texts}, policies

        memory.amend(_KEY, amendment)

    def _explain(self, stands: Registry) -> None:
        """Say it where code and memory differ: the memory is what people changed."""
        own = {(one.type, one.routes): one.text for one in self._own.constraints}
        there = {(one.type, one.routes): one.text for one in stands.constraints}
        if own != there:
            logger.warning(
                "Constraints were changed in this memory before (the last time by %s: %s). Those "
                "in force there hold; the ones given at construction differ and are not used.",
                stands.author,
                stands.message,
            )

    # -- changing ---------------------------------------------------------------------------

    def add(self, new: Constraint, author: str) -> Change:
        """Put a constraint into force; see :meth:`.ConstraintAdapter.add`."""

        def plan(registry: Registry, now: float) -> tuple[Registry, Change]:
            self._check_routes(new.routes, registry)
            other = registry.clashing(new, now)
            if other is not None:
                raise ValueError(
                    f"{new.type} was added already: {shown(other.text)} by {other.author} "
                    f"(on {', '.join(other.routes) or 'all routes'}). Edit it, or delete it first."
                )
            taken = any(one.id == new.id for one in registry.constraints)
            id = f"{new.id}-{registry.number + 1}" if taken else new.id
            dated = dataclasses.replace(new, id=id, author=author, added_at=now)
            return self._with(registry, Change(0, "add", dated, author=author), now)

        return self._change(plan)

    def edit(
        self, name: str, text: str, routes: Sequence[str], expires: Any, author: str
    ) -> Change:
        """Replace a constraint's text; see :meth:`.ConstraintAdapter.edit`."""

        def plan(registry: Registry, now: float) -> tuple[Registry, Change]:
            before = _standing(registry, now).find(name, routes)
            until = before.expires if expires is KEEP else expiry_time(expires, now)
            after = dataclasses.replace(
                before, text=one_line("text", text), expires=until, author=author, added_at=now
            )
            return self._with(registry, Change(0, "edit", after, before, author=author), now)

        return self._change(plan)

    def delete(self, name: str, routes: Sequence[str], author: str) -> Change:
        """Take a constraint out of force; see :meth:`.ConstraintAdapter.delete`."""

        def plan(registry: Registry, now: float) -> tuple[Registry, Change]:
            gone = _standing(registry, now).find(name, routes)
            change = Change(registry.number + 1, "delete", gone, author=author, at=now)
            after = registry.changed(out=gone.id, now=now, author=author, message=change.message)
            return after, change

        return self._change(plan)

    def _with(self, registry: Registry, change: Change, now: float) -> tuple[Registry, Change]:
        """Return the registry with a new or edited constraint, its contradictions resolved.

        Raises:
            ConstraintConflict: It contradicts others, and the newest does not win.
            PolicyTooLong: It does not fit.
            ValueError: It contradicts itself.
        """
        new = change.constraint
        if reason := own_clash(parse_rule(new.type, new.text)):
            raise ValueError(
                f"{new.type} {shown(new.text)} contradicts itself: {reason}. No answer could meet "
                "it; nothing was changed."
            )
        found = self._compared(new, _standing(registry, now).constraints)
        change = dataclasses.replace(
            change,
            number=registry.number + 1,
            at=now,
            conflicts=found.conflicts,
            undecided=tuple(one.id for one in found.undecided),
        )
        standing = {one.id for one in registry.in_force(now=now)}
        against = tuple(c for c in found.conflicts if c.constraint.id in standing)
        if against and self.on_conflict == "refuse":
            said = "; ".join(map(str, against))
            raise ConstraintConflict(
                f"{new.type} {shown(new.text)} contradicts what is in force: {said}. Nothing was "
                "changed. Edit or delete that first, or let the newest win.",
                against,
            )
        after = registry.changed(
            into=new,
            over=[conflict.constraint.id for conflict in found.conflicts],
            now=now,
            author=change.author,
            message=change.message,
        )
        after.check_size(self.max_chars, registry.routes, now)
        return after, change

    def _compared(self, new: Constraint, others: Iterable[Constraint]) -> Comparison:
        found = compare(new, others)
        if self.policy_lm is None or not found.undecided:
            return found
        try:
            with under(self.policy_lm):
                more, unknown, _ = compare_by_lm(new.text, found.undecided)
        except DSPyError as error:
            logger.warning("Contradictions were looked for by rule alone: %s", error)
            return found
        return Comparison((*found.conflicts, *more), unknown)

    def _change(self, plan: Plan) -> Change:
        """Make a change; when somebody else was faster, think again from what stands then."""
        for _ in range(_MAX_TRIES):
            seen = self.registry()
            after, change = plan(seen, time.time())
            if self.memory is None:
                self._own = after
                self._own_changes.append(change)
                return change
            try:
                return self._commit(self.memory, seen, after, change)
            except _Moved:
                continue
        raise StorageError(
            f"Other processes kept changing the constraints ({_MAX_TRIES} tries); nothing was "
            "changed, try again."
        )

    def _commit(self, memory: Memory, seen: Registry, after: Registry, change: Change) -> Change:
        step = memory.count_rollouts() + 1

        def amendment(stood: str | None) -> tuple[Mapping[str, str], Sequence[Policy]]:
            stands = self._own if stood is None else self._parsed(stood)
            if stands != seen:
                raise _Moved
            texts = {_KEY: after.to_text(), _change_key(change.number): _as_text(change)}
            return texts, _changed_policies(seen, after, change.at, step)

        stored = memory.amend(_KEY, amendment)
        return dataclasses.replace(change, versions={p.route: p.version for p in stored})

    def _check_routes(self, routes: Sequence[str], registry: Registry) -> None:
        unknown = [route for route in routes if registry.routes and route not in registry.routes]
        if unknown:
            raise ValueError(
                f"The program has no route {unknown[0]!r}; it has: {', '.join(registry.routes)}."
            )

    def _memory(self) -> Memory:
        if self.memory is None:
            raise ValueError("No memory is served yet.")
        return self.memory


def _standing(registry: Registry, now: float) -> Registry:
    """Return the registry without what has expired: it cannot be edited or deleted any more."""
    left = tuple(one for one in registry.constraints if now < one.expires)
    return dataclasses.replace(registry, constraints=left)


def _changed_policies(before: Registry, after: Registry, now: float, step: int) -> list[Policy]:
    """Return the policies of the routes whose text changes, those that lose it included."""
    pairs = ((before.policy(r, now), after.policy(r, now, step)) for r in after.routes)
    return [new for old, new in pairs if new.text != old.text]


def _change_key(number: int) -> str:
    return f"{_KEY}:change:{number}"


def _as_text(change: Change) -> str:
    return json.dumps(change.as_plain(), ensure_ascii=True)
