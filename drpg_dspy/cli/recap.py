"""``drpg recap`` and its report: constraints that change, and methods compared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.config import CONFIG, merged

__all__ = ["recap", "recap_judge", "recap_report"]


@click.command(cls=Command)
@CONFIG
@click.option(
    "--schedule",
    default="rule-only-15",
    show_default=True,
    metavar="NAME",
    help="rule-only-15, interleaved-20, clustered-20, random-STEPS-SEED, or a YAML file.",
)
@click.option(
    "--optimizer",
    default="base",
    show_default=True,
    metavar="METHOD",
    help="base, icl, gepa, miprov2, or any optimizer of drpg list.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A method's argument; repeatable."
)
@click.option("--lm", required=True, metavar="SPEC", help="Who answers: local/NAME, openai/….")
@click.option(
    "--judge-lm", metavar="SPEC", help="Who judges what no rule checks; default: DRPG_JUDGE_LM."
)
@click.option(
    "--prompts-per-step", type=click.IntRange(1), default=50, show_default=True, metavar="N",
    help="Test prompts, the same at every step.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the prompts."
)
@click.option(
    "--temperature", type=float, help="Of the model that answers.", default=0.0, show_default=True
)
@click.option(
    "--max-tokens", type=click.IntRange(1), default=1024, show_default=True, metavar="N",
    help="Of one test answer; what a method writes while it adapts may be longer.",
)  # fmt: skip
@click.option(
    "--adapt-tokens", type=click.IntRange(1), default=1024, show_default=True, metavar="N",
    help="Of one reply while a method adapts.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="Test prompts answered side by side; seconds are then those of a busy model.",
)  # fmt: skip
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the prompts.")
@click.option("--hub", metavar="DATASET", help="Take prompts from a data set of the hub instead.")
@click.option(
    "--embedder", default="hashing", show_default=True, metavar="SPEC",
    help="Of memories, for methods that search one.",
)  # fmt: skip
@click.option(
    "--full-information", is_flag=True, help="Tell methods all constraints in force (App. K)."
)
@click.option("--name", help="The run's name; by default recap-SCHEDULE-METHOD-LM-SEED.")
@click.option("--overwrite", is_flag=True, help="Start over a run of the same name.")
@click.pass_context
def recap(ctx: click.Context, /, **options: Any) -> None:
    """Run a method through a schedule of changing constraints: adapt, then be tested.

    At each step a constraint is added, edited or deleted. The method adapts (it sees the
    operation and nothing else), then answers the test prompts; every constraint in force is
    checked, and those replaced or deleted as well. Called again with the same name and settings,
    it goes on where it stopped, after Ctrl-C or kill -9 alike. DRPG_RECAP names the folder of
    the runs, by default .drpg/recap.

    \b
    Example:
      drpg recap --optimizer base --lm local/qwen2.5-coder-1.5b --prompts-per-step 8 \\
          --max-tokens 150 --name base-0
      drpg recap --schedule interleaved-20 --optimizer ace --lm openai/gpt-4.1-mini \\
          --judge-lm openai/gpt-4.1

    Next: drpg recap-report 'base-*' 'ace-*' --out recap.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # read when it is imported; of DSPy's optimizers
    from drpg_dspy.cli import recap_runs

    filed = tuple((ctx.default_map or {}).get("settings", ()))
    options["settings"] = merged(options["settings"], filed)
    recap_runs.run(options)


@click.command("recap-report", cls=Command)
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--baseline",
    help="The differences are to this method.",
    default="base",
    show_default=True,
    metavar="METHOD",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write report.md and report.json into this folder.",
)
@click.option(
    "--resamples", type=click.IntRange(10), default=1000, show_default=True, metavar="N",
    help="Bootstrap draws behind each interval.",
)  # fmt: skip
def recap_report(runs: tuple[str, ...], **options: Any) -> None:
    """Compare methods on every metric of RECAP, with 95 % intervals.

    RUNS are names or patterns (quoted) of runs of drpg recap. Runs of one method with different
    seeds are averaged; the intervals come from drawing the prompts anew. Methods are compared
    within one schedule, model and set of prompts. A run that is not finished is shown by what it
    has, and marked.

    \b
    Example:
      drpg recap-report 'recap-rule-only-15-*' --out recap

    Next: open recap/report.md.
    """
    from drpg_dspy.cli import recap_tables

    recap_tables.report(runs, **options)


@click.command("recap-judge", cls=Command)
@click.option("--judge-lm", required=True, metavar="SPEC", help="The judge to be checked.")
def recap_judge(judge_lm: str) -> None:
    """Check a judging model against verdicts of ours before its figures are believed.

    It judges 26 answers, two for each of the 13 types that no rule checks: one that meets its
    constraint plainly, one that fails it plainly. Fails where it agrees on fewer than 85 %.

    \b
    Example:
      drpg recap-judge --judge-lm openai/gpt-4.1-mini

    Next: drpg recap --schedule interleaved-20 --judge-lm SPEC.
    """
    from drpg_dspy.cli import recap_runs

    recap_runs.check_judge(judge_lm)
