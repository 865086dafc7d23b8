"""The policy memory M_t: instructions by route and category, and who gets which."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from drpg_dspy.optimizers.corrections.trials import effect
from drpg_dspy.optimizers.rules import similar
from drpg_dspy.plain import digest

__all__ = [
    "EVERY_ROUTE",
    "Instruction",
    "PolicyMemory",
    "Selection",
    "covers",
    "shared_category",
]

EVERY_ROUTE = "*"
"""Route of an instruction that all modules get (no routing)."""

BULLET_CHARS = 3
"""Characters that a line of a policy has beside its text: bullet and line end."""

MAX_EVIDENCE = 8
"""Experiences named for an instruction (the first) and against it (the latest); all count."""

_MAX_INSTRUCTIONS = 500
_MAX_MADE = 4_096

Made = TypeVar("Made")

Status = Literal["waiting", "trial", "accepted"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One correction, where it belongs, and what speaks for and against it.

    Attributes:
        id: Its name, from route, category and text.
        route: The predictor that gets it; ``"*"`` = all of them.
        category: The inputs it is for; ``""`` = all of the route. A family, ``"count"``, is for
            all categories that are named after it, ``"count:numbers"`` (:func:`covers`).
        text: One line.
        status: ``"waiting"`` for a trial, on ``"trial"``, or ``"accepted"``.
        author: The optimizer's name or ``"person:NAME"``.
        sources: Experiences for it: failures that it was written from, and then those that
            asked for the same; the first of them.
        cases: How many there were.
        against: Experiences against it: failures of its route although it was given, the latest.
        failures: How many there were.
        born: Verdicts that the optimizer had seen when it was written.
        tally: Calls with it that were right and wrong, and without it right and wrong.
        outcomes: Letters of the calls since it was put on trial or accepted
            (:mod:`drpg_dspy.optimizers.corrections.trials`).
        judged: While on trial: the rollouts behind the letters.
        grounds, marks: Once accepted: the rollouts and letters that it was accepted on.
        replaces: Id of the instruction that it is to take the place of; ``""`` = none.
        helped: By how much it helped when it was accepted, in (-1, 1).
    """

    id: str
    route: str
    category: str
    text: str
    status: Status = "trial"
    author: str = "nlpg"
    sources: tuple[str, ...] = ()
    cases: int = 0
    against: tuple[str, ...] = ()
    failures: int = 0
    born: int = 0
    tally: tuple[int, int, int, int] = (0, 0, 0, 0)
    outcomes: str = ""
    judged: tuple[str, ...] = ()
    grounds: tuple[str, ...] = ()
    marks: str = ""
    replaces: str = ""
    helped: float = 0.0

    @classmethod
    def write(cls, route: str, category: str, text: str, **more: Any) -> Instruction:
        """Return a new instruction, named after what it says."""
        return cls(f"i-{digest(route, category, text, length=10)}", route, category, text, **more)

    @property
    def score(self) -> float:
        """By how much calls with it are better than calls without, in (-1, 1); 0 = unknown."""
        return effect(*self.tally)

    @property
    def chars(self) -> int:
        """Characters that it takes in a policy: bullet, text and line end."""
        return len(self.text) + BULLET_CHARS

    @property
    def standing(self) -> str:
        """Its id and figures, in a few words."""
        if self.status == "trial":
            return f"{self.id} on trial"
        right, wrong, plain_right, plain_wrong = self.tally
        if not any(self.tally):
            return f"{self.id} new"
        with_it = f"{self.id} {right} of {right + wrong} right with it"
        plain = plain_right + plain_wrong
        return f"{with_it}, {plain_right} of {plain} without" if plain else with_it

    def is_for(self, route: str) -> bool:
        """Tell whether a module gets it, categories aside."""
        return self.route in (route, EVERY_ROUTE)

    def changed(self, **values: Any) -> Instruction:
        """Return it with other values."""
        return dataclasses.replace(self, **values)

    def supported(self, cases: Sequence[str]) -> Instruction:
        """Return it with more failures that lead to it."""
        new = [case for case in cases if case not in self.sources]
        kept = (*self.sources, *new)[:MAX_EVIDENCE]
        return self.changed(sources=kept, cases=self.cases + len(new))

    def doubted(self, cases: Sequence[str]) -> Instruction:
        """Return it with more failures that it did not prevent."""
        new = [case for case in cases if case not in self.against]
        kept = (*self.against, *new)[-MAX_EVIDENCE:]
        return self.changed(against=kept, failures=self.failures + len(new))

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON, without what is at its default."""
        return {
            f.name: list(value) if isinstance(value, tuple) else value
            for f in dataclasses.fields(self)
            if (value := getattr(self, f.name)) != f.default
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Instruction:
        """Undo :meth:`as_plain`."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Selection:
    """What one route gets for one call.

    Attributes:
        shown: The instructions, in the order in which they stand in the policy.
        given, withheld: Those of them, and of others, whose presence was drawn for this call.
    """

    shown: tuple[Instruction, ...] = ()
    given: tuple[Instruction, ...] = ()
    withheld: tuple[Instruction, ...] = ()


class PolicyMemory:
    """Instructions by route and category.

    Args:
        most: Instructions that a route gets for one call.
        max_chars: Characters of a route's policy.

    A call of a route gets the accepted instructions of its category and those of the whole
    route, best first: by score, then those of the category, then by the number of failures
    that they came from, then the later ones; what says the same as one before it is left out,
    and so is what does not fit. Instructions on trial come first. Source: ours.
    """

    def __init__(self, most: int, max_chars: int) -> None:
        self.most = most
        self.max_chars = max_chars
        self._state = _State({})

    def snapshot(self) -> PolicyMemory:
        """Return the memory as it is now, whatever another thread changes."""
        view = PolicyMemory(self.most, self.max_chars)
        view._state = self._state
        return view

    def __len__(self) -> int:
        return len(self._state.all)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(tuple(self._state.all.values()))

    def __contains__(self, id: str) -> bool:
        return id in self._state.all

    def get(self, id: str) -> Instruction | None:
        """Return an instruction, if it stands or is on trial."""
        return self._state.all.get(id)

    def put(self, instruction: Instruction) -> None:
        """Add an instruction, or replace what it was."""
        self._state = _State({**self._state.all, instruction.id: instruction})

    def remove(self, id: str) -> None:
        """Remove an instruction."""
        self._state = _State({k: one for k, one in self._state.all.items() if k != id})

    def knows(self, category: str) -> bool:
        """Tell whether any instruction is for this category or its family."""
        return any(one and covers(one, category) for one in self._state.categories)

    def pool(self, route: str, category: str) -> tuple[Instruction, ...]:
        """Return what a call of a route may get, best first: on trial, then accepted.

        Its own and those for every route, of the category, its family and of all. Of those on
        trial as many as one call has room for; the others have to wait.
        """
        state = self._state
        found = state.pools.get((route, category))
        if found is None:
            ranked = _rank(state.all.values(), route, category)
            trials = self._fitting([one for one in ranked if one.status == "trial"])
            accepted = (one for one in ranked if one.status == "accepted")
            found = state.pools[route, category] = (*trials, *accepted)
        return found

    def select(self, pool: Sequence[Instruction], drawn: Sequence[bool | None]) -> Selection:
        """Choose what a route gets for one call.

        Args:
            pool: Of the route and category.
            drawn: For each of the pool, whether the call gets it. ``None``: nothing is drawn,
                so what is accepted stands there, and what is on trial does not.

        What is drawn decides nothing but the presence of that one instruction: with it the
        policy is what it would be if it were accepted, without it what it would be without it.
        """
        draw = {one.id: fate for one, fate in zip(pool, drawn, strict=True)}
        trials = [one for one in pool if one.status == "trial"]
        up = [one for one in trials if draw[one.id]]
        replaced = {one.replaces for one in up}
        accepted = [o for o in pool if o.status == "accepted" and o.id not in replaced]
        complete = self._fitting([*up, *accepted])  # what stands there when nothing is withheld
        contested = {one.replaces for one in trials}
        watched = {
            one.id for one in complete if one.status == "accepted" and draw[one.id] is not None
        } - contested
        out = {id for id in watched if not draw[id]}
        shown = self._fitting([*up, *(one for one in accepted if one.id not in out)])
        told = watched.union(one.id for one in up)
        return Selection(
            # New ones last: a prompt keeps its beginning, and acceptance moves nothing.
            shown=tuple(sorted(shown, key=lambda one: (one.born, one.id))),
            given=tuple(one for one in shown if one.id in told),
            withheld=(
                *(one for one in trials if draw[one.id] is False),
                *(one for one in complete if one.id in out),
            ),
        )

    def made(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made of these very instructions under a key; make it the first time."""
        kept = self._state.made
        found: Made | None = kept.get(key)
        if found is None:
            if len(kept) >= _MAX_MADE:
                kept.clear()
            found = kept[key] = make()
        return found

    def crowded_out(self) -> Iterator[Instruction]:
        """Yield what has to go because there are too many: the worst and oldest first."""
        extra = len(self._state.all) - _MAX_INSTRUCTIONS
        if extra > 0:
            yield from sorted(self._state.all.values(), key=lambda i: (i.score, i.cases, i.born))[
                :extra
            ]

    def as_plain(self) -> list[dict[str, Any]]:
        """Return all instructions as plain JSON, in order of admission."""
        return [instruction.as_plain() for instruction in self._state.all.values()]

    def load_plain(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all instructions by what :meth:`as_plain` returned."""
        found = (Instruction.from_plain(row) for row in rows)
        self._state = _State({instruction.id: instruction for instruction in found})

    def _fitting(self, wanted: Sequence[Instruction]) -> list[Instruction]:
        """Return the first that fit into a policy."""
        kept: list[Instruction] = []
        room = self.max_chars + 1  # the last line has no end
        for one in wanted:
            if len(kept) == self.most:
                break
            if (chars := one.chars) <= room:
                kept.append(one)
                room -= chars
        return kept


@dataclass(frozen=True)
class _State:
    """Instructions by id, and what was made of them; never changed, always replaced."""

    all: Mapping[str, Instruction]
    pools: dict[tuple[str, str], tuple[Instruction, ...]] = field(default_factory=dict)
    made: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def categories(self) -> frozenset[str]:
        """Those for which there is an instruction."""
        return frozenset(one.category for one in self.all.values())


def _rank(
    instructions: Iterable[Instruction], route: str, category: str
) -> tuple[Instruction, ...]:
    pool = [
        one
        for one in instructions
        if one.is_for(route) and covers(one.category, category) and one.status != "waiting"
    ]
    pool.sort(
        key=lambda one: (
            one.status == "accepted",
            -one.score,
            -len(one.category),
            -one.cases,
            -one.born,
            one.id,
        )
    )
    accepted: list[Instruction] = []
    for one in pool:
        if one.status == "accepted" and not any(similar(one.text, o.text) for o in accepted):
            accepted.append(one)
    # Where the same stands already for these inputs, a trial of it for more of them shows nothing.
    trials = [
        one
        for one in pool
        if one.status == "trial"
        and not any(similar(one.text, o.text) and o.id != one.replaces for o in accepted)
    ]
    return (*trials, *accepted)


def covers(general: str, category: str) -> bool:
    """Tell whether what is learned for one category holds for another.

    Families stand before a colon, and ``""`` is the family of all.

    >>> covers("count", "count:numbers"), covers("", "count"), covers("count:numbers", "count")
    (True, True, False)
    """
    return general in ("", category) or category.startswith(f"{general}:")


def shared_category(categories: Iterable[str]) -> str:
    """Return the smallest category that covers all of these.

    >>> shared_category(["count:numbers", "count:pronouns"]), shared_category(["count", "words"])
    ('count', '')
    """
    parts = [category.split(":") for category in categories]
    shared = itertools.takewhile(lambda same: len(set(same)) == 1, zip(*parts, strict=False))
    return ":".join(same[0] for same in shared)
