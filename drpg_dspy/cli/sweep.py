"""``drpg sweep``: many runs from files of settings, side by side, and only what is not done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Command

__all__ = ["sweep"]


@click.command(cls=Command, context_settings={"ignore_unknown_options": False})
@click.argument(
    "configs",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILES…",
)
@click.option("--lm", "lms", multiple=True, required=True, metavar="SPEC", help="Repeatable.")
@click.option("--policy-lm", metavar="SPEC", help="Who writes policies; default: each --lm.")
@click.option("--data", type=click.Path(path_type=Path), help="The folder of all data sets.")
@click.option(
    "--split",
    multiple=True,
    metavar="[BENCHMARK=]PART",
    help="The part of the data, e.g. spider=dev, in place of the file's; repeatable.",
)
@click.option(
    "--exclude-db",
    multiple=True,
    metavar="[BENCHMARK=]DB",
    help="Leave out, e.g. spider=wta_1, in place of what the file leaves out; repeatable.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Questions of each run.")
@click.option("--embedder", metavar="SPEC", help="Who embeds questions; default: as drpg run.")
@click.option(
    "--prefix", metavar="WORD", help="Begin the name of every run with WORD and a hyphen."
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Runs side by side.",
)
@click.option(
    "--ray",
    "ray",
    metavar="ADDRESS",
    help="Run on a Ray cluster whose nodes share this folder; 'local' starts one here.",
)
@click.option("--mlflow/--no-mlflow", "mlflow", default=None, help="As drpg run.")
@click.option(
    "--dry-run", is_flag=True, help="Only say what would be done, and which data is missing."
)
@click.option("--json", "as_json", is_flag=True, help="Print what became of each run as JSON.")
def sweep(as_json: bool, **options: Any) -> None:
    """Run every file of settings in FILES (files or folders) with every --lm.

    A run that is finished is left alone, one that stopped is resumed, the others are started:
    calling the same sweep again goes on where it was. Each run is a process of its own; what it
    says goes to .drpg/sweep/RUN.log. A cell that fails does not stop the others. --split and
    --exclude-db without a benchmark are for all cells whose benchmark takes them.

    \b
    Example:
      drpg sweep configs/table1 --lm openai/gpt-4.1-mini --data ../data --jobs 4
      drpg sweep configs/table1 --prefix table1 --lm openai/gpt-4.1-mini --data ../data --dry-run
      drpg sweep configs/table1/spider-drpg.toml --lm local/qwen2.5-coder-1.5b --limit 20 \\
          --split spider=dev --exclude-db spider=wta_1

    Next: drpg report RUN RUN … --out report (its names are printed at the end).
    """  # fmt: skip
    from drpg_dspy.cli import cells

    cells.sweep_and_report(options, as_json=as_json)
