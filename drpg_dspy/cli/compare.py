"""``drpg compare``: optimizers side by side at equal budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.names import BENCHMARK

__all__ = ["compare"]

_DEFAULT = "zero_shot,self_stream_icl,drpg,miprov2,gepa"


@click.command(cls=Command)
@click.argument("benchmark", type=BENCHMARK)
@click.option(
    "--optimizers",
    default=_DEFAULT,
    show_default=True,
    metavar="A,B,…",
    help="Methods of drpg list, MODULE:CLASS for your own, DSPy's (gepa, miprov2, …), or one "
    "after the other: gepa+drpg.",
)
@click.option(
    "--train", required=True, type=click.IntRange(1), metavar="N", help="Questions to learn from."
)
@click.option(
    "--test", required=True, type=click.IntRange(1), metavar="M", help="Held-out questions."
)
@click.option("--lm", required=True, metavar="SPEC", help="Who answers: local/NAME, openai/gpt-…")
@click.option(
    "--policy-lm",
    metavar="SPEC",
    help="Who writes policies and instructions, and reflects; default: --lm.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="S",
    help="Repetitions: other orders of the training part, other draws of the optimizers.",
)
@click.option(
    "--budget-calls",
    type=click.IntRange(1),
    metavar="N",
    help="LM calls that a column may spend on learning; policy writers and judges count.",
)
@click.option(
    "--budget-tokens", type=click.IntRange(1), metavar="N", help="Tokens, read and written."
)
@click.option(
    "--budget-dollars",
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="US dollars, as far as prices are known.",
)
@click.option("--data", type=click.Path(path_type=Path), help="The benchmark's data folder.")
@click.option("--split", help="The part of the data, e.g. dev; default: the benchmark's.")
@click.option("--exclude-db", multiple=True, metavar="DB", help="Leave out; repeatable.")
@click.option(
    "--load",
    multiple=True,
    metavar="KEY=VALUE",
    help="An argument of the benchmark's loader; repeatable.",
)
@click.option("--compare", "scoring", help="The scoring; by default the benchmark's first.")
@click.option(
    "--seed", type=click.IntRange(0), default=42, show_default=True, help="Seed of the order."
)
@click.option(
    "--k", type=click.IntRange(1), metavar="N", help="Cases retrieved; the benchmark's by default."
)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="Of both LMs.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    metavar="N",
    help="Of one reply.",
)
@click.option(
    "--embedder",
    default="default",
    show_default=True,
    metavar="SPEC",
    help="Who embeds questions: default, minilm, hashing, or a model's name.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Examples that offline optimizers evaluate side by side.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where everything is kept; default: .drpg/compare/BENCHMARK-LM.",
)
@click.option(
    "--mlflow/--no-mlflow",
    "mlflow",
    default=None,
    help="Report to MLflow; by default where it is installed.",
)
@click.option("--experiment", help="The MLflow experiment; default: drpg-compare-BENCHMARK.")
@click.option("--tracking-uri", help="Where MLflow keeps data; default: its own.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(as_json: bool, **options: Any) -> None:
    """Compare optimizers on BENCHMARK: same program, questions, metric, models and budget.

    The first N questions of the order are learned from, the next M are held out. Offline
    optimizers learn from all N at once, online methods meet them one by one. The LM call that
    a column's budget cannot pay is not sent: the column stops there and is measured with what
    it had reached. Interrupted, the same command goes on; finished columns are kept, and
    further --optimizers or --seeds are added to them.

    \b
    Example:
      drpg compare spider --data ../data --exclude-db wta_1 --train 40 --test 60 \\
          --budget-calls 160 --lm local/qwen2.5-coder-1.5b
      drpg compare house_rules --optimizers zero_shot,drpg,gepa,gepa+drpg --train 30 --test 30 \\
          --budget-calls 200 --lm openai/gpt-4.1-mini --seeds 3

    Next: open DIR/index.html, or mlflow ui.
    """
    from drpg_dspy.cli import comparing

    comparing.compare_and_report(options, as_json=as_json)
