"""``drpg run`` and ``drpg resume``: a stream, from its first question or from where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.config import CONFIG, merged, naming_the_file
from drpg_dspy.cli.names import BENCHMARK, OPTIMIZER, RUN

__all__ = ["DATA", "LIMITS", "WATCH", "WHO", "resume", "run"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _options(*options: Decorator) -> Decorator:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


DATA = _options(
    click.argument("benchmark", type=BENCHMARK),
    click.option("--data", type=click.Path(path_type=Path), help="The benchmark's data folder."),
    click.option("--exclude-db", multiple=True, metavar="DB", help="Leave out; repeatable."),
    click.option(
        "--load",
        "load",
        multiple=True,
        metavar="KEY=VALUE",
        help="An argument of the benchmark's loader, e.g. evidence=false; repeatable.",
    ),
    click.option("--compare", help="The scoring; by default the benchmark's first."),
    click.option("--name", help="The run's name; by default BENCHMARK-OPTIMIZER-LM."),
    click.option("--overwrite", is_flag=True, help="Replace a run of the same name."),
)
"""What is asked, and what the run is called."""

_STREAM = _options(
    click.option(
        "--optimizer",
        type=OPTIMIZER,
        default="drpg",
        show_default=True,
        help="Method of drpg list, or MODULE:CLASS for your own.",
    ),
    click.option("--split", help="The part of the data, e.g. dev; default: the benchmark's."),
    click.option(
        "--limit", type=click.IntRange(1), metavar="N", help="The first N questions of the order."
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=42,
        show_default=True,
        help="Seed of the order.",
    ),
    click.option(
        "--delay",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        show_default=True,
        help="Feedback arrives this many steps late.",
    ),
    click.option(
        "--k",
        type=click.IntRange(1),
        metavar="N",
        help="Cases retrieved; the benchmark's by default.",
    ),
    click.option(
        "--constraint",
        "constraints",
        multiple=True,
        metavar="TYPE=TEXT",
        help="In force from the start, above what is learned; repeatable; see drpg constraints.",
    ),
    click.option(
        "--repair",
        type=click.IntRange(0),
        metavar="N",
        help="LM calls at most for an answer that violates a --constraint; default: 1.",
    ),
    click.option(
        "--holdout",
        type=click.FloatRange(0, 0.5, min_open=True),
        metavar="SHARE",
        help="Leave the policy out of this share of the calls, and rest it where it does harm.",
    ),
    click.option(
        "--gate",
        type=click.Choice(["replay", "shadow"]),
        help="Use a policy only once it has beaten the one before, on past cases or beside calls.",
    ),
)

WHO = _options(
    click.option(
        "--lm",
        required=True,
        metavar="SPEC",
        help="Who answers: local/NAME, or anything LiteLLM knows (openai/gpt-…).",
    ),
    click.option("--policy-lm", metavar="SPEC", help="Who writes policies; default: --lm."),
    click.option("--temperature", type=float, default=0.0, show_default=True, help="Of both LMs."),
    click.option(
        "--max-tokens",
        type=click.IntRange(1),
        metavar="N",
        default=1024,
        show_default=True,
        help="Of one reply.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="An optimizer's argument, e.g. contrast=wrong, writer=case; repeatable.",
    ),
    click.option(
        "--embedder",
        metavar="SPEC",
        default="default",
        show_default=True,
        help="Who embeds questions: default, minilm, hashing, or a model's name.",
    ),
)
"""Who answers, and how the method is set."""

LIMITS = _options(
    click.option(
        "--budget-calls",
        type=click.IntRange(1),
        metavar="N",
        help="Stop when N LM calls are spent; policy writing and judging count.",
    ),
    click.option(
        "--budget-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Stop when N tokens are spent, read and written together.",
    ),
    click.option(
        "--budget-dollars",
        type=click.FloatRange(0, min_open=True),
        metavar="X",
        help="Stop when X dollars are spent, as far as prices are known.",
    ),
    click.option(
        "--budget-minutes",
        type=click.FloatRange(0, min_open=True),
        metavar="X",
        help="Stop after X minutes.",
    ),
)

WATCH = _options(
    click.option(
        "--mlflow/--no-mlflow",
        "mlflow",
        default=None,
        help="Report to MLflow; by default where it is installed, else to a file.",
    ),
    click.option("--experiment", help="The MLflow experiment; default: drpg-BENCHMARK."),
    click.option("--tracking-uri", help="Where MLflow keeps data; default: its own."),
    click.option("--json", "as_json", is_flag=True, help="Print the final report as JSON."),
)
"""Who is told."""


@click.command(cls=Command)
@CONFIG
@DATA
@_STREAM
@WHO
@LIMITS
@click.option(
    "--stop-after-failures",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="Stop after N failed steps in a row; 0 = never.",
)
@WATCH
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run a stream: answer, be judged, learn, question after question of BENCHMARK.

    Each question is answered before its verdict is known (test, then learn), in a fixed random
    order. Everything is kept in the run as it happens: after Ctrl-C or a crash, drpg resume
    goes on where it was. LM caches are off, so that counted tokens were really spent.

    \b
    Example:
      drpg run house_rules --lm local/qwen2.5-coder-1.5b --limit 30 --name first
      drpg run spider --data ../data --lm openai/gpt-4.1-mini --exclude-db wta_1 \\
          --optimizer drpg --set writer=case --set feedback_text=true
      drpg run --config configs/table1/bird-drpg.toml --lm openai/gpt-4.1-mini
      drpg run spider --data ../data --lm openai/gpt-4.1-mini --optimizer zero_shot

    Next: drpg show NAME, drpg policy log NAME, mlflow ui.
    """
    from drpg_dspy.cli import runs

    as_json = options.pop("as_json")
    # Single settings of a file are replaced, not all.
    for name in ("settings", "load", "constraints"):
        options[name] = merged(options[name], tuple((ctx.default_map or {}).get(name, ())))
    with naming_the_file(ctx):
        runs.start_and_report(options, as_json=as_json)


@click.command(cls=Command)
@click.argument("name", type=RUN)
@LIMITS
@click.option(
    "--stop-after-failures",
    type=click.IntRange(0),
    metavar="N",
    help="Stop after N failed steps in a row; default: as it was started.",
)
@click.option("--no-budget", is_flag=True, help="Lift the limits that the run was started with.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="End after N questions from now on: a longer or shorter run.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Where the data is now, if moved.")
@click.option("--json", "as_json", is_flag=True, help="Print the final report as JSON.")
def resume(name: str, as_json: bool, **changes: Any) -> None:
    """Go on with run NAME where it stopped: after Ctrl-C, a crash, kill -9 or a spent budget.

    The run's own settings are used; only limits can be given anew. A budget counts the whole
    run, what was spent before included. The result is that of an uninterrupted run. With
    --limit a finished run goes on to more questions of its order; the steps made stay.

    \b
    Example:
      drpg resume first
      drpg resume first --budget-minutes 30
      drpg resume first --limit 200

    Next: drpg show NAME.
    """
    from drpg_dspy.cli import runs

    runs.resume_and_report(name, changes, as_json=as_json)
