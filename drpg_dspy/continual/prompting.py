"""Methods that only choose what stands in the prompt: Base LM and ICL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.constraints import Constraint
from drpg_dspy.continual.context import Answer, Prompt, StepContext, with_requirements
from drpg_dspy.continual.self_play import tasks_for
from drpg_dspy.injection import attach, use_guidance
from drpg_dspy.types import Guidance

__all__ = ["BaseLM", "InContext", "respond"]

_STATE = "state.json"


class BaseLM:
    """No adaptation: the constraints in force are appended to each prompt.

    Args:
        program: A program that takes ``prompt`` and returns ``response``.

    Source: RECAP, §2, which no adaptation method beat.
    """

    name = "base"

    def __init__(self, program: dspy.Module) -> None:
        self.program = program

    def adapt(self, context: StepContext) -> None:
        """Do nothing."""

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer with the constraints listed."""
        return Answer(respond(self.program, with_requirements(prompt.text, active)))

    def save(self, folder: Path) -> None:
        """Keep nothing."""

    def load(self, folder: Path) -> None:
        """Nothing was kept."""


class InContext:
    """Demonstrations written beforehand, shown where their constraint is in force.

    On an addition or an edit the model answers synthetic tasks under that one constraint; the
    pairs join a pool. A test prompt is shown those made for a constraint in force, newest first,
    beside the list of constraints.

    Args:
        program: A program that takes ``prompt`` and returns ``response``, with one predictor.
        demos: Shown at most, at least 1.
        pool: Kept at most, at least 1; the oldest go first.
        per_change: Written for each addition or edit, at least 1.

    Raises:
        ValueError: One of the three numbers is no whole number of at least 1.

    Source: RECAP, App. I (3 demonstrations, constraint-matched, pool of 30).

    Deviations: a demonstration is matched by the constraint's text, not by its type alone, so
    that one made for a replaced text is never shown again.
    """

    name = "icl"

    def __init__(
        self, program: dspy.Module, demos: int = 3, pool: int = 30, per_change: int = 2
    ) -> None:
        self.program = program
        self.demos = whole("demos", demos, 1)
        self.pool = whole("pool", pool, 1)
        self.per_change = whole("per_change", per_change, 1)
        self._pool: list[dict[str, str]] = []
        self._routes = [card.name for card in attach(program)]

    def adapt(self, context: StepContext) -> None:
        """Write demonstrations for what was added or edited."""
        for one in context.operations:
            if one.op == "delete":
                continue
            for task in tasks_for(context.step, self.per_change):
                asked = with_requirements(task, [Constraint(one.type, one.text)])
                response = respond(self.program, asked)
                if response:
                    self._pool.append({"text": one.text, "prompt": asked, "response": response})
        self._pool = self._pool[-self.pool :]

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer with demonstrations and the constraints listed."""
        force = {one.text for one in active}
        chosen = [demo for demo in self._pool if demo["text"] in force][-self.demos :]
        shots = tuple({k: demo[k] for k in ("prompt", "response")} for demo in chosen)
        guidance = Guidance(shots=dict.fromkeys(self._routes, shots) if shots else {})
        asked = with_requirements(prompt.text, active)
        with use_guidance(guidance, program=self.program):
            text = respond(self.program, asked)
        return Answer(text, shown=tuple(demo["response"] for demo in chosen))

    def save(self, folder: Path) -> None:
        """Write the pool."""
        write_state(folder, {"pool": self._pool})

    def load(self, folder: Path) -> None:
        """Read the pool."""
        self._pool = list(read_state(folder)["pool"])


def respond(program: dspy.Module, prompt: str) -> str:
    """Ask a program, and return its response as text."""
    return str(getattr(program(prompt=prompt), "response", "") or "").strip()


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a small state as JSON."""
    (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")


def read_state(folder: Path) -> dict[str, Any]:
    """Read what :func:`write_state` wrote."""
    state: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    return state
