"""The cells of a sweep: which there are, what is left to do, and doing it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from drpg_dspy.analysis import summarise
from drpg_dspy.cli import names
from drpg_dspy.cli.app import EXIT_INTERRUPTED, Stopped, wrong
from drpg_dspy.cli.config import read_config
from drpg_dspy.cli.embedders import expected_embedder, other_embedder
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.overrides import check_overrides, overrides_for
from drpg_dspy.cli.ray_cluster import on_ray
from drpg_dspy.cli.run import run as run_command
from drpg_dspy.cli.settings import DEFAULTS, config_from
from drpg_dspy.cli.sweep_data import missing_data
from drpg_dspy.cli.taken import Claim, check_names
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval.embedder import BGE
from drpg_dspy.streaming import RunConfig, RunFolder, list_runs

__all__ = ["Cell", "Outcome", "cells", "commands", "settings_of", "sweep_and_report"]

_LOGS = Path(".drpg", "sweep")
_SHARED = ("policy_lm", "data", "limit", "embedder")
"""Options that a sweep hands on to each of its runs as they are."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One file of settings under one model: a run.

    Attributes:
        config: The file.
        lm: Who answers.
        name: The run's name.
    """

    config: Path
    lm: str
    name: str

    @property
    def log(self) -> Path:
        """Where the run's own words go."""
        return _LOGS / f"{self.name}.log"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell: ``"done already"``, ``"finished"``, ``"stopped"`` or ``"failed"``."""

    cell: Cell
    state: str
    exit_code: int = 0

    def as_plain(self) -> dict[str, Any]:
        """Return names and figures, ready for JSON; figures are missing where no step was made."""
        plain: dict[str, Any] = {
            "run": self.cell.name,
            "config": str(self.cell.config),
            "lm": self.cell.lm,
            "state": self.state,
            "log": str(self.cell.log),
        }
        path = _folders().get(self.cell.name)
        if path is not None and path.memory_path.exists():
            with closing(SQLiteMemory(path.memory_path, read_only=True)) as memory:
                summary = summarise(memory)
            plain |= {"n": summary.n, "score": summary.score, "not_judged": summary.not_judged}
        return plain


def sweep_and_report(options: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg sweep`` does with its options by name."""
    todo = cells(options["configs"], options["lms"], options["prefix"])
    configs = [settings_of(cell, options) for cell in todo]  # a mistake shows before any start
    check_overrides([config.benchmark for config in configs], options)
    folders = _folders()
    check_names(
        Claim(cell.config, config, folders[cell.name])
        for cell, config in zip(todo, configs, strict=True)
        if cell.name in folders
    )
    _say_embedder(c for cell, c in zip(todo, configs, strict=True) if cell.name not in folders)
    steps = [(cell, commands(cell, options)) for cell in todo]
    if options["dry_run"]:
        _announce(steps, configs, as_json)
        return
    outcomes = [Outcome(cell, "done already") for cell, command in steps if command is None]
    for cell in (outcome.cell for outcome in outcomes):
        click.echo(f"{cell.name}: done already", err=True)
    left = [(cell, command) for cell, command in steps if command is not None]
    outcomes += _carried_out(left, options["jobs"], options["ray"])
    _report(sorted(outcomes, key=lambda outcome: todo.index(outcome.cell)), as_json)


def cells(paths: Iterable[Path], lms: Sequence[str], prefix: str | None = None) -> list[Cell]:
    """Return every file of settings with every model.

    A run is called after its file and its model; the file's folder is put before where two
    files of the sweep share a name, and the prefix, where there is one, before all.

    Raises:
        click.BadParameter: A folder holds no file, a file is no settings, the prefix cannot
            begin a name, or a name comes twice.
    """
    if prefix is not None and _slug(prefix) != prefix:
        raise wrong("--prefix", f"{prefix!r} cannot begin a run's name: use letters and digits.")
    before = "" if prefix is None else f"{prefix}-"
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    for file in files:
        read_config(file, run_command, "FILES")
    stems = [file.stem for file in files]
    found = []
    for lm in dict.fromkeys(lms):
        for file in files:
            stem = f"{file.parent.name}-{file.stem}" if stems.count(file.stem) > 1 else file.stem
            found.append(Cell(file, lm, _slug(f"{before}{stem}-{lm.rsplit('/', 1)[-1]}")))
    called = [cell.name for cell in found]
    if twice := sorted({name for name in called if called.count(name) > 1}):
        raise wrong("FILES", f"two cells of this sweep would be called {', '.join(twice)}.")
    return found


def settings_of(cell: Cell, options: Mapping[str, Any]) -> RunConfig:
    """Return the settings that a cell's run would be started with.

    Raises:
        click.BadParameter: The file names no benchmark, or a setting cannot be used.
    """
    filed = read_config(cell.config, run_command, "FILES")
    given = {**DEFAULTS, **filed, "lm": cell.lm, "mlflow": False}
    try:
        if "benchmark" not in given:
            raise click.BadParameter("It names no benchmark.")
        given |= _shared(given["benchmark"], options)
        names.optimizer_class(given["optimizer"])
        return config_from(given)
    except click.BadParameter as error:
        raise wrong("FILES", f"{cell.config}: {error.message}") from error


def commands(cell: Cell, options: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments of ``drpg`` that do what is left of a cell; ``None`` = nothing is."""
    folder = _folders().get(cell.name)
    if folder is not None:
        return None if folder.status.startswith("finished") else ["resume", cell.name]
    given = [
        part
        for option, value in _shared(settings_of(cell, options).benchmark, options).items()
        for one in (value if isinstance(value, list) else [value])
        for part in (f"--{option.replace('_', '-')}", str(one))
    ]
    if options.get("mlflow") is not None:
        given.append("--mlflow" if options["mlflow"] else "--no-mlflow")
    return ["run", "--config", str(cell.config), "--lm", cell.lm, "--name", cell.name, *given]


def _shared(benchmark: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sweep's options set in place of what a cell's file says."""
    shared = {name: options[name] for name in _SHARED if options.get(name) is not None}
    return shared | overrides_for(benchmark, options)


def _say_embedder(configs: Iterable[RunConfig]) -> None:
    """Say which embedder new runs will have, where they leave it open and it is not the papers'."""
    left_open = any((config.embedder or "default") == "default" for config in configs)
    if left_open and (used := expected_embedder()) != BGE:
        click.echo(other_embedder(used), err=True)


def _announce(
    steps: Sequence[tuple[Cell, list[str] | None]], configs: Sequence[RunConfig], as_json: bool
) -> None:
    """Say what would be done.

    Raises:
        Stopped: Data of a cell that is still to be done is missing.
    """
    open_cells = [i for i, (_, command) in enumerate(steps) if command is not None]
    found = dict(zip(open_cells, missing_data(configs[i] for i in open_cells), strict=True))
    missing = [found.get(i, "") for i in range(len(steps))]
    rows = [
        {
            "run": cell.name,
            "config": str(cell.config),
            "lm": cell.lm,
            "command": None if command is None else ["drpg", *command],
            "missing": lost,
        }
        for (cell, command), lost in zip(steps, missing, strict=True)
    ]
    if as_json:
        emit_json(rows)
    else:
        for cell, command in steps:
            said = "done already" if command is None else shlex.join(command)
            click.echo(f"{cell.name}: {said}")
    without: dict[str, list[str]] = {}
    for (cell, _), lost in zip(steps, missing, strict=True):
        if lost:
            without.setdefault(lost, []).append(cell.name)
    if without:
        lines = [f"{', '.join(cells)}: {lost}" for lost, cells in without.items()]
        count = sum(map(len, without.values()))
        raise Stopped("\n".join([f"{count} of {len(steps)} cells lack data:", *lines]))


def _carried_out(
    left: Sequence[tuple[Cell, list[str]]], jobs: int, ray: str | None
) -> Iterator[Outcome]:
    do = on_ray(ray, _here) if ray else _here
    if ray:
        jobs = max(1, len(left))  # the cluster decides how many run at once
    done = 0
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(do, cell, command): cell for cell, command in left}
        try:
            for future in as_completed(waiting):
                cell, code = waiting[future], future.result()
                if code == EXIT_INTERRUPTED:
                    raise KeyboardInterrupt
                done += 1
                outcome = Outcome(cell, _state(cell, code), code)
                click.echo(f"{done}/{len(left)} {cell.name}: {outcome.state}", err=True)
                yield outcome
        except KeyboardInterrupt:
            for future in waiting:
                future.cancel()  # those under way were interrupted with this process
            raise KeyboardInterrupt(
                "Interrupted; the same command goes on where the sweep was."
            ) from None


def _here(cell: Cell, command: Sequence[str]) -> int:
    """Do one cell in a process of its own; return its exit code."""
    cell.log.parent.mkdir(parents=True, exist_ok=True)
    with cell.log.open("ab") as log:
        return subprocess.run(
            [sys.executable, "-m", "drpg_dspy", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        ).returncode


def _state(cell: Cell, code: int) -> str:
    folder = _folders().get(cell.name)
    if code != 0:
        return f"failed, see {cell.log}"
    return folder.status if folder is not None else "unknown"


def _report(outcomes: Sequence[Outcome], as_json: bool) -> None:
    plain = [outcome.as_plain() for outcome in outcomes]
    if as_json:
        emit_json(plain)
    else:
        width = max(len(row["run"]) for row in plain)
        for row in plain:
            score = f"{100 * row['score']:5.1f} % of {row['n']}" if row.get("n") else "–"
            click.echo(f"{row['run']:{width}s}  {score:16s}  {row['state']}")
        click.echo(f"\nNext\n  drpg report {' '.join(row['run'] for row in plain)} --out report")
    if failed := [row["run"] for row in plain if row["state"].startswith("failed")]:
        raise Stopped(f"{len(failed)} of {len(plain)} failed: {', '.join(failed)}.")


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.toml"))
    if not found:
        raise wrong("FILES", f"{path} holds no .toml file.")
    return found


def _folders() -> dict[str, RunFolder]:
    return {folder.name: folder for folder in list_runs()}


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100]
