"""``drpg feedback``: people's verdicts on answers, given here or in MLflow, from any process."""

from __future__ import annotations

import click

from drpg_dspy.cli.app import Group, help_if_alone

__all__ = ["feedback"]


class _GiveByDefault(Group):
    """``drpg feedback RUN …`` is short for ``drpg feedback give RUN …``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the subcommand in where a run was named instead of one."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["give", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_GiveByDefault)
@click.pass_context
def feedback(ctx: click.Context) -> None:
    """Say how good answers were, or take over what people said about them in MLflow.

    drpg feedback NAME ROLLOUT is short for drpg feedback give NAME ROLLOUT.

    \b
    Example:
      drpg feedback first 41 --score 0 --text "joined orders twice"
      drpg feedback pull shop_app:online --experiment shop

    Next: drpg show NAME --step N, and drpg policy log NAME for what was learned from it.
    """
    help_if_alone(ctx)


@feedback.command()
@click.argument("name")
@click.argument("rollout")
@click.option("--score", type=float, help="From 0 (wrong) to 1 (right); nan = not to be judged.")
@click.option("--text", default="", help="What was wrong or right, in words.")
@click.option("--author", default="person", help="Who says so.")
@click.option("--retract", is_flag=True, help="Take back the verdict that stands.")
def give(
    name: str, rollout: str, score: float | None, text: str, author: str, retract: bool
) -> None:
    """Give feedback on one answer, now or next week; the last word stands.

    NAME is a run, or MODULE:ATTRIBUTE for a learner of your own, found from the working
    directory: an OnlinePolicyOptimizer, or a function that returns one. ROLLOUT is a rollout's
    id or the number of its step; drpg show lists both. The learner takes it as from its own
    judge, and may be answering meanwhile in another process.

    \b
    Example:
      drpg feedback first 41 --score 0 --text "joined orders twice"
      drpg feedback first 41 --retract
      drpg feedback shop_app:online 8f2c… --score 1

    Next: drpg show NAME --step N, and drpg policy log NAME for what was learned from it.
    """
    from drpg_dspy.cli import giving

    if retract == (score is not None):
        raise click.UsageError("Give either --score or --retract, and not both.")
    step, what = giving.give_feedback(name, rollout, score, text, author)
    click.echo(f"{name}, step {step}: {what}")


@feedback.command()
@click.argument("name")
@click.option("--experiment", multiple=True, help="MLflow experiment that holds the traces.")
@click.option("--assessment", multiple=True, help="Name of the assessments that count.")
@click.option(
    "--source",
    multiple=True,
    type=click.Choice(["human", "llm_judge", "code"]),
    help="Whose assessments count; by default people's.",
)
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How far to look back.")
@click.option("--tracking-uri", help="Where MLflow keeps its data.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def pull(
    name: str,
    experiment: tuple[str, ...],
    assessment: tuple[str, ...],
    source: tuple[str, ...],
    days: float | None,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """Learn from what people said about answers in MLflow, on their traces.

    NAME is a run, or MODULE:ATTRIBUTE for a learner of your own, found from the working
    directory: an OnlinePolicyOptimizer, or a function that returns one. Its answers leave
    traces while mlflow.dspy.autolog() is on. The last assessment of a trace stands, one that was
    deleted is taken back, and pulling again changes nothing. Without --experiment the one is
    read that is active once the module is imported.

    \b
    Example:
      drpg feedback pull shop_app:online --experiment shop
      drpg feedback pull shop_app:online --experiment shop --assessment correctness --days 7

    Next: ask the program again; drpg policy log for a run.
    """
    from drpg_dspy.cli import pulling

    wanted = pulling.Wanted(experiment, assessment, source, days, tracking_uri)
    pulling.pull_and_report(name, wanted, as_json=as_json)
