"""``drpg constraints``: what people require of every answer, changed while a program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.memory_names import MEMORY

if TYPE_CHECKING:
    from drpg_dspy.optimizers import ConstraintAdapter
    from drpg_dspy.optimizers.standing.changes import Change

__all__ = ["constraints"]

_ROUTES = click.option(
    "--route", "routes", multiple=True, help="A predictor it holds for; repeatable. Default: all."
)
_WHICH = click.option(
    "--route", "routes", multiple=True, help="Which one is meant, where several have the type."
)
_EXPIRES = click.option(
    "--expires", metavar="WHEN", help="2026-12-31T18:00 or 90m, 12h, 30d, 2w; default: never."
)
_AUTHOR = click.option("--author", default="person", help="Who says so.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_REFUSE = click.option(
    "--refuse",
    is_flag=True,
    help="Change nothing where it contradicts what is in force; else the newest wins.",
)
_LM = click.option(
    "--lm", metavar="SPEC", help="Who looks for contradictions that no rule can tell; else nobody."
)


@click.group(cls=Group)
@click.pass_context
def constraints(ctx: click.Context) -> None:
    """Add, edit and delete constraints; they hold from the next call of a running program on.

    NAME is a run, a learner (its file is .drpg/NAME.sqlite), or a memory file. The program must
    serve them: a run started with --optimizer constraints or with --constraint, a learner with
    a ConstraintAdapter.

    \b
    Example:
      drpg constraints add first Length "Keep the answer under 200 words." --author anna
      drpg constraints edit first Length "Keep the answer under 120 words." --author ben
      drpg constraints delete first Length
      drpg constraints list first

    Next: drpg constraints log NAME, and drpg policy log NAME for the versions of the policy.
    """
    help_if_alone(ctx)


def _change(*more: Callable[..., Any]) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        named = [click.argument("name", type=MEMORY), click.argument("type")]
        for option in reversed([*named, *more, _AUTHOR]):
            function = option(function)
        return function

    return add


@constraints.command("add")
@_change(click.argument("text"), _ROUTES, _EXPIRES, _REFUSE, _LM, _JSON)
def add_command(
    name: str, type: str, text: str, refuse: bool, lm: str | None, as_json: bool, **options: Any
) -> None:
    """Put a constraint of TYPE into force: TEXT, shown to the model as it stands.

    \b
    Example:
      drpg constraints add first Keyword "Mention the word 'risk' at least twice." --expires 30d
      drpg constraints add first No_Commas "Use no commas." --refuse

    Next: drpg constraints list NAME.
    """
    with _adapter(name, refuse, lm) as adapter, _explained():
        _report(adapter, adapter.add(type, text, **options), as_json)


@constraints.command("edit")
@_change(click.argument("text"), _WHICH, _EXPIRES, _REFUSE, _LM, _JSON)
def edit_command(
    name: str,
    type: str,
    text: str,
    expires: str | None,
    refuse: bool,
    lm: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Replace the text of the constraint in force of TYPE (or with that id) by TEXT.

    \b
    Example:
      drpg constraints edit first Length "Keep the answer under 120 words." --author anna

    Next: drpg constraints log NAME.
    """
    if expires is not None:
        options["expires"] = expires
    with _adapter(name, refuse, lm) as adapter, _explained():
        _report(adapter, adapter.edit(type, text, **options), as_json)


@constraints.command("delete")
@_change(_WHICH, _JSON)
def delete_command(name: str, type: str, as_json: bool, **options: Any) -> None:
    """Take the constraint of TYPE (or with that id) out of force.

    \b
    Example:
      drpg constraints delete first Length --author anna

    Next: drpg constraints list NAME.
    """
    with _adapter(name) as adapter, _explained():
        _report(adapter, adapter.delete(type, **options), as_json)


@constraints.command("list")
@click.argument("name", type=MEMORY)
@_JSON
def list_command(name: str, as_json: bool) -> None:
    """Show the constraints in force of NAME, in the order in which the model sees them.

    \b
    Example:
      drpg constraints list first

    Next: drpg constraints edit NAME TYPE TEXT.
    """
    from drpg_dspy.cli.layout import clean, emit_json
    from drpg_dspy.constraints import parse_rule

    with _adapter(name, read_only=True) as adapter:
        standing, overridden = adapter.in_force(), adapter.overridden()
    if as_json:
        emit_json([one.to_plain() for one in standing])
        return
    for one in standing:
        checked = "" if parse_rule(one.type, one.text) else ", not checked by rule"
        on = ", ".join(one.routes) or "all routes"
        click.echo(f"{one.type}  {clean(one.text)}")
        click.echo(f"    {one.id}, by {clean(one.author)}, on {on}{_until(one.expires)}{checked}")
    for one, winners in overridden.items():
        click.echo(f"{one.type}  {clean(one.text)}")
        by = ", ".join(winner.type for winner in winners)
        click.echo(f"    {one.id}, by {clean(one.author)}, NOT in force: overridden by {by}")
    if not standing:
        click.echo("No constraint is in force.")


@constraints.command("log")
@click.argument("name", type=MEMORY)
@_JSON
def log_command(name: str, as_json: bool) -> None:
    """Show all changes to the constraints of NAME, newest first.

    \b
    Example:
      drpg constraints log first

    Next: drpg policy log NAME.
    """
    from drpg_dspy.cli.layout import clean, emit_json

    with _adapter(name, read_only=True) as adapter:
        changes = adapter.history()
    if as_json:
        emit_json([change.as_plain() for change in changes])
        return
    for change in reversed(changes):
        click.echo(f"{change.number}  {_when(change.at)}  {clean(change.author)}")
        click.echo(f"    {clean(change.message)}")
        if change.before is not None:
            click.echo(f"    before: {clean(change.before.text)}")
        for conflict in change.conflicts:
            click.echo(f"    contradicts: {clean(str(conflict))}")
    if not changes:
        click.echo("The constraints were never changed.")


@contextmanager
def _adapter(
    name: str, refuse: bool = False, lm: str | None = None, *, read_only: bool = False
) -> Iterator[ConstraintAdapter]:
    from contextlib import closing

    from drpg_dspy.cli.learners import make_lm
    from drpg_dspy.cli.memory_names import memory_file
    from drpg_dspy.memory import SQLiteMemory
    from drpg_dspy.optimizers import ConstraintAdapter

    options = {
        "on_conflict": "refuse" if refuse else "newest",
        "policy_lm": make_lm(lm, {}) if lm else None,
    }
    with closing(SQLiteMemory(memory_file(name), read_only=read_only)) as memory:
        yield ConstraintAdapter.open(memory, **options)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn a refusal into a message: wrong usage for a mistake, a failure for a contradiction."""
    from drpg_dspy.cli.app import Stopped, wrong_if
    from drpg_dspy.exceptions import ConstraintConflict, PolicyTooLong

    try:
        with wrong_if(["TYPE", "TEXT"], ValueError):
            yield
    except (ConstraintConflict, PolicyTooLong) as error:
        raise Stopped(str(error)) from error


def _report(adapter: ConstraintAdapter, change: Change, as_json: bool) -> None:
    from drpg_dspy.cli.layout import clean, emit_json
    from drpg_dspy.constraints import parse_rule

    one = change.constraint
    if as_json:
        emit_json(change.as_plain())
    else:
        click.echo(f"{change.number}: {clean(change.message)}, by {clean(change.author)}")
    for conflict in change.conflicts:
        click.echo(f"It contradicts, and overrides: {clean(str(conflict))}", err=True)
    if change.undecided:
        kinds = ", ".join(c.type for c in adapter.in_force() if c.id in change.undecided)
        click.echo(f"Nobody compared it with: {kinds} (--lm SPEC asks a model).", err=True)
    if change.operation != "delete" and not parse_rule(one.type, one.text):
        click.echo(
            "No rule can be read from this text: the model is told, answers are not checked.",
            err=True,
        )
    if not adapter.routes:
        click.echo(
            "No program that serves constraints has used this memory yet; they hold from the "
            "first call of one that does (--optimizer constraints, --constraint).",
            err=True,
        )


def _when(at: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at).isoformat(" ", "seconds")


def _until(expires: float) -> str:
    return "" if expires == float("inf") else f", until {_when(expires)}"
