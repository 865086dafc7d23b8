"""What a constraint is: one requirement on every answer, written by a person, of a known type."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from drpg_dspy.arguments import LONGEST_RULE
from drpg_dspy.plain import digest

__all__ = [
    "JUDGED_TYPES",
    "MAX_TEXT",
    "RULE_TYPES",
    "TYPES",
    "Check",
    "Constraint",
    "ConstraintCheck",
    "known_type",
]

RULE_TYPES = (
    "Length",
    "Keyword",
    "Format",
    "Start_With",
    "End_With",
    "No_Commas",
    "All_Lower",
    "All_Upper",
)
"""Types whose constraints are checked by rule, from their own text."""

JUDGED_TYPES = (
    "Tone",
    "Topic",
    "Style",
    "Emotion",
    "Helpfulness",
    "Example",
    "Audience",
    "Role",
    "Language",
    "Structure",
    "Factuality",
    "Safety",
    "Background",
)
"""Types that a language model judges. RECAP names the first six; the others are ours."""

TYPES = RULE_TYPES + JUDGED_TYPES
"""All 21 types, as RECAP counts them (App. B): 8 by rule, 13 by a judge."""

MAX_TEXT = LONGEST_RULE
"""Longest text of one constraint, in characters."""


def known_type(name: Any) -> str:
    """Return a constraint type's name as :data:`TYPES` spells it; case and spaces are forgiven.

    Raises:
        ValueError: There is no such type; the message lists those there are.

    >>> known_type("start with")
    'Start_With'
    """
    wanted = name.strip().lower().replace(" ", "_").replace("-", "_") if _is_text(name) else ""
    for known in TYPES:
        if known.lower() == wanted:
            return known
    raise ValueError(f"There is no constraint type {name!r}; there are: {', '.join(TYPES)}.")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One requirement that holds for every answer while it is in force.

    Attributes:
        type: One of :data:`TYPES`. At most one constraint of a type is in force on a route.
        text: What is asked, in one or more sentences, as a person wrote it.
        id: Stable name; derived from type, text and routes where none is given.
        routes: Names of the predictors it holds for; empty = all.
        author: ``"person:NAME"``, or who else wrote it.
        step: Step of the stream or schedule from which on it holds; 0 = outside of one.
        added_at: Seconds since the epoch; 0 = not known.
        expires: Seconds since the epoch at which it stops to hold; infinite = never.

    Raises:
        ValueError: An unknown type, a text that is empty or longer than :data:`MAX_TEXT`, a
            route that is no name, a negative step, or a time that is no number.
    """

    type: str
    text: str
    id: str = ""
    routes: tuple[str, ...] = ()
    author: str = "person"
    step: int = 0
    added_at: float = 0.0
    expires: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", known_type(self.type))
        if not _is_text(self.text) or not self.text.strip():
            raise ValueError(f"A constraint needs a text; {self.type} got {self.text!r}.")
        if len(self.text) > MAX_TEXT:
            raise ValueError(
                f"The text of a constraint has at most {MAX_TEXT} characters; that of {self.type} "
                f"has {len(self.text)}: {self.text[:60]!r}…. Say it shorter, or as several types."
            )
        if _is_text(self.routes) or not all(_is_text(r) and r for r in self.routes):
            raise ValueError(f"routes must be names of predictors, got {self.routes!r}.")
        object.__setattr__(self, "routes", tuple(self.routes))
        if not isinstance(self.step, int) or self.step < 0:
            raise ValueError(f"step must be a whole number of at least 0, got {self.step!r}.")
        for name in ("added_at", "expires"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or math.isnan(value):
                raise ValueError(f"{name} must be seconds since the epoch, got {value!r}.")
        if not self.id:
            name = digest([self.type, self.text, list(self.routes)], length=10)
            object.__setattr__(self, "id", f"c-{name}")

    def holds(self, route: str = "", now: float = -math.inf) -> bool:
        """Tell whether it is in force on a route (``""`` = on any) at a time."""
        return now < self.expires and (not route or not self.routes or route in self.routes)

    def to_plain(self) -> dict[str, Any]:
        """Return it as values that JSON can hold; what is never, is ``None``."""
        plain = dataclasses.asdict(self)
        plain["routes"] = list(self.routes)
        plain["expires"] = None if math.isinf(self.expires) else self.expires
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Constraint:
        """Return what :meth:`to_plain` made.

        >>> one = Constraint("Length", "Keep it under 20 words.", routes=("answer",))
        >>> Constraint.from_plain(one.to_plain()) == one
        True
        """
        fields = dict(plain)
        fields["routes"] = tuple(fields.get("routes", ()))
        fields["expires"] = math.inf if fields.get("expires") is None else fields["expires"]
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Check:
    """What came of checking an answer against one constraint.

    Attributes:
        satisfied: ``None`` = not judged: no rule could be read from the text, or the judge
            gave no verdict.
        detail: One line a model or a person can act on, e.g. ``"212 words, under 200 asked"``.
        by: Who decided, or failed to.
    """

    satisfied: bool | None
    detail: str = ""
    by: Literal["rule", "judge"] = "rule"

    @property
    def judged(self) -> bool:
        """False when there is no verdict."""
        return self.satisfied is not None

    @property
    def repairable(self) -> bool:
        """True for a violation that a rule found: ``detail`` says exactly what is wrong."""
        return self.satisfied is False and self.by == "rule"


@runtime_checkable
class ConstraintCheck(Protocol):
    """Checks an answer against one constraint.

    Two exist: :class:`drpg_dspy.constraints.RuleCheck` (by rule alone, no LM) and
    ``evaluators.constraints.ConstraintJudge`` (by rule, else by a judging LM).
    """

    def check(
        self, constraint_type: str, constraint_text: str, answer: str, prompt: str = ""
    ) -> Check:
        """Check one answer.

        Args:
            constraint_type: One of :data:`TYPES`.
            constraint_text: The constraint as it was written.
            answer: What the program gave.
            prompt: What it was asked, for judges.
        """
        ...


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
