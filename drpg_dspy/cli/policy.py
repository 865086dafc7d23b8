"""``drpg policy``: the versions that an optimizer wrote, and what people decide on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.memory_names import MEMORY

__all__ = ["policy"]

Decorator = Callable[..., Any]


def _deciding(command: Decorator) -> Decorator:
    """Add the options that every decision has."""
    command = click.option("--reason", default="", help="Why; kept in the log.")(command)
    return click.option(
        "--author", metavar="NAME", help="Who decides.  [default: this account's name]"
    )(command)


@click.group(cls=Group)
@click.pass_context
def policy(ctx: click.Context) -> None:
    """See what a program has taught itself, and decide on it.

    NAME is a run, a learner (its file is .drpg/NAME.sqlite), or a memory file. A version is a
    distinct text of one route's policy. A decision holds for every running program that shares
    the memory, from its next call on.

    \b
    Example:
      drpg policy list first
      drpg policy log first
      drpg policy why first "End every answer"
      drpg policy rollback first predict@3 --reason "worse since Monday"

    Next: drpg show RUN --step N for a step that a version was in force for.
    """
    help_if_alone(ctx)


@policy.command("list")
@click.argument("name", type=MEMORY)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def policy_list(name: str, as_json: bool) -> None:
    """Show how each route of NAME stands: what calls get, what is pinned, what waits.

    \b
    Example:
      drpg policy list first

    Next: drpg policy show NAME ROUTE@VERSION; drpg policy approve NAME ROUTE@VERSION.
    """
    from drpg_dspy.cli import governing

    with governing.opened(name) as governance:
        if as_json:
            emit_json(governing.list_as_plain(governance))
        else:
            click.echo(governing.list_as_text(name, governance))


@policy.command("log")
@click.argument("name", type=MEMORY)
@click.option("--route", help="One route only, e.g. predict.")
@click.option("--last", type=click.IntRange(1), help="The newest N versions only.")
@click.option("--decisions", is_flag=True, help="What people decided, instead of versions.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, oldest first.")
def policy_log(
    name: str, route: str | None, last: int | None, decisions: bool, as_json: bool
) -> None:
    """Show the policy versions of NAME, newest first, each as a diff against its parent.

    A version is a distinct text of one route's policy. Shown with it: its author, the steps it
    was in force for and their mean score, that of the version before, and the cases that each
    new rule came from (✓ right, ✗ wrong). What people decided comes first.

    \b
    Example:
      drpg policy log first
      drpg policy log first --route predict --last 5
      drpg policy log first --decisions

    Next: drpg policy show NAME ROUTE@VERSION for the cases in full.
    """
    from drpg_dspy.cli import governing
    from drpg_dspy.cli.policies import History

    with governing.opened(name) as governance:
        history = History(governance.memory)
        made = governance.log(route)
    versions = [] if decisions else history.select(route, last)
    if as_json:
        plain = made if decisions else [history.as_plain(version) for version in versions]
        emit_json(plain)
        return
    if not versions and not made:
        what = "decisions" if decisions else "policies"
        remedy = "" if decisions else "; some methods never write any"
        click.echo(f"{name!r} has no {what} so far{remedy}.")
        return
    shown = [governing.decisions_as_text(made)] if made else []
    shown += [f"{entry}\n" for entry in history.as_text(reversed(versions))]
    click.echo_via_pager(shown)


@policy.command("show")
@click.argument("name", type=MEMORY)
@click.argument("version", metavar="ROUTE[@VERSION]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def policy_show(name: str, version: str, as_json: bool) -> None:
    """Show one policy version of NAME with the cases behind each rule.

    Without @VERSION it is the route's newest.

    \b
    Example:
      drpg policy show first predict@3

    Next: drpg show NAME --step N for one of the cases.
    """
    from drpg_dspy.cli import governing
    from drpg_dspy.cli.policies import History

    with governing.opened(name) as governance:
        history = History(governance.memory)
    found = history.find(version)
    if as_json:
        emit_json(history.as_plain(found))
    else:
        click.echo(history.in_full(found))


@policy.command("diff")
@click.argument("name", type=MEMORY)
@click.argument("before", metavar="ROUTE@VERSION")
@click.argument("after", metavar="ROUTE[@VERSION]")
def policy_diff(name: str, before: str, after: str) -> None:
    """Show what two versions of NAME do not share, rule by rule.

    \b
    Example:
      drpg policy diff first predict@3 predict@7
      drpg policy diff first predict@3 predict

    Next: drpg policy rollback NAME ROUTE@VERSION.
    """
    from drpg_dspy.cli import governing

    with governing.opened(name) as governance:
        click.echo(governing.diff_as_text(governance, before, after))


@policy.command("why")
@click.argument("name", type=MEMORY)
@click.argument("rule", required=False)
@click.option("--route", help="Where several routes have the rule.")
@click.option("--step", type=click.IntRange(1), metavar="N", help="The other way: what a call got.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def policy_why(
    name: str, rule: str | None, route: str | None, step: int | None, as_json: bool
) -> None:
    """Say where a rule of NAME came from, which calls it was active in, and how they went.

    RULE is its id, its text or the beginning of one. With --step it is the other way: the rules
    that a call was given, and those that came of it.

    \b
    Example:
      drpg policy why first r-1a2b3c4d5e
      drpg policy why first "End every answer"
      drpg policy why first --step 12

    Next: drpg show NAME --step N; drpg policy pin or edit.
    """
    from drpg_dspy.cli import governing

    if (rule is None) == (step is None):
        raise click.UsageError("Give a RULE or --step N, and not both.")
    with governing.opened(name) as governance:
        found = (
            governing.find_case(governance, step)
            if step is not None
            else governing.find_rule(governance, rule or "", route)
        )
        if as_json:
            emit_json(found)
        else:
            click.echo(governing.provenance_as_text(found))


@policy.command("approve")
@click.argument("name", type=MEMORY)
@click.argument("version", metavar="ROUTE@VERSION")
@click.option("--reject", is_flag=True, help="Take it off the list instead.")
@_deciding
def policy_approve(name: str, version: str, reject: bool, author: str | None, reason: str) -> None:
    """Let a learned version of NAME that waits for approval stand for its route.

    It is refused when another version stands than when it was learned; the message shows what
    changed in between.

    \b
    Example:
      drpg policy approval first --required
      drpg policy list first
      drpg policy approve first predict@7 --reason "matches the style guide"

    Next: drpg policy list NAME.
    """
    from drpg_dspy.cli import governing

    act = "reject" if reject else "approve"
    governing.decide(name, act, version, author=author, reason=reason)


@policy.command("approval")
@click.argument("name", type=MEMORY)
@click.option("--required/--not-required", required=True, help="Whether learned versions wait.")
@_deciding
def policy_approval(name: str, required: bool, author: str | None, reason: str) -> None:
    """Let learned versions of NAME wait until somebody approves them, or no longer.

    \b
    Example:
      drpg policy approval first --required --reason "in production from today"

    Next: drpg policy list NAME shows what waits.
    """
    from drpg_dspy.cli import governing

    governing.decide(name, "require_approval", required, author=author, reason=reason)


@policy.command("pin")
@click.argument("name", type=MEMORY)
@click.argument("route")
@click.argument("rule")
@click.option("--off", is_flag=True, help="Take the pin away.")
@_deciding
def policy_pin(
    name: str, route: str, rule: str, off: bool, author: str | None, reason: str
) -> None:
    """Give every call of NAME's ROUTE a rule, whatever its optimizer writes.

    RULE is a new rule's text, or the id or text of one that the route had.

    \b
    Example:
      drpg policy pin first predict "Never answer from memory." --reason "audit of May"
      drpg policy pin first predict r-1a2b3c4d5e --off

    Next: drpg policy list NAME.
    """
    from drpg_dspy.cli import governing

    act = "unpin" if off else "pin"
    governing.decide(name, act, route, rule, author=author, reason=reason)


@policy.command("edit")
@click.argument("name", type=MEMORY)
@click.argument("route")
@click.option("--text", help="The rules, one a line; '' = no policy. Default: an editor opens.")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the rules.",
)
@_deciding
def policy_edit(
    name: str, route: str, text: str | None, file: Path | None, author: str | None, reason: str
) -> None:
    """Write the policy of NAME's ROUTE; it stands until somebody thaws the route.

    \b
    Example:
      drpg policy edit first predict
      drpg policy edit first predict --file rules.md --reason "reviewed with the data team"

    Next: drpg policy thaw NAME ROUTE lets the optimizer go on.
    """
    from drpg_dspy.cli import governing

    if text is not None and file is not None:
        raise click.UsageError("Give --text or --file, and not both.")
    if file is not None:
        text = governing.rules_of(file)
    if text is None:
        text = governing.edited(name, route)
    governing.decide(name, "edit", route, text, author=author, reason=reason)


@policy.command("rollback")
@click.argument("name", type=MEMORY)
@click.argument("version", metavar="ROUTE@VERSION")
@_deciding
def policy_rollback(name: str, version: str, author: str | None, reason: str) -> None:
    """Let an earlier version of NAME stand again, until somebody thaws the route.

    \b
    Example:
      drpg policy rollback first predict@3 --reason "worse since Monday"

    Next: drpg policy thaw NAME ROUTE lets the optimizer go on.
    """
    from drpg_dspy.cli import governing

    governing.decide(name, "rollback", version, author=author, reason=reason)


@policy.command("freeze")
@click.argument("name", type=MEMORY)
@click.argument("route", required=False, default="")
@_deciding
def policy_freeze(name: str, route: str, author: str | None, reason: str) -> None:
    """Hold NAME, or one ROUTE of it, at its current version: nothing learned is used.

    \b
    Example:
      drpg policy freeze first --reason "release week"

    Next: drpg policy thaw NAME lets the optimizer go on.
    """
    from drpg_dspy.cli import governing

    governing.decide(name, "freeze", route, author=author, reason=reason)


@policy.command("thaw")
@click.argument("name", type=MEMORY)
@click.argument("route", required=False, default="")
@_deciding
def policy_thaw(name: str, route: str, author: str | None, reason: str) -> None:
    """Let the optimizer of NAME go on after a freeze, an edit or a rollback.

    \b
    Example:
      drpg policy thaw first predict

    Next: drpg policy list NAME.
    """
    from drpg_dspy.cli import governing

    governing.decide(name, "thaw", route, author=author, reason=reason)
