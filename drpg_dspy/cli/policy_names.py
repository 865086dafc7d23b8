"""Whose policies are meant: a run's, a learner's, or those of a memory file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    Name = click.ParamType[str]
else:
    Name = click.ParamType

__all__ = ["POLICIES", "check_run", "memory_path"]

_LEARNERS = Path(".drpg")


class _Policies(Name):
    """A run's name, a learner's name, or a memory file."""

    name = "name"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if memory_path(str(value)) is None:
            known = sorted({*_runs(), *_learners()})
            close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            listed = ", ".join(known[:20]) or "none in this folder"
            self.fail(f"There is no run or learner {value!r}.{meant} Known: {listed}.", param, ctx)
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        known = sorted({*_runs(), *_learners()})
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def memory_path(name: str) -> Path | None:
    """Return the memory file that a name stands for; ``None`` = there is none of that name."""
    if name in (runs := _runs()):
        return runs[name]
    if name in (learners := _learners()):
        return learners[name]
    path = Path(name)
    return path if path.is_file() else None


def check_run(name: str) -> None:
    """Refuse the name of a run whose memory was deleted.

    Raises:
        StorageError: It was; the message says what to do.
    """
    from drpg_dspy.streaming import list_runs

    for run in list_runs():
        if run.name == name:
            run.check_whole()


def _runs() -> dict[str, Path]:
    from drpg_dspy.streaming import list_runs

    return {run.name: run.memory_path for run in list_runs()}


def _learners() -> dict[str, Path]:
    return {path.stem: path for path in _LEARNERS.glob("*.sqlite")}


POLICIES = _Policies()
