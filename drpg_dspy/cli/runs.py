"""Runs from the command line: start, go on, open for reading, take feedback."""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from drpg_dspy.analysis import RunSummary, summarise
from drpg_dspy.cli import names, reports
from drpg_dspy.cli.app import Stopped, unknown_name
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.learners import (
    Stream,
    embedder_spec,
    make_embedder,
    open_learner,
    prepare,
    read_settings,
)
from drpg_dspy.exceptions import UnknownRollout
from drpg_dspy.memory import Memory, SQLiteMemory
from drpg_dspy.streaming import Budget, ConsoleProgress, RunConfig, RunFolder, list_runs, run_stream
from drpg_dspy.types import Feedback

__all__ = [
    "DEFAULTS",
    "config_from",
    "execute",
    "give_feedback",
    "has_mlflow",
    "memory_file",
    "reading",
    "reindex",
    "resume_and_report",
    "start",
    "start_and_report",
    "summary_as_plain",
    "summary_as_text",
]

DEFAULTS: Mapping[str, Any] = {
    "optimizer": "drpg",
    "settings": (),
    "policy_lm": None,
    "k": None,
    "embedder": "default",
    "data": None,
    "split": None,
    "limit": None,
    "seed": 42,
    "delay": 0,
    "compare": None,
    "exclude_db": (),
    "temperature": 0.0,
    "max_tokens": 1024,
    "stop_after_failures": 5,
    "mlflow": None,
    "experiment": None,
    "tracking_uri": None,
}
"""The options of ``drpg run`` that have a default, with the papers' settings."""

EMBEDDER_KEY = "cli:embedder"
"""Setting of a memory under which a reindexed run keeps the spec of its embedder."""

_LIMITS = {"calls": "lm_calls", "tokens": "tokens", "dollars": "dollars", "minutes": "seconds"}
_NOISY = ("alembic", "mlflow", "LiteLLM", "httpx", "sentence_transformers", "faiss")


def start_and_report(options: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg run`` does with its options by name."""
    config = config_from(options)
    name = options["name"] or _name(config)
    folder, summary = start(name, config, overwrite=options["overwrite"])
    _finish(folder, summary, as_json)


def resume_and_report(name: str, limits: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg resume`` does; limits that were not given are the stored ones."""
    folder = _open(name)
    if (data := limits["data"]) is not None:
        moved = dataclasses.replace(folder.config, data=str(Path(data).absolute()))
        folder = dataclasses.replace(folder, config=moved)
    stored = {} if limits["no_budget"] else folder.config.budget
    budget = {**stored, **_budget(limits)}
    failures = limits["stop_after_failures"]
    with _quiet(), prepare(folder.config) as stream:
        summary = execute(folder, stream, budget=budget, stop_after_failures=failures)
    _finish(folder, summary, as_json)


def config_from(options: Mapping[str, Any]) -> RunConfig:
    """Return a run's settings from the options of ``drpg run``."""
    benchmark = names.benchmark(options["benchmark"])
    with_mlflow = options["mlflow"]
    if with_mlflow is None:
        with_mlflow = has_mlflow()
        if not with_mlflow:
            click.echo(
                "MLflow is not installed: the run is reported to a JSONL file. "
                "For curves and prompt versions: pip install 'drpg-dspy[mlflow]'",
                err=True,
            )
    data = options["data"]
    return RunConfig(
        benchmark=options["benchmark"],
        optimizer=options["optimizer"],
        options=read_settings(options["optimizer"], options["settings"], options["k"], benchmark),
        lm=options["lm"],
        policy_lm=options["policy_lm"],
        embedder=options["embedder"],
        data=str(Path(data).absolute()) if data is not None else None,
        limit=options["limit"],
        seed=options["seed"],
        delay=options["delay"],
        compare=names.compare_of(benchmark, options["compare"]),
        exclude_db=tuple(options["exclude_db"]),
        budget=_budget(options),
        extra={
            "temperature": options["temperature"],
            "max_tokens": options["max_tokens"],
            "split": options["split"],
            "stop_after_failures": options["stop_after_failures"],
            "mlflow": with_mlflow,
            "experiment": options["experiment"] or f"drpg-{benchmark.name}",
            "tracking_uri": options["tracking_uri"],
        },
        versions={
            "drpg-dspy": metadata.version("drpg-dspy"),
            "dspy": metadata.version("dspy"),
            "python": platform.python_version(),
        },
    )


def has_mlflow() -> bool:
    """Tell whether MLflow is installed."""
    return importlib.util.find_spec("mlflow") is not None


def start(name: str, config: RunConfig, *, overwrite: bool) -> tuple[RunFolder, RunSummary]:
    """Run a new stream. Everything that can be wrong is found out before its folder is made."""
    with _quiet(), prepare(config) as stream:
        spec = embedder_spec(config.embedder, stream.embedder)
        config = dataclasses.replace(config, embedder=spec)
        folder = RunFolder.create(name, config, overwrite=overwrite)
        return folder, execute(folder, stream, budget=config.budget)


def execute(
    folder: RunFolder,
    stream: Stream,
    *,
    budget: Mapping[str, Any],
    stop_after_failures: int | None = None,
) -> RunSummary:
    """Let a run's learner meet its stream from where it stands.

    Args:
        folder: The run.
        stream: Its parts.
        budget: Limits on the whole run, by name.
        stop_after_failures: ``None`` = as stored; 0 = never.
    """
    failures = stop_after_failures
    if failures is None:
        failures = folder.config.extra.get("stop_after_failures", DEFAULTS["stop_after_failures"])
    limits = Budget(**budget)
    click.echo(f"{folder.name}: {folder.path}", err=True)
    with open_learner(folder, stream) as learner:
        status = "failed: the run's status says why"
        try:
            summary = run_stream(
                learner,
                stream.examples,
                stream.metric,
                delay=folder.config.delay,
                budget=limits,
                stop_after_failures=failures or None,
                progress=ConsoleProgress(),
            )
            status = f"stopped: {summary.stopped}" if summary.stopped else "finished"
        except KeyboardInterrupt:
            status = "stopped: interrupted"
            raise
        finally:
            if folder.config.extra.get("mlflow"):
                click.echo("telling MLflow the rest …", err=True)
            learner.close(status)
    return summary


@contextmanager
def reading(name: str) -> Iterator[Memory]:
    """Lend a run's memory for reading, also while the run is going on."""
    with closing(SQLiteMemory(_existing(RunFolder.open(name)), read_only=True)) as memory:
        yield memory


def summary_as_plain(name: str, memory: Memory) -> dict[str, Any]:
    """Return a run's settings, figures and steps for ``drpg show --json``."""
    from drpg_dspy.analysis import steps_table

    folder = RunFolder.open(name)
    return {
        **reports.report_as_plain(folder, summarise(memory)),
        "steps": steps_table(memory),
    }


def summary_as_text(name: str, memory: Memory) -> Iterator[str]:
    """Yield what ``drpg show`` prints of a run."""
    folder = RunFolder.open(name)
    return reports.with_steps(folder, memory, _metric_name(folder))


def give_feedback(
    name: str, rollout: str, score: float | None, text: str, author: str
) -> tuple[int, str]:
    """Record a person's verdict in a run; without a score the one that stands is taken back.

    Returns:
        The step, and what was done, in words.

    Raises:
        UnknownRollout: The run has no such rollout or step.
    """
    folder = _open(name)
    with closing(SQLiteMemory(_existing(folder), read_only=True)) as memory:
        rollout_id, step = _rollout(memory, rollout)
    verdict = None if score is None else Feedback(score, text=text, author=author)
    status = {"interrupted": "stopped: interrupted"}.get(folder.status, folder.status)
    # A running process follows the log itself and tells its tracker.
    with _quiet(), prepare(folder.config) as stream:
        with open_learner(folder, stream, tracked=not folder.running) as learner:
            if verdict is None:
                learner.retract(rollout_id)
            else:
                learner.learn_one(rollout_id, verdict)
            standing = learner.memory.feedback(rollout_id)
            learner.close(status)
    if verdict is None:
        return step, "the verdict was taken back; it waits for feedback"
    if standing is not None and standing.error:
        return step, f"score {score:g} kept, but not learned from: {standing.error}"
    return step, f"score {score:g} kept"


def memory_file(name_or_file: str) -> Path:
    """Return the memory file of a run, or the file itself.

    Raises:
        click.BadParameter: It is neither.
    """
    known = {run.name: run for run in list_runs()}
    if name_or_file in known:
        return _existing(known[name_or_file])
    path = Path(name_or_file)
    if path.is_file():
        return path
    raise click.BadParameter(unknown_name("run or file", name_or_file, known))


def reindex(path: Path, spec: str) -> int:
    """Embed every text of a memory anew; return how many. A run remembers the embedder."""
    embedder = make_embedder(spec)
    with closing(SQLiteMemory(path)) as memory:
        count = memory.reindex(embedder, progress=_show_reindexing)
        memory.set_meta(EMBEDDER_KEY, spec)
    return count


def _show_reindexing(done: int, total: int) -> None:
    click.echo(f"embedded {done} of {total}", err=True)


def _open(name: str) -> RunFolder:
    """Open a run to go on with it, under the embedder that its vectors are from now."""
    folder = RunFolder.open(name)
    if not folder.memory_path.exists():
        return folder
    with closing(SQLiteMemory(folder.memory_path, read_only=True)) as memory:
        spec = memory.get_meta(EMBEDDER_KEY) or folder.config.embedder
    return dataclasses.replace(folder, config=dataclasses.replace(folder.config, embedder=spec))


def _finish(folder: RunFolder, summary: RunSummary, as_json: bool) -> None:
    if as_json:
        emit_json(reports.report_as_plain(folder, summary))
    else:
        click.echo(reports.report_as_text(folder, summary, _metric_name(folder)))
        click.echo()
        click.echo(reports.where_to_look(folder, summary))
    if "failed in a row" in summary.stopped:
        raise Stopped(f"{summary.stopped}\nOnce it is mended: drpg resume {folder.name}")


def _metric_name(folder: RunFolder) -> str:
    try:
        return names.benchmark(folder.config.benchmark).metric
    except (click.ClickException, ImportError):
        return "score"  # a run can be read where its benchmark is not installed


def _existing(folder: RunFolder) -> Path:
    if not folder.memory_path.exists():
        raise Stopped(f"Run {folder.name!r} has no steps yet: drpg resume {folder.name}.")
    return folder.memory_path


def _rollout(memory: Memory, named: str) -> tuple[str, int]:
    try:
        return named, memory.rollout(named).step
    except UnknownRollout:
        if not named.isdigit():
            raise
    from drpg_dspy.cli.steps import find_step

    rollout, _ = find_step(memory, int(named))
    return rollout.id, rollout.step


def _budget(options: Mapping[str, Any]) -> dict[str, float]:
    given = {
        limit: options[f"budget_{option}"]
        for option, limit in _LIMITS.items()
        if options.get(f"budget_{option}") is not None
    }
    if "seconds" in given:
        given["seconds"] *= 60
    return given


def _name(config: RunConfig) -> str:
    lm = str(config.lm).rsplit("/", 1)[-1]
    parts = (config.benchmark.rsplit(":", 1)[0], config.optimizer, lm)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).strip("-._")[:100]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep other packages' chatter off the terminal; warnings and errors still show."""
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it resets its loggers on import
    before = {name: logging.getLogger(name).level for name in _NOISY}
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
