"""``drpg report``: runs side by side, as one page and as tables."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drpg_dspy.cli.app import Command, wrong_if
from drpg_dspy.cli.memory_names import not_there
from drpg_dspy.cli.names import OUTPUT_FOLDER, RUN

if TYPE_CHECKING:
    from drpg_dspy.streaming import RunFolder
    from drpg_dspy.types import Benchmark

    Name = click.ParamType[str]
else:
    Name = click.ParamType  # generic for type checkers only, in the older releases we accept

__all__ = ["report"]

_WILD = set("*?[")


class _Runs(Name):
    """A run's name, a pattern of names, or a run's folder; looked up by the command."""

    name = "runs"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return RUN.shell_complete(ctx, param, incomplete)


@click.command(cls=Command)
@click.argument("runs", type=_Runs(), nargs=-1, required=True)
@click.option(
    "--out",
    required=True,
    type=OUTPUT_FOLDER,
    help="The folder for the page and the tables.",
)
@click.option(
    "--baseline",
    metavar="METHOD",
    help="Measure the others against this method.  [default: self_stream_icl, else zero_shot]",
)
@click.option(
    "--common",
    is_flag=True,
    help="Compare the first questions that all runs of a benchmark have met.",
)
@click.option(
    "--window",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Judged questions behind a point of the rolling curve.",
)
@click.option(
    "--policy-step",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Show the policies of this step.",
)
@click.option("--title", default="DRPG report", show_default=True, help="Heading of the page.")
def report(runs: tuple[str, ...], out: Path, **options: Any) -> None:
    """Compare RUNS: names, patterns such as 'table1-*' (quoted), or folders of runs.

    Writes DIR/index.html, one page that needs nothing else, and each of its tables as CSV and
    Markdown into DIR/tables. Runs of one benchmark must have met the same questions in the same
    order under the same scoring. Runs that are not finished are marked and not compared.

    \b
    Example:
      drpg report zero icl drpg --out report
      drpg report 'table1-*' --baseline zero_shot --out report
      drpg report drpg icl --common --out so_far

    Next: open DIR/index.html in a browser.
    """
    folders = _folders(runs)
    from drpg_dspy.report import ReportOptions, write_report

    known = _benchmarks(folders)
    metrics = {name: benchmark.metric for name, benchmark in known.items()}
    ks = {name: benchmark.k for name, benchmark in known.items()}
    with wrong_if(["RUNS", "--baseline"], ValueError):
        files = write_report(folders, out, ReportOptions(metrics=metrics, ks=ks, **options))
    for note in files.notes:
        click.echo(note, err=True)
    click.echo(files.page)


def _folders(given: Sequence[str]) -> list[RunFolder]:
    from drpg_dspy.cli.stored import as_it_is
    from drpg_dspy.streaming import RunFolder, list_runs

    known = {run.name: run for run in list_runs()}
    found: list[RunFolder] = []
    for name in given:
        if name in known:
            found.append(known[name])
        elif (path := Path(name)) and (path / "config.json").is_file():
            path = path.resolve()
            found.append(RunFolder.open(path.name, path.parent))
        elif _WILD & set(name) and (matches := fnmatch.filter(known, name)):
            found.extend(known[match] for match in matches)
        else:
            raise not_there("RUNS", name, only_runs=True)
    return [as_it_is(run) for run in found]


def _benchmarks(folders: Iterable[RunFolder]) -> dict[str, Benchmark]:
    """Return the benchmarks of runs, those that are installed here, by their names."""
    from drpg_dspy.cli import names

    found = {}
    for name in {folder.config.benchmark for folder in folders}:
        try:
            found[name] = names.benchmark(name)
        except (click.ClickException, ImportError):
            continue  # a run can be read where its benchmark is not installed
    return found
