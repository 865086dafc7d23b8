"""Who changed which constraint when, and what came of it."""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drpg_dspy.constraints import Constraint
from drpg_dspy.optimizers.standing.conflicts import Conflict
from drpg_dspy.optimizers.standing.registry import shown

__all__ = ["Change", "author_name", "expiry_time"]

Operation = Literal["add", "edit", "delete"]

_SPAN = re.compile(r"\s*(\d+)\s*(m|h|d|w)\s*", re.IGNORECASE)
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MAX_AUTHOR = 80


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the constraints in force: the report to whoever made it, and its record.

    Attributes:
        number: Counts the changes of a memory, from 1.
        operation: What was done.
        constraint: As it is from now on; of a deletion, as it was.
        before: What an edit replaced.
        author: Who did it: ``"person:NAME"``.
        at: Seconds since the epoch.
        conflicts: Constraints that it contradicts. It overrides them: where it is in force,
            they are not.
        undecided: Ids of constraints in force of which nobody could tell whether it contradicts
            them: no rule speaks of both, and no LM was asked or none answered.
        versions: By route: the policy version that is in force from now on.
    """

    number: int
    operation: Operation
    constraint: Constraint
    before: Constraint | None = None
    author: str = "person"
    at: float = 0.0
    conflicts: tuple[Conflict, ...] = ()
    undecided: tuple[str, ...] = ()
    versions: Mapping[str, int] | None = None

    @property
    def message(self) -> str:
        """The change in one line, as its policy version carries it.

        >>> Change(1, "add", Constraint("Length", "Keep it under 20 words.")).message
        "add Length 'Keep it under 20 words.'"
        """
        one = self.constraint
        said = f"{self.operation} {one.type} {shown(one.text)}"
        if self.conflicts:
            gone = ", ".join(conflict.constraint.type for conflict in self.conflicts)
            said += f"; overrides {gone}, which it contradicts"
        return said

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "number": self.number,
            "operation": self.operation,
            "constraint": self.constraint.to_plain(),
            "before": None if self.before is None else self.before.to_plain(),
            "author": self.author,
            "at": self.at,
            "conflicts": [
                {"constraint": c.constraint.to_plain(), "reason": c.reason, "by": c.by}
                for c in self.conflicts
            ],
            "undecided": list(self.undecided),
            "versions": dict(self.versions or {}),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Change:
        """Undo :meth:`as_plain`."""
        before = plain["before"]
        return cls(
            **{
                **plain,
                "constraint": Constraint.from_plain(plain["constraint"]),
                "before": None if before is None else Constraint.from_plain(before),
                "conflicts": tuple(
                    Conflict(Constraint.from_plain(c["constraint"]), c["reason"], c["by"])
                    for c in plain["conflicts"]
                ),
                "undecided": tuple(plain["undecided"]),
            }
        )


def author_name(author: Any) -> str:
    """Return an author as policies name people.

    Raises:
        ValueError: It is no short name in one line.

    >>> author_name("anna"), author_name("person:anna"), author_name("person")
    ('person:anna', 'person:anna', 'person')
    """
    good = isinstance(author, str) and author.strip() and author.isprintable()
    if not good or len(author) > _MAX_AUTHOR:
        raise ValueError(
            f"author must be a name of at most {_MAX_AUTHOR} characters in one line, "
            f"got {author!r}."
        )
    name = author.strip()
    return name if name == "person" or name.startswith("person:") else f"person:{name}"


_LAST = dt.datetime(9999, 12, 30, tzinfo=dt.UTC).timestamp()
"""No later date can be written."""


def expiry_time(expires: Any, now: float | None = None) -> float:
    """Return when a constraint expires, in seconds since the epoch; infinite = never.

    Args:
        expires: ``None``, seconds since the epoch, a ``datetime`` (without a zone: local time), a
            ``timedelta`` from now, or a text: a date and time in ISO form, or a span (``"90m"``,
            ``"12h"``, ``"30d"``, ``"2w"``).
        now: The time it is; ``None`` = the clock's.

    Raises:
        ValueError: It is none of these, or in the past.

    >>> expiry_time("2h", now=1000.0), expiry_time(None)
    (8200.0, inf)
    """
    if expires is None:
        return math.inf
    now = time.time() if now is None else now
    when = _moment(expires, now)
    if when is None or math.isnan(when):
        raise ValueError(
            "expires must be a date and time (2026-12-31T18:00), a span (90m, 12h, 30d, 2w), "
            f"seconds since the epoch, or None = never; got {expires!r}."
        )
    if when <= now:
        raise ValueError(f"expires lies in the past: {expires!r}.")
    if _LAST < when < math.inf:
        raise ValueError(f"expires lies after the year 9999: {expires!r}. None = never.")
    return when


def _moment(expires: Any, now: float) -> float | None:
    if isinstance(expires, (int, float)) and not isinstance(expires, bool):
        return float(expires)
    if isinstance(expires, dt.timedelta):
        return now + expires.total_seconds()
    if isinstance(expires, dt.datetime):
        return expires.timestamp()
    if not isinstance(expires, str):
        return None
    span = _SPAN.fullmatch(expires)
    if span:
        return now + int(span[1]) * _SECONDS[span[2].lower()]
    try:
        return dt.datetime.fromisoformat(expires.strip()).timestamp()
    except ValueError:
        return None
