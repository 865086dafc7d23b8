"""``drpg feedback``: a person's verdict on a step of a run, from any process."""

from __future__ import annotations

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.names import RUN

__all__ = ["feedback"]


@click.command(cls=Command)
@click.argument("name", type=RUN)
@click.argument("rollout")
@click.option("--score", type=float, help="From 0 (wrong) to 1 (right); nan = not to be judged.")
@click.option("--text", default="", help="What was wrong or right, in words.")
@click.option("--author", default="person", help="Who says so.")
@click.option("--retract", is_flag=True, help="Take back the verdict that stands.")
def feedback(
    name: str, rollout: str, score: float | None, text: str, author: str, retract: bool
) -> None:
    """Give feedback on one answer of run NAME, now or next week; the last word stands.

    ROLLOUT is a rollout's id or the number of its step; drpg show lists both. The run learns
    from it as from its own judge's verdict, and may be going on meanwhile in another process.

    \b
    Example:
      drpg feedback first 41 --score 0 --text "joined orders twice"
      drpg feedback first 41 --retract

    Next: drpg show NAME --step N, and drpg policy log NAME for what was learned from it.
    """
    from drpg_dspy.cli import runs

    if retract == (score is not None):
        raise click.UsageError("Give either --score or --retract, and not both.")
    step, what = runs.give_feedback(name, rollout, score, text, author)
    click.echo(f"{name}, step {step}: {what}")
