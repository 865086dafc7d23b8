"""What a method is told at each step, and what it must be able to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drpg_dspy.constraints import Constraint, Operation, Schedule

__all__ = ["REQUIREMENTS", "Answer", "Method", "Prompt", "StepContext", "with_requirements"]

REQUIREMENTS = "Requirements that the response must meet:"
"""Heading under which constraints in force are appended to a prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One test prompt.

    Attributes:
        id: Unique name.
        text: What is asked, without any constraint.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class StepContext:
    """Everything that ``adapt`` is told: never a test prompt, an answer or a result.

    Attributes:
        step: Number of the step, from 0.
        operations: What changes at this step, with the constraints' texts.
        schedule: The schedule's name.
        samples: How many prompts each step is tested on.
        active_types: Types in force after this step's operations.
        new, edited, removed, retained: The same types sorted by what this step does to them.
        ever_edited, ever_deleted: Over all steps so far.
        active: The constraints in force, with their texts: only in the full-information
            ablation (RECAP, App. K); else empty.

    Source: RECAP, App. I.
    """

    step: int
    operations: tuple[Operation, ...]
    schedule: str = ""
    samples: int = 0
    active_types: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()
    ever_edited: tuple[str, ...] = ()
    ever_deleted: tuple[str, ...] = ()
    active: tuple[Constraint, ...] = ()

    @classmethod
    def at(cls, schedule: Schedule, step: int, samples: int, *, full: bool = False) -> StepContext:
        """Return what a method is told at a step of a schedule."""
        operations = schedule.steps[step]
        so_far = [one for number in range(step + 1) for one in schedule.steps[number]]
        active = schedule.active(step)
        touched = {one.type for one in operations}

        def types(op: str, among: Sequence[Operation]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(one.type for one in among if one.op == op))

        return cls(
            step=step,
            operations=operations,
            schedule=schedule.name,
            samples=samples,
            active_types=tuple(one.type for one in active),
            new=types("add", operations),
            edited=types("edit", operations),
            removed=types("delete", operations),
            retained=tuple(one.type for one in active if one.type not in touched),
            ever_edited=types("edit", so_far),
            ever_deleted=types("delete", so_far),
            active=active if full else (),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method answers.

    Attributes:
        text: The response; empty when there is none.
        error: Why there is none: class and message of what was raised.
        first: The draft, where the method revised it.
        policy: What the method has written and showed to the model, beside the constraints.
        shown: Text of demonstrations that were shown, for the detector of copied patterns.
    """

    text: str
    error: str = ""
    first: str = ""
    policy: str = ""
    shown: tuple[str, ...] = ()


class Method(Protocol):
    """One way of coping with constraints that come and go.

    A method is built for one run. It may call language models under ``dspy.context(lm=…)``,
    which the runner sets; what it spends is metered from outside.

    Attributes:
        name: As on the command line.
    """

    name: str

    def adapt(self, context: StepContext) -> None:
        """Take in the operations of a step."""
        ...

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer one test prompt under the constraints in force; must not learn from it."""
        ...

    def save(self, folder: Path) -> None:
        """Write the state after ``adapt`` into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Continue from what :meth:`save` wrote; called on a new instance."""
        ...


def with_requirements(text: str, active: Sequence[Constraint]) -> str:
    """Append the constraints in force to a prompt; without any it is left as it is.

    >>> print(with_requirements("Say hello.", [Constraint("No_Commas", "Use no commas.")]))
    Say hello.
    <BLANKLINE>
    Requirements that the response must meet:
    - Use no commas.
    """
    if not active:
        return text
    return "\n".join([text, "", REQUIREMENTS, *(f"- {one.text}" for one in active)])
