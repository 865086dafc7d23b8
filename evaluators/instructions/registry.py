"""What an instruction is: an id, what it asks for, its arguments, and its check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "READINGS",
    "Check",
    "Finding",
    "Instruction",
    "Kind",
    "count",
    "find",
    "instruction",
    "known",
    "letter",
    "of_prompt",
    "percentage",
    "relation",
    "text",
    "texts",
]


READINGS = ("2025", "2026", "described")
"""As whom to judge: as the published checks when IFBench came out, as those since they were
changed, or as the prompts' words say."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw.

    Attributes:
        followed: The text does what the instruction asks.
        found: What stands there instead; completes "asked for …, found …".
    """

    followed: bool
    found: str = ""


Check = Callable[..., Finding]
"""``check(text, **arguments)``: looks at one text, raises nothing."""

Kind = Callable[[Any], Any]
"""Returns an argument in the form that checks take; raises ``ValueError`` saying what is meant."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One checkable instruction.

    Attributes:
        id: ``"family:name"``, as the benchmarks' data spells it.
        asks: What it asks for, with its arguments in braces; completes "asked for …".
        kinds: Its arguments by name.
        check: Looks at one text.
        later: What the check is told besides its arguments to judge as the published one has
            since 2026; empty where that one has not changed.
        described: The same to judge as a prompt's words say; empty where they mean what the
            published check of 2025 judges, or where nobody has drawn that line.
    """

    id: str
    asks: str
    kinds: Mapping[str, Kind]
    check: Check
    later: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The part of the id before the colon."""
        return self.id.partition(":")[0]

    def arguments(self, given: Mapping[str, Any], prompt: str) -> dict[str, Any]:
        """Return the arguments in the form that the check takes.

        Args:
            given: By name; those that are ``None`` count as missing, as the official data has it.
            prompt: What the model was asked; stands in for a text of the request that is missing.

        Raises:
            ValueError: One is missing, malformed, or not among those of the instruction; the
                message names the instruction and the argument.
        """
        known = {name: value for name, value in given.items() if value is not None}
        if odd := sorted(known.keys() - self.kinds.keys()):
            takes = ", ".join(self.kinds) or "none"
            raise ValueError(f"{self.id} has no argument {odd[0]!r}; its arguments: {takes}.")
        found = {}
        for name, kind in self.kinds.items():
            if name not in known and kind is not of_prompt:
                raise ValueError(f"{self.id} lacks the argument {name!r}.")
            try:
                found[name] = kind(known.get(name, prompt))
            except ValueError as error:
                raise ValueError(
                    f"{self.id}: {name} must be {error}, got {known.get(name)!r}."
                ) from error
        return found

    def told(self, reading: str) -> Mapping[str, Any]:
        """Return what the check is told besides its arguments under one of :data:`READINGS`."""
        return {"2025": {}, "2026": self.later, "described": self.described}[reading]

    def wording(self, arguments: Mapping[str, Any]) -> str:
        """Return what is asked for, in words."""
        return self.asks.format(**{name: _in_words(value) for name, value in arguments.items()})


def _in_words(value: Any) -> Any:
    return ", ".join(f"'{item}'" for item in value) if isinstance(value, tuple) else value


_KNOWN: dict[str, Instruction] = {}


def instruction(
    id: str,
    asks: str,
    later: Mapping[str, Any] | None = None,
    described: Mapping[str, Any] | None = None,
    /,
    **kinds: Kind,
) -> Callable[[Check], Check]:
    """Enter a check under an id.

    Args:
        id: ``"family:name"``.
        asks: See :class:`Instruction`.
        later: See :class:`Instruction`.
        described: See :class:`Instruction`.
        kinds: The arguments of the check.
    """

    def enter(check: Check) -> Check:
        if id in _KNOWN:
            raise ValueError(f"The instruction {id!r} is entered twice.")
        _KNOWN[id] = Instruction(id, asks, kinds, check, later or {}, described or {})
        return check

    return enter


def find(id: Any) -> Instruction:
    """Return an instruction.

    Raises:
        ValueError: There is none of that id.
    """
    try:
        return _KNOWN[id]
    except (KeyError, TypeError) as error:
        family = str(id).partition(":")[0]
        close = ", ".join(name for name in known() if name.partition(":")[0] == family)
        remedy = f"its family has: {close}" if close else "see evaluators.instructions.known()"
        raise ValueError(f"There is no instruction {id!r}; {remedy}.") from error


def known() -> tuple[str, ...]:
    """Return the ids of all instructions, sorted."""
    return tuple(sorted(_KNOWN))


def count(value: Any) -> int:
    """Take a whole number; the data writes some as floats."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value != int(value) or value < 0:
        raise ValueError("a whole number of at least 0")
    return int(value)


def percentage(value: Any) -> float:
    """Take a percentage."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not 0 <= value <= 100:
        raise ValueError("a number from 0 to 100")
    return float(value)


def text(value: Any) -> str:
    """Take a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def of_prompt(value: Any) -> str:
    """Take a text of the request; without one it is the whole prompt."""
    return text(value)


def texts(value: Any) -> tuple[str, ...]:
    """Take a list of texts."""
    good = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    if not good or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError("a list of texts, none of them empty")
    return tuple(value)


def letter(value: Any) -> str:
    """Take a single character."""
    if not isinstance(value, str) or len(value.strip()) != 1:
        raise ValueError("a single character")
    return value.strip().lower()


def relation(value: Any) -> str:
    """Take the comparison ``"at least"`` or ``"less than"``."""
    if value not in ("at least", "less than"):
        raise ValueError("'at least' or 'less than'")
    return str(value)
