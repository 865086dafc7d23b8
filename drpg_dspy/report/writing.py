"""From run folders to the files of a report."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from drpg_dspy.analysis.comparison import Results
from drpg_dspy.analysis.summary import ROLLING_WINDOW
from drpg_dspy.arguments import checked_path, whole
from drpg_dspy.report.charts import curves, model_letters, scatter
from drpg_dspy.report.content import TABLE_NAMES, tables
from drpg_dspy.report.entries import Entry, entries_of, method_order
from drpg_dspy.report.page import Page, PolicyBlock, render
from drpg_dspy.report.reading import RunData, read_policies, read_run
from drpg_dspy.report.streams import common_steps, cut, differing, scored_alike
from drpg_dspy.report.svg import styles
from drpg_dspy.report.tables import UNFINISHED, Table
from drpg_dspy.streaming import RunFolder

__all__ = ["ReportFiles", "ReportOptions", "write_files", "write_report"]

_BASELINES = ("self_stream_icl", "zero_shot")
"""Optimizers that others are measured against, the first choice first."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report shows.

    Attributes:
        title: Heading of the page.
        baseline: Method that the others are measured against; ``None`` = Self-StreamICL where
            there is one, else zero-shot.
        common: Cut the runs of a benchmark to the questions that all of them have met.
        window: Judged steps behind a point of the rolling curve, at least 1.
        policy_step: Step whose policies are shown, from 1.
        metrics: What a score is, by the benchmark's name in the runs' settings.
        ks: The default k of each benchmark, by the same name.

    Raises:
        ValueError: A number is out of range.
    """

    title: str = "DRPG report"
    baseline: str | None = None
    common: bool = False
    window: int = ROLLING_WINDOW
    policy_step: int = 100
    metrics: Mapping[str, str] = field(default_factory=dict)
    ks: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole("window", self.window, 1)
        whole("policy_step", self.policy_step, 1)


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """What was written.

    Attributes:
        page: The HTML page.
        tables: CSV and Markdown files.
        notes: What a reader must know first: runs left out, unfinished, cut.
    """

    page: Path
    tables: tuple[Path, ...]
    notes: tuple[str, ...]


def write_report(
    folders: Sequence[RunFolder], out: str | Path, options: ReportOptions | None = None
) -> ReportFiles:
    """Compare runs and write the report.

    Args:
        folders: The runs; one given twice counts once.
        out: A folder, made when it is missing; an earlier report in it is replaced.
        options: What to show.

    Returns:
        The files written.

    Raises:
        ValueError: There is no run with a step, the runs of one benchmark met different
            streams or were scored differently, or no run has the baseline's method.
        StorageError: A run is damaged.
        ImportError: The extra ``report`` is not installed.
    """
    options = options or ReportOptions()
    folder = checked_path("out", out)
    runs = [read_run(found, name) for found, name in _named(folders)]
    begun = [run for run in runs if len(run.series)]
    if not begun:
        raise ValueError("None of the runs has a step to report. Start one: drpg run --help")
    notes = [
        f"Left out, because it has no step yet: {run.name}." for run in runs if not len(run.series)
    ]
    compared, said = _comparable(begun, options.common)
    entries = entries_of(compared, complete=options.common, ks=options.ks)
    notes += [*said, *_unfinished(entries)]
    results = Results((entry.outcome for entry in entries), method_order(entries))
    baseline = _baseline(entries, results, options.baseline)
    metrics = {e.outcome.benchmark: _metric(e.run, options.metrics) for e in entries}
    shown = [t for t in tables(entries, results, baseline, metrics) if t.rows]
    look = styles(results.methods)
    page = Page(
        title=options.title,
        notes=tuple(notes),
        tables={table.name: table for table in shown},
        scatter=scatter(results, look),
        letters=model_letters(results.lms) if len(results.lms) > 1 else {},
        curves=curves(results, look, options.window),
        window=options.window,
        policies=[b for e in entries if (b := _policies(e, options.policy_step)) is not None],
        version=metadata.version("drpg-dspy"),
    )
    return write_files(folder, render(page), shown, tuple(notes), TABLE_NAMES)


def _named(folders: Sequence[RunFolder]) -> Iterator[tuple[RunFolder, str]]:
    """Yield each run once, with a name that no other has."""
    distinct = {folder.path.resolve(): folder for folder in folders}
    names = Counter(folder.name for folder in distinct.values())
    for folder in distinct.values():
        yield folder, folder.name if names[folder.name] == 1 else str(folder.path)


def _comparable(runs: Sequence[RunData], common: bool) -> tuple[list[RunData], list[str]]:
    """Return runs whose results may stand in one table, and what was done to make them so."""
    kept: list[RunData] = []
    notes = []
    for benchmark in dict.fromkeys(run.config.benchmark for run in runs):
        group = [run for run in runs if run.config.benchmark == benchmark]
        if not common:
            if message := differing(group):
                raise ValueError(f"{message}\n{_remedy(group)}")
            kept += group
            continue
        steps = common_steps(group)
        longest = max(len(run.series) for run in group)
        if longest > steps or any(run.total != steps for run in group):
            notes.append(
                f"{benchmark}: cut to the first {steps} questions, which all its runs have met "
                f"(the longest met {longest})."
            )
        kept += [cut(run, steps) for run in group]
    return kept, notes


def _remedy(group: Sequence[RunData]) -> str:
    if not scored_alike(group):
        return "Leave some of them out, or write a report for each scoring."
    return (
        "Leave some of them out, or compare the questions that all have met from the first on, if "
        "they are the same: --common"
    )


def _unfinished(entries: Sequence[Entry]) -> list[str]:
    return [
        f"{UNFINISHED} {e.run.name} is unfinished ({e.run.status}): it met {len(e.run.series)} of "
        f"{e.run.total} questions, and takes no part in best, wins, differences and tests."
        for e in entries
        if not e.outcome.complete
    ]


def _baseline(entries: Sequence[Entry], results: Results, wanted: str | None) -> str | None:
    """Return the method that the others are measured against; ``None`` = nothing to compare."""
    if wanted is not None:
        if wanted not in results.methods:
            close = difflib.get_close_matches(wanted, results.methods, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"None of the runs has the method {wanted!r} as baseline.{hint} There are: "
                f"{', '.join(results.methods)}."
            )
        return wanted
    if len(results.methods) < 2:
        return None
    for optimizer in _BASELINES:
        for method in results.methods:
            if any(
                (e.outcome.method, e.run.config.optimizer) == (method, optimizer) for e in entries
            ):
                return method
    return results.methods[0]


def _metric(run: RunData, metrics: Mapping[str, str]) -> str:
    return metrics.get(run.config.benchmark, "score")


def _policies(entry: Entry, step: int) -> PolicyBlock | None:
    """Return what is shown of a run's policies; ``None`` for one that never had any."""
    view = read_policies(entry.run, step)
    if not view.versions:
        return None
    outcome = entry.outcome
    counted = ", ".join(
        f"{n} version{'s' if n != 1 else ''} of {route}" for route, n in view.versions.items()
    )
    title = f"{outcome.benchmark}, {outcome.lm}: {outcome.method}{entry.mark}"
    return PolicyBlock(title, view.step, view.in_force, view.changes, counted)


def write_files(
    folder: Path,
    page: str,
    shown: Sequence[Table],
    notes: tuple[str, ...],
    names: Sequence[str],
) -> ReportFiles:
    """Write the files, each whole or not at all, and remove tables of an earlier report.

    Args:
        folder: Where to.
        page: The page.
        shown: Its tables.
        notes: What a reader must know first.
        names: Of all tables that a report of this kind may have.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give a folder for the report.")
    beside = folder / "tables"
    beside.mkdir(parents=True, exist_ok=True)
    for name in set(names) - {table.name for table in shown}:
        for kind in ("csv", "md"):
            (beside / f"{name}.{kind}").unlink(missing_ok=True)
    written = []
    for table in shown:
        for kind, text in (("csv", table.as_csv()), ("md", table.as_markdown())):
            written.append(_replace(beside / f"{table.name}.{kind}", text))
    return ReportFiles(_replace(folder / "index.html", page), tuple(written), notes)


def _replace(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
    return path
