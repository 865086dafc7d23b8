"""``drpg epochs``: construct corrections on some items, choose them on others, test on the rest."""

from __future__ import annotations

from typing import Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.config import CONFIG, merged, naming_the_file
from drpg_dspy.cli.run import DATA, LIMITS, WATCH, WHO

__all__ = ["epochs"]


@click.command(cls=Command)
@CONFIG
@DATA
@click.option(
    "--construction",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    metavar="N",
    help="Items that corrections are written from.",
)
@click.option(
    "--selection",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    metavar="N",
    help="Items that they are chosen on.",
)
@click.option(
    "--test",
    type=click.IntRange(0),
    default=40,
    show_default=True,
    metavar="N",
    help="Items that are answered before and after, and nothing else; 0 = none.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="How often; the next begins with the policies that the last one left.",
)
@click.option(
    "--group",
    default="group",
    show_default=True,
    metavar="FIELD",
    help="What two parts must not share; items without this field are each their own.",
)
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="Items answered and judged side by side.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the parts."
)
@WHO
@LIMITS
@WATCH
@click.pass_context
def epochs(ctx: click.Context, /, **options: Any) -> None:
    """Let NLPG improve the modules of BENCHMARK's program, epoch by epoch.

    The test items are answered first, without any policy that the epoch writes, and last, under
    those that it left: the pair that drpg audit reports on. Corrections are written from failures
    on the construction items and stay only if the selection items, asked without and with each,
    say so. The parts share no group (a question, a conversation, a user).

    Everything is kept in the run as it happens: after Ctrl-C or a crash, drpg resume goes on
    where it was. A prompt that the run has sent before is answered from the run's own file of
    replies, so that a correction can change nothing but the calls that it reaches.

    \b
    Example:
      drpg epochs hotpotqa_two_hop --data ../data --lm openai/gpt-4.1-mini --name two_hop
      drpg epochs ifbench --data ../data --lm local/qwen2.5-coder-1.5b --name ifb \\
          --construction 60 --selection 30 --test 40 --set max_instructions=3
      drpg epochs ifbench --data ../data --lm openai/gpt-4.1-mini --name random \\
          --set 'ablation={"random_route": true}'

    Next: drpg audit NAME --out DIR.
    """
    from drpg_dspy.cli import runs
    from drpg_dspy.cli.settings import DEFAULTS

    as_json = options.pop("as_json")
    for name in ("settings", "load"):
        options[name] = merged(options[name], tuple((ctx.default_map or {}).get(name, ())))
    plan = {name: options.pop(name) for name in ("construction", "selection", "test", "epochs")}
    plan["group"] = options.pop("group")
    given = {**DEFAULTS, **options, "optimizer": "nlpg", "epochs": plan}
    with naming_the_file(ctx):
        runs.start_and_report(given, as_json=as_json)
