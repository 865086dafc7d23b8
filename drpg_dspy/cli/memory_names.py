"""From the names that users type to memories: a run's, a learner's, or a file.

The one place where a name is looked up: every command that reads or changes what a program keeps
takes the same names and says the same of an unknown one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drpg_dspy.cli.app import Stopped, unknown_name, wrong

if TYPE_CHECKING:
    from drpg_dspy.streaming import RunFolder

    Name = click.ParamType[str]
else:
    Name = click.ParamType  # generic for type checkers only, in the older releases we accept

__all__ = ["MEMORY", "known_names", "learners", "memory_file", "memory_path", "not_there", "run_of"]

_LEARNERS = Path(".drpg")


class _MemoryName(Name):
    """A run's name, a learner's name, or a memory file."""

    name = "name"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if memory_path(str(value)) is None:
            raise not_there("NAME", str(value))
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in known_names() if name.startswith(incomplete)]


def memory_path(name: str) -> Path | None:
    """Return the memory file that a name stands for; ``None`` = there is none of that name.

    Where a run, a learner and a file have the same name, it is the run's, then the learner's.
    """
    if (run := run_of(name)) is not None:
        return run.memory_path
    if name in (known := learners()):
        return known[name]
    path = Path(name)
    return path if path.is_file() else None


def memory_file(name: str) -> Path:
    """Return the memory file that a name stands for, which is there.

    Raises:
        click.BadParameter: Nothing has that name.
        StorageError: It is a run whose memory was deleted; the message says what to do.
        Stopped: It is a run that is damaged, or that has no steps yet.
    """
    path = memory_path(name)
    if path is None:
        raise not_there("NAME", name)
    if not path.exists():
        if (run := run_of(name)) is not None:
            run.check_whole()
        raise Stopped(f"Run {name!r} has no steps yet: drpg resume {name}.")
    return path


def run_of(name: str) -> RunFolder | None:
    """Return the run that a name stands for; ``None`` = it is no run's."""
    from drpg_dspy.streaming import list_runs

    return next((run for run in list_runs() if run.name == name), None)


def learners() -> dict[str, Path]:
    """Return the learners of this folder: name to memory file."""
    return {path.stem: path for path in sorted(_LEARNERS.glob("*.sqlite")) if path.is_file()}


def known_names() -> list[str]:
    """Return the names of all runs and learners of this folder."""
    from drpg_dspy.streaming import list_runs

    return sorted({*(run.name for run in list_runs()), *learners()})


def not_there(option: str, name: str, *, only_runs: bool = False) -> click.ClickException:
    """Return the error for a name that nothing has.

    Args:
        option: Where it was given.
        name: The name.
        only_runs: The command needs a run: of a learner neither benchmark nor LM is known.
    """
    from drpg_dspy.streaming import damaged_runs, list_runs

    if why := damaged_runs().get(name):
        return Stopped(f"The run {name!r} is damaged: {why}")
    if not only_runs:
        remedy = "Or give the path of a memory file." if Path(name).suffix else ""
        if not (known := known_names()):
            remedy = "This folder has none yet: drpg run --help; or give a memory file."
        return wrong(option, unknown_name("run or learner", name, known, remedy))
    known = [run.name for run in list_runs()]
    remedy = "" if known else "No run was started in this folder yet: drpg run --help."
    if name in learners():
        remedy = (
            f"{name!r} is a learner, and this needs a run of drpg run or drpg epochs, whose "
            f"benchmark and LM are on record. For a learner: drpg show {name}, or drpg policy log "
            f"{name}."
        )
    return wrong(option, unknown_name("run", name, known, remedy))


MEMORY = _MemoryName()
