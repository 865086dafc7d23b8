"""What all commands share: one message for a user's mistake, exit codes, ``--debug``."""

from __future__ import annotations

import difflib
import sqlite3
from collections.abc import Iterable
from typing import Any

import click

from drpg_dspy.exceptions import DRPGError

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_USAGE",
    "Command",
    "Group",
    "Stopped",
    "help_if_alone",
    "unknown_name",
]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_USER_ERRORS = (DRPGError, ValueError, ImportError, OSError, sqlite3.DatabaseError)


class Stopped(click.ClickException):
    """A command that did its work and has to report failure; the message is all there is."""

    exit_code = EXIT_FAILED


class Command(click.Command):
    """A command whose errors are one message on stderr; ``--debug`` shows the traceback."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                callback=_keep_debug,
                help="Show the traceback of an error.",
            )
        )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        try:
            return super().invoke(ctx)
        except _USER_ERRORS as error:
            if ctx.meta.get(_DEBUG):
                raise
            raise click.ClickException(_message(error)) from error
        except KeyboardInterrupt as interrupt:
            click.echo(f"\n{str(interrupt) or 'Interrupted.'}", err=True)
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


class Group(click.Group):
    """A group of :class:`Command`; without a subcommand it shows its help and succeeds."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("invoke_without_command", True)
        super().__init__(*args, **kwargs)


def help_if_alone(ctx: click.Context) -> None:
    """Show a group's help when no subcommand was given: the body of every group."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def unknown_name(kind: str, name: str, known: Iterable[str], remedy: str = "") -> str:
    """Say that a name is unknown, which one may have been meant, and which there are.

    >>> unknown_name("benchmark", "spidr", ["bird", "spider"])
    "There is no benchmark 'spidr'. Did you mean 'spider'? Known: bird, spider."
    """
    known = list(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    parts = [f"There is no {kind} {name!r}."]
    if close:
        parts.append(f"Did you mean {close[0]!r}?")
    if known:
        shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        parts.append(f"Known: {shown}.")
    if remedy:
        parts.append(remedy)
    return " ".join(parts)


_DEBUG = "drpg_dspy.cli.debug"


def _keep_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_DEBUG] = value


def _message(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, (DRPGError, ImportError)):
        return text
    # A plain ValueError is most often a wrong argument, but may be a fault of ours.
    return f"{text}\n(--debug shows where this was raised.)"
