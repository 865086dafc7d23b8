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

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import unknown_name, wrong

__all__ = ["CONFIG", "merged", "read_config"]

_TABLES = {"set": "settings", "load": "load"}
"""From a table of the file to the option of ``drpg run`` that takes ``KEY=VALUE``."""

_NOT_HERE = {"config", "debug", "as_json", "overwrite", "name", *_TABLES.values()}


def read_config(path: Path, command: click.Command) -> dict[str, Any]:
    """Read a file of settings.

    Args:
        path: The file.
        command: ``drpg run``: whose options may be in it.

    Returns:
        Values by the names that the command's parameters have.

    Raises:
        click.BadParameter: It cannot be read, or a key or table is unknown.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise wrong("--config", f"{path} cannot be read as TOML: {error}.") from error
    known = {str(param.name) for param in command.params} - _NOT_HERE
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in _TABLES:
            values[_TABLES[key]] = _pairs(path, key, value)
        elif key in known:
            values[key] = value
        else:
            why = unknown_name("setting", key, sorted({*known, *_TABLES}))
            raise wrong("--config", f"{path}: {why}")
    return values


def merged(given: tuple[str, ...], filed: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``KEY=VALUE`` settings of a file with those of the command line over them.

    >>> merged(("k=2",), ("k=1", "writer=case"))
    ('writer=case', 'k=2')
    """
    anew = {pair.partition("=")[0] for pair in given}
    return (*(pair for pair in filed if pair.partition("=")[0] not in anew), *given)


def _pairs(path: Path, table: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, Mapping):
        raise wrong("--config", f"{path}: [{table}] must be a table of names and values.")
    return tuple(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
    )


def _take(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx.command)}


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
