"""Schedules: which constraint is added, edited or withdrawn at which step.

A schedule in a YAML file::

    name: tightened
    steps:
      - {op: add, type: Length, text: Keep the answer under 80 words.}
      - {op: edit, type: Length, text: Keep the answer under 40 words.}
      - [{op: delete, type: Length}, {op: add, type: No_Commas, text: Use no commas.}]

A step is one operation or a list of them; ``step: N`` may be written beside an operation and is
then checked: steps count from 0 without a gap.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drpg_dspy.constraints.base import Constraint, known_type
from drpg_dspy.plain import digest

__all__ = ["Operation", "Schedule", "Shadow", "read_schedule"]

_OPS = ("add", "edit", "delete")
_FIELDS = {"op", "type", "text", "step"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of the constraints in force.

    Attributes:
        op: What is done.
        type: To the constraint of which type.
        text: The constraint from now on; empty for a deletion.

    Raises:
        ValueError: Another operation, an unknown type, or a text that is missing or, for a
            deletion, superfluous.
    """

    op: Literal["add", "edit", "delete"]
    type: str
    text: str = ""

    def __post_init__(self) -> None:
        if self.op not in _OPS:
            raise ValueError(f"op must be one of {', '.join(_OPS)}, got {self.op!r}.")
        object.__setattr__(self, "type", known_type(self.type))
        if self.op == "delete" and self.text:
            raise ValueError(f"A deletion has no text, got {self.text!r}.")
        if self.op != "delete":
            Constraint(self.type, self.text)  # says what is wrong with the text


@dataclass(frozen=True, slots=True)
class Shadow:
    """A constraint that is no longer in force and goes on being checked.

    Attributes:
        constraint: As it was.
        since: The step that replaced or deleted it.
        by: ``"edit"`` or ``"delete"``.
    """

    constraint: Constraint
    since: int
    by: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Operations by step; checked when made.

    Attributes:
        name: What it is called.
        steps: The operations of each step, from step 0.

    Raises:
        ValueError: There is no step, a step has no operation, a type is added twice, or what is
            edited or deleted is not there (yet); the message names the step.
    """

    name: str
    steps: tuple[tuple[Operation, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(tuple(step) for step in self.steps))
        if not self.steps:
            raise ValueError(f"The schedule {self.name!r} has no steps.")
        there: set[str] = set()
        for number, step in enumerate(self.steps):
            if not step:
                raise ValueError(f"Step {number} of {self.name!r} has no operation.")
            for operation in step:
                self._check(number, operation, there)

    def active(self, step: int) -> tuple[Constraint, ...]:
        """Return the constraints in force at a step, in the order in which they were added."""
        return tuple(self._replay(step)[0].values())

    def shadows(self, step: int) -> tuple[Shadow, ...]:
        """Return what was edited or deleted up to a step, oldest first; each text once a type.

        A text that is in force again is no shadow.
        """
        active, shadows = self._replay(step)
        force = {(one.type, one.text) for one in active.values()}
        found = {(s.constraint.type, s.constraint.text): s for s in shadows}
        return tuple(shadow for key, shadow in found.items() if key not in force)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return every (type, text) that is ever in force, in order, each once."""
        found = ((one.type, one.text) for step in self.steps for one in step if one.text)
        return tuple(dict.fromkeys(found))

    def to_plain(self) -> dict[str, Any]:
        """Return the schedule as :func:`read_schedule` reads it."""
        return {
            "name": self.name,
            "steps": [
                [{k: v for k, v in _plain(one).items() if v} for one in step] for step in self.steps
            ],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Schedule:
        """Read a schedule's plain form.

        Raises:
            ValueError: It is no schedule; the message names the step.
        """
        if not isinstance(plain, Mapping) or not isinstance(plain.get("steps"), Sequence):
            raise ValueError("A schedule is a mapping with name and steps, a list.")
        name = str(plain.get("name") or "unnamed")
        steps = [_step(name, number, given) for number, given in enumerate(plain["steps"])]
        return cls(name, tuple(steps))

    @property
    def fingerprint(self) -> str:
        """A short name of its content."""
        return digest(self.to_plain())

    def _check(self, number: int, one: Operation, there: set[str]) -> None:
        where = f"Step {number} of {self.name!r}"
        if one.op == "add":
            if one.type in there:
                raise ValueError(f"{where} adds {one.type}, which is in force already: edit it.")
            there.add(one.type)
            return
        if one.type not in there:
            coming = (other for step in self.steps[number:] for other in step)
            later = any(other.type == one.type and other.op == "add" for other in coming)
            why = "is added only later" if later else "is not in force"
            raise ValueError(f"{where} would {one.op} {one.type}, which {why}.")
        if one.op == "delete":
            there.discard(one.type)

    def _replay(self, step: int) -> tuple[dict[str, Constraint], list[Shadow]]:
        active: dict[str, Constraint] = {}
        shadows: list[Shadow] = []
        for number, operations in enumerate(self.steps[: step + 1]):
            for one in operations:
                if one.op != "add":
                    shadows.append(Shadow(active[one.type], number, one.op))
                if one.op == "delete":
                    del active[one.type]
                else:
                    # An edited constraint keeps its place in the list.
                    active[one.type] = Constraint(one.type, one.text, step=number)
        return active, shadows


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule from a YAML file.

    Raises:
        ValueError: It cannot be read, or is no schedule; the message names file and step.
    """
    import yaml  # comes with DSPy

    try:
        plain = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}.") from error
    try:
        return Schedule.from_plain(plain)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _step(name: str, number: int, given: Any) -> tuple[Operation, ...]:
    operations: Iterable[Any] = given if isinstance(given, list) else [given]
    found = []
    for one in operations:
        if not isinstance(one, Mapping) or not {"op", "type"} <= set(one) <= _FIELDS:
            raise ValueError(
                f"Step {number} of {name!r}: an operation is {{op, type, text}}, got {one!r}."
            )
        if one.get("step", number) != number:
            raise ValueError(
                f"Step {number} of {name!r} says that it is step {one['step']!r}: steps count "
                "from 0, without a gap."
            )
        try:
            found.append(Operation(one["op"], one["type"], str(one.get("text") or "")))
        except ValueError as error:
            raise ValueError(f"Step {number} of {name!r}: {error}") from error
    return tuple(found)


def _plain(one: Operation) -> dict[str, str]:
    return {"op": one.op, "type": one.type, "text": one.text}
