"""``drpg policy``: the versions that a run's optimizer wrote."""

from __future__ import annotations

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.names import RUN

__all__ = ["policy"]


@click.group(cls=Group)
@click.pass_context
def policy(ctx: click.Context) -> None:
    """Read the policies of a run: every version, who wrote it, and from which cases.

    \b
    Example:
      drpg policy log first
      drpg policy show first predict@3

    Next: drpg show RUN --step N for a step that a version was in force for.
    """
    help_if_alone(ctx)


@policy.command("log")
@click.argument("name", type=RUN)
@click.option("--route", help="One route only, e.g. predict.")
@click.option("--last", type=click.IntRange(1), help="The newest N versions only.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, oldest version first.")
def policy_log(name: str, route: str | None, last: int | None, as_json: bool) -> None:
    """Show the policy versions of run NAME, newest first, each as a diff against its parent.

    A version is a distinct text of one route's policy. Shown with it: its author, the steps it
    was in force for and their mean score, that of the version before, and the cases that each
    new rule came from (✓ right, ✗ wrong).

    \b
    Example:
      drpg policy log first
      drpg policy log first --route predict --last 5

    Next: drpg policy show NAME ROUTE@VERSION for the cases in full.
    """
    from drpg_dspy.cli.policies import History
    from drpg_dspy.cli.runs import reading

    with reading(name) as memory:
        history = History(memory)
    versions = history.select(route, last)
    if as_json:
        emit_json([history.as_plain(version) for version in versions])
    elif not versions:
        click.echo(f"Run {name!r} has no policies so far; some methods never write any.")
    else:
        click.echo_via_pager(f"{entry}\n" for entry in history.as_text(reversed(versions)))


@policy.command("show")
@click.argument("name", type=RUN)
@click.argument("version", metavar="ROUTE[@VERSION]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def policy_show(name: str, version: str, as_json: bool) -> None:
    """Show one policy version of run NAME with the cases behind each rule.

    Without @VERSION it is the route's newest.

    \b
    Example:
      drpg policy show first predict@3

    Next: drpg show NAME --step N for one of the cases.
    """
    from drpg_dspy.cli.policies import History
    from drpg_dspy.cli.runs import reading

    with reading(name) as memory:
        history = History(memory)
    found = history.find(version)
    if as_json:
        emit_json(history.as_plain(found))
    else:
        click.echo(history.in_full(found))
