"""Runs from the command line: start, go on, open for reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from drpg_dspy.analysis import RunSummary, summarise
from drpg_dspy.cli import epoch_runs, names, reports
from drpg_dspy.cli.app import Stopped, wrong, wrong_if
from drpg_dspy.cli.chatter import quiet
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.learners import Stream, embedder_spec, make_embedder, open_learner, prepare
from drpg_dspy.cli.memory_names import memory_file, run_of
from drpg_dspy.cli.methods import odd_split
from drpg_dspy.cli.settings import DEFAULTS, budget_from, config_from, default_name
from drpg_dspy.cli.stored import EMBEDDER_KEY, check_data_of, opened, parts_of, with_limit
from drpg_dspy.memory import Memory, SQLiteMemory
from drpg_dspy.streaming import (
    Budget,
    ConsoleProgress,
    Progress,
    ProgressReport,
    RunConfig,
    RunFolder,
    run_stream,
)
from drpg_dspy.streaming.settings import check_length

__all__ = [
    "execute",
    "reading",
    "reindex",
    "resume_and_report",
    "start",
    "start_and_report",
    "summary_as_plain",
    "summary_as_text",
]


def start_and_report(options: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg run`` does with its options by name."""
    config = config_from(options)
    name = options["name"] or default_name(config)
    folder, summary = start(name, config, overwrite=options["overwrite"])
    _finish(folder, summary, as_json)


def resume_and_report(name: str, changes: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg resume`` does; what was not given is as stored."""
    folder = opened(name)
    limit, failures = changes["limit"], changes["stop_after_failures"]
    if limit is not None and epoch_runs.PLAN in folder.config.extra:
        raise wrong("--limit", f"{name} is a run of epochs: its parts keep their sizes.")
    if limit is not None and folder.memory_path.exists():
        with reading(name) as memory, wrong_if("--limit", ValueError):
            check_length(memory, limit)
    stored = {} if changes["no_budget"] else folder.config.budget
    budget = {**stored, **budget_from(changes)}
    with quiet(), closing(parts_of(folder, data=changes["data"], limit=limit)) as stream:
        if changes["data"] is not None:
            check_data_of(folder, stream)
        if limit is not None:
            folder, stream = with_limit(folder, stream, limit)
        if budget != folder.config.budget:
            with folder.lock():
                folder = folder.with_budget(budget)
        summary = execute(folder, stream, budget=budget, stop_after_failures=failures)
    _finish(folder, summary, as_json)


def start(name: str, config: RunConfig, *, overwrite: bool) -> tuple[RunFolder, RunSummary]:
    """Run a new stream. Everything that can be wrong is found out before its folder is made."""
    with wrong_if("--name", ValueError):
        RunFolder.check_free(name, overwrite=overwrite)
    with quiet(), closing(prepare(config)) as stream:
        if said := odd_split(config):
            click.echo(said, err=True)
        spec = embedder_spec(config.embedder, stream.embedder)
        version = getattr(stream.metric, "compare_version", None)
        versions = {**config.versions, **({"scoring": str(version)} if version else {})}
        config = dataclasses.replace(config, embedder=spec, versions=versions)
        if epoch_runs.PLAN in config.extra:
            epoch_runs.parts_of(config, stream)  # may find too few examples
        with wrong_if("--name", ValueError):
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
        status = "failed: the run's own status says why"
        try:
            if epoch_runs.PLAN in folder.config.extra:
                summary = epoch_runs.make(learner, folder, stream, limits)
            else:
                summary = run_stream(
                    learner,
                    stream.examples,
                    stream.metric,
                    delay=folder.config.delay,
                    budget=limits,
                    stop_after_failures=failures or None,
                    progress=_brief(ConsoleProgress()),
                )
            status = folder.status
        except KeyboardInterrupt:
            status = "stopped: interrupted"
            raise
        finally:
            try:
                if folder.config.extra.get("mlflow"):
                    click.echo("telling MLflow the rest …", err=True)
            finally:
                learner.close(status)
    return summary


@contextmanager
def reading(name: str) -> Iterator[Memory]:
    """Lend the memory of a run or learner for reading, also while it is being written."""
    with closing(SQLiteMemory(memory_file(name), read_only=True)) as memory:
        yield memory


def summary_as_plain(name: str, memory: Memory) -> dict[str, Any]:
    """Return a run's settings, figures and steps for ``drpg show --json``.

    A learner has no settings and no status on record: these keys are missing.
    """
    from drpg_dspy.analysis import steps_table

    summary, steps = summarise(memory), {"steps": steps_table(memory)}
    if run_of(name) is None:
        return {"name": name, **summary.as_dict(), **steps}
    folder = opened(name)
    return {**reports.report_as_plain(folder, summary, memory), **_epochs(folder, memory), **steps}


def summary_as_text(name: str, memory: Memory) -> Iterator[str]:
    """Yield what ``drpg show`` prints of a run, or of a learner."""
    if run_of(name) is None:
        yield f"{reports.learner_as_text(name, summarise(memory))}\n\n"
        yield from reports.steps_as_text(memory)
        return
    folder = opened(name)
    if epoch_runs.PLAN in folder.config.extra:
        yield "\n".join([*epoch_runs.lines(memory), "", ""])
    yield f"{reports.report_as_text(folder, summarise(memory), _metric_name(folder), memory)}\n\n"
    yield from reports.steps_as_text(memory)


def reindex(path: Path, spec: str) -> int:
    """Embed every text of a memory anew; return how many. A run remembers the embedder."""
    embedder = make_embedder(spec)
    with closing(SQLiteMemory(path)) as memory:
        count = memory.reindex(embedder, progress=_show_reindexing)
        memory.set_meta(EMBEDDER_KEY, embedder_spec(spec, embedder))
    return count


def _show_reindexing(done: int, total: int) -> None:
    click.echo(f"embedded {done} of {total}", err=True)


def _finish(folder: RunFolder, summary: RunSummary, as_json: bool) -> None:
    failed = folder.status.startswith("failed")
    why = summary.stopped
    if not failed and 0 < summary.failed == summary.n:
        failed, why = True, f"no step was answered, {summary.n} failed; {why}"
    with reading(folder.name) as memory:
        if as_json:
            plain = reports.report_as_plain(folder, summary, memory)
            emit_json({**plain, **_epochs(folder, memory)})
        else:
            shown = dataclasses.replace(summary, stopped="") if failed else summary
            click.echo(reports.report_as_text(folder, shown, _metric_name(folder), memory))
            click.echo()
            if epoch_runs.PLAN in folder.config.extra:
                click.echo("\n".join([*epoch_runs.lines(memory), ""]))
            click.echo(reports.where_to_look(folder, summary))
    if failed:
        again = f"Once that is mended, go on with: {reports.how_to_go_on(folder, summary)}"
        if summary.failed == summary.n:
            again += "\nWith another LM or other settings it is another run: drpg run … --overwrite"
        raise Stopped(f"{why}\n{again}")


def _epochs(folder: RunFolder, memory: Memory) -> dict[str, Any]:
    """Return what the epochs of a run came to; nothing for a stream."""
    ran = epoch_runs.PLAN in folder.config.extra
    return {"epochs": epoch_runs.as_plain(memory)} if ran else {}


def _brief(show: ConsoleProgress) -> Progress:
    """Leave the reason for an end to the report that follows."""

    def brief(report: ProgressReport) -> None:
        show(dataclasses.replace(report, ended=report.ended.partition(":")[0]))

    return brief


def _metric_name(folder: RunFolder) -> str:
    try:
        return names.benchmark(folder.config.benchmark).metric
    except (click.ClickException, ImportError):
        return "score"  # a run can be read where its benchmark is not installed
