"""A run's settings in a small file: ``drpg run --config FILE``.

The file is TOML. Its keys are the options of ``drpg run`` with underscores; the tables ``set``
and ``load`` hold the method's and the loader's own arguments::

    benchmark = "bird"
    optimizer = "drpg"
    k = 16

    [set]
    contrast = "wrong"

    [load]
    evidence = false
"""

from __future__ import annotations

import datetime as dt
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from drpg_dspy.cli.app import unknown_name, wrong

__all__ = ["CONFIG", "merged", "naming_the_file", "read_config"]

_TABLES = {"set": "settings", "load": "load", "constraints": "constraints"}
"""From a table of the file to the option of ``drpg run`` that takes ``KEY=VALUE``."""

_NOT_HERE = {"config", "debug", "as_json", "overwrite", "name", *_TABLES.values()}


def read_config(path: Path, command: click.Command, option: str = "--config") -> dict[str, Any]:
    """Read a file of settings.

    Args:
        path: The file.
        command: ``drpg run``: whose options may be in it.
        option: Where the file was given.

    Returns:
        Values by the names that the command's parameters have.

    Raises:
        click.BadParameter: It cannot be read, a key or table is unknown, or a value is of the
            wrong kind or out of range. The message names the file and the key.
    """
    try:
        # Windows editors put a byte order mark first, which is no TOML.
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise wrong(option, f"{path} cannot be read as TOML: {error}.") from error
    params = {str(param.name): param for param in command.params}
    known = {name: param for name, param in params.items() if name not in _NOT_HERE}
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            if key in _TABLES:
                values[_TABLES[key]] = _pairs(key, value)
            elif key in known:
                values[key] = _checked(known[key], key, value)
            else:
                raise ValueError(unknown_name("setting", key, sorted({*known, *_TABLES})))
        except ValueError as error:
            raise wrong(option, f"{path}: {error}") from error
    return values


@contextmanager
def naming_the_file(ctx: click.Context) -> Iterator[None]:
    """Let complaints about a value that came from a file of settings name the file as well."""
    try:
        yield
    except click.BadParameter as error:
        if not _from_file(ctx, error.param_hint):
            raise
        hint = [error.param_hint] if isinstance(error.param_hint, str) else error.param_hint
        why = f"{error.message} (It is set in {ctx.meta[_FILE]}.)"
        raise wrong(list(hint or ()), why) from error.__cause__ or error


def merged(given: tuple[str, ...], filed: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``KEY=VALUE`` settings of a file with those of the command line over them.

    >>> merged(("k=2",), ("k=1", "writer=case"))
    ('writer=case', 'k=2')
    """
    anew = {pair.partition("=")[0] for pair in given}
    return (*(pair for pair in filed if pair.partition("=")[0] not in anew), *given)


def _pairs(table: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, Mapping):
        raise ValueError(f"[{table}] must be a table of names and values, got {values!r}.")
    for name, value in values.items():
        if isinstance(value, (dt.date, dt.time)):
            raise ValueError(
                f"{name} in [{table}] must be text, a number, true, false or a list of them, got "
                f"{value!r}."
            )
    return tuple(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
    )


def _checked(param: click.Parameter, key: str, value: Any) -> Any:
    """Return a setting as the command would take it.

    Raises:
        ValueError: It is of another kind, or out of range.
    """
    if getattr(param, "multiple", False):
        if not isinstance(value, list):
            raise ValueError(
                f"{key} must be a list, e.g. {json.dumps([value], default=str)}, got {value!r}."
            )
        return [_one(param, f"each of {key}", item) for item in value]
    return _one(param, key, value)


def _one(param: click.Parameter, key: str, value: Any) -> Any:
    kinds, wanted = _KINDS.get(type(param.type), (str, "text in quotes"))
    truth = isinstance(value, bool)
    if not isinstance(value, kinds) or (truth and kinds is not bool):
        raise ValueError(f"{key} must be {wanted}, got {value!r}.")
    try:
        param.type.convert(value, param, None)
    except click.BadParameter as error:
        raise ValueError(f"{key}: {error.message}") from error
    return value


_NUMBER: tuple[Any, str] = ((int, float), "a number")
_WHOLE: tuple[Any, str] = (int, "a whole number")
_KINDS: Mapping[type, tuple[Any, str]] = {
    type(click.BOOL): (bool, "true or false"),
    type(click.INT): _WHOLE,
    click.IntRange: _WHOLE,
    type(click.FLOAT): _NUMBER,
    click.FloatRange: _NUMBER,
}
"""By the type of an option: what a file may hold for it, and how that is called."""

_FILE = "drpg_dspy.cli.config"


def _take(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx.command)}
        ctx.meta[_FILE] = path


def _from_file(ctx: click.Context, hint: Any) -> bool:
    filed = ctx.default_map or {}
    hints = {hint} if isinstance(hint, str) else set(hint or ())
    for param in ctx.command.params:
        names = {*param.opts, str(param.name).upper()}
        if param.name in filed and names & hints:
            return ctx.get_parameter_source(str(param.name)) is ParameterSource.DEFAULT_MAP
    return False


CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_take,
    help="Settings from a TOML file; what is given beside it wins.",
)
"""The option ``--config``: values of a file become the defaults of the command's options."""
