"""``drpg audit``: the same items before and after, and what each accepted instruction did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drpg_dspy.cli.app import Command, wrong_if
from drpg_dspy.cli.names import RUN

if TYPE_CHECKING:
    from drpg_dspy.analysis.audit_reading import Kinds
    from drpg_dspy.streaming import RunFolder

__all__ = ["audit"]


@click.command(cls=Command)
@click.argument("runs", type=RUN, nargs=-1, required=True)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for the page and the tables.",
)
@click.option("--before", type=RUN, help="Set streams against this run, question by question.")
@click.option("--title", default="Audit", show_default=True, help="Heading of the page.")
def audit(runs: tuple[str, ...], out: Path, before: str | None, title: str) -> None:
    """Report what changed on the same items between before and after, and why.

    RUNS are runs of drpg epochs, which answer their test items before and after; with --before
    they are streams of drpg run, each set against that one. Shown are pass rates, repairs of what
    was wrong, regressions of what was right, the exact McNemar test and a bootstrap interval, by
    category and by module; and for each accepted instruction the failures that caused it and the
    items that it flipped.

    Writes DIR/index.html, one page that needs nothing else, and each table as CSV and Markdown
    into DIR/tables.

    \b
    Example:
      drpg audit two_hop ifb --out audit
      drpg audit spider_nlpg --before spider_zero_shot --out audit

    Next: open DIR/index.html in a browser.
    """
    from drpg_dspy.report import write_audit
    from drpg_dspy.streaming import RunFolder

    folders = [RunFolder.open(name) for name in runs]
    earlier = None if before is None else RunFolder.open(before)
    with wrong_if(["RUNS", "--before"], ValueError):
        files = write_audit(folders, out, before=earlier, known=_known, title=title)
    for note in files.notes:
        click.echo(note, err=True)
    click.echo(files.page)


def _known(folder: RunFolder) -> Mapping[str, tuple[str, Kinds]]:
    """Return ids and kinds of a stream's items, where the benchmark and its data are here."""
    from drpg_dspy.analysis.audit_epochs import kinds_of
    from drpg_dspy.analysis.audit_reading import input_name
    from drpg_dspy.cli import names
    from drpg_dspy.cli.learners import examples_of
    from drpg_dspy.exceptions import BenchmarkDataMissing

    try:
        found: tuple[Any, ...] = examples_of(
            names.benchmark(folder.config.benchmark), folder.config
        )
    except (click.ClickException, ImportError, BenchmarkDataMissing):
        return {}  # a run can be read where its benchmark is not installed
    return {
        input_name(dict(one.inputs().items())): (str(one.get("id", "")), kinds_of(one))
        for one in found
    }
