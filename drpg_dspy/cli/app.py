"""What all commands share: one message for a user's mistake, exit codes, ``--debug``.

With ``--json`` a program reads the output, so a failure is a JSON value as well: an object with
``error`` and ``exit_code`` on stdout, unless the command's own report stands there already.
"""

from __future__ import annotations

import difflib
import dis
import errno
import os
import select
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import click

from drpg_dspy.cli.layout import emit_json, printed_json
from drpg_dspy.exceptions import DRPGError

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_PIPE",
    "EXIT_USAGE",
    "Command",
    "Group",
    "Stopped",
    "explained",
    "help_if_alone",
    "unknown_name",
    "wrong",
    "wrong_if",
]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141

_USER_ERRORS = (DRPGError, ValueError, ImportError, OSError, sqlite3.DatabaseError)
_OURS = {"drpg_dspy", "programs", "evaluators"}


class Stopped(click.ClickException):
    """A command that was called rightly and has to report failure; the message is all there is."""

    exit_code = EXIT_FAILED


def wrong(option: str | list[str], why: object) -> click.BadParameter:
    """Return the error for a value on the command line that cannot be used.

    Args:
        option: Where it was given: ``--k``, ``ROLLOUT``; several where any may be meant.
        why: Names the value and the remedy.
    """
    return click.BadParameter(str(why), param_hint=[option] if isinstance(option, str) else option)


@contextmanager
def wrong_if(option: str | list[str], *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of some kinds inside the block into wrong usage of an option."""
    try:
        yield
    except kinds as error:
        raise wrong(option, error) from error


class Interrupted(click.exceptions.Exit):
    """Ctrl-C ended a command.

    Args:
        message: Says how to go on.
    """

    def __init__(self, message: str) -> None:
        super().__init__(EXIT_INTERRUPTED)
        self.message = message


class Command(click.Command):
    """A command whose errors are one message on stderr; ``--debug`` shows the traceback."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                help="Show the traceback of an error.",
            )
        )

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments; many are looked up here already."""
        debug = "--debug" in args
        with _in_one_message(debug):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[_DEBUG] = debug
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class."""
        with _in_one_message(bool(ctx.meta.get(_DEBUG))):
            return super().invoke(ctx)


class Group(click.Group):
    """A group of :class:`Command`; without a subcommand it shows its help and succeeds.

    A reader that goes away (``drpg show first | head``) ends the command without a word.
    """

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("invoke_without_command", True)
        super().__init__(*args, **kwargs)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the arguments; ``--help`` prints here already."""
        wanted = parent is None and "--json" in args
        with _FailuresAsJSON(wanted), _while_somebody_reads():
            ctx = super().make_context(info_name, args, parent, **extra)
        if parent is None:
            ctx.meta[_JSON] = wanted
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        outermost = ctx.parent is None
        with _FailuresAsJSON(outermost and ctx.meta.get(_JSON, False)), _while_somebody_reads():
            return super().invoke(ctx)


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


def explained(error: BaseException) -> bool:
    """Tell whether an error was raised by a statement of ours, which says what was wrong.

    What a dependency or a user's own module raised, or Python itself in one of our lines, is
    explained by nobody: only its traceback shows where it came from.
    """
    if isinstance(error, DRPGError):
        return True
    last: TracebackType | None = error.__traceback__
    if last is None:
        return False
    while last.tb_next is not None:
        last = last.tb_next
    package = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
    return package in _OURS and instruction == dis.opmap["RAISE_VARARGS"]


_DEBUG = "drpg_dspy.cli.debug"
_JSON = "drpg_dspy.cli.json"

_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def _in_one_message(debug: bool) -> Iterator[None]:
    """Turn a user's mistake into the error that click prints without a traceback."""
    try:
        yield
        return
    except click.ClickException as error:
        if not debug or error.__cause__ is None:
            raise
        behind = error.__cause__
    except _USER_ERRORS as error:
        if debug or isinstance(error, BrokenPipeError):  # the group knows whose pipe it was
            raise
        raise click.ClickException(_message(error)) from error
    except KeyboardInterrupt as interrupt:
        said = str(interrupt) or "Interrupted."
        click.echo(f"\n{said}", err=True)
        raise Interrupted(said) from None
    raise behind


class _FailuresAsJSON:
    """Says on stdout, as JSON, what made the block fail; a report printed before stands alone."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.wanted or error is None or printed_json():
            return
        if isinstance(error, click.exceptions.Exit) and not isinstance(error, Interrupted):
            return  # --help, or a reader who is gone
        said = getattr(error, "message", "") or str(error) or type(error).__name__
        if isinstance(error, click.ClickException):
            said = error.format_message()
        code = getattr(error, "exit_code", EXIT_FAILED)
        emit_json({"error": click.unstyle(said), "exit_code": code})


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and (said := _about_a_file(error)):
        return said
    text = str(error).strip() or type(error).__name__
    return text if explained(error) else f"{text}\n(--debug shows where this was raised.)"


def _about_a_file(error: OSError) -> str:
    """Say what a file or folder lacks, and what mends it; ``""`` for another kind of error."""
    if error.filename is None:
        return ""
    place = os.path.abspath(os.fsdecode(error.filename2 or error.filename))
    if error.errno in _NOT_ALLOWED:
        ours = Path(".drpg").absolute() in (Path(place), *Path(place).parents)
        return (
            f"{place} cannot be used: {_reason(error)}. Give this user the right to it "
            "(chmod, chown)"
            + (", work in another folder, or set DRPG_RUNS to one." if ours else ".")
        )
    if error.errno in _FULL:
        return f"{place} cannot be written: {_reason(error)}. Free some space, and try again."
    return ""


def _reason(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return reason[:1].lower() + reason[1:]


@contextmanager
def _while_somebody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        if any([_hung_up(sys.stdout), _hung_up(sys.stderr)]):
            raise click.exceptions.Exit(EXIT_PIPE) from None
        # Another pipe than those to the reader; click would end without a word.
        raise click.ClickException(_message(error)) from error


def _hung_up(stream: TextIO) -> bool:
    """Tell whether a stream's reader is gone; if so, let the rest go nowhere, also at exit."""
    try:
        place = stream.fileno()
    except (OSError, ValueError):  # no file behind it
        return False
    pipe = select.poll()
    pipe.register(place, 0)
    if not any(event & select.POLLERR for _, event in pipe.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)
    return True
