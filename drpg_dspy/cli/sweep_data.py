"""Whether the data of a sweep's cells is here, found out without running any."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from drpg_dspy.cli.app import explained
from drpg_dspy.cli.learners import check_data
from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.streaming import RunConfig

__all__ = ["missing_data"]


def missing_data(configs: Iterable[RunConfig]) -> list[str]:
    """Say for each setting what is missing of its data; ``""`` = nothing.

    Cells that ask for the same data are looked at once.
    """
    known: dict[str, str] = {}
    found = []
    for config in configs:
        wanted = json.dumps(_wanted(config), sort_keys=True, default=str)
        if wanted not in known:
            known[wanted] = _missing(config)
        found.append(known[wanted])
    return found


def _wanted(config: RunConfig) -> list[object]:
    parts = [config.extra.get("split"), config.extra.get("load")]
    return [config.benchmark, config.data, config.compare, config.exclude_db, *parts]


def _missing(config: RunConfig) -> str:
    try:
        check_data(config)
    except click.ClickException as error:
        return error.message
    except BenchmarkDataMissing as error:
        return str(error)
    except ValueError as error:
        if not explained(error):
            raise
        return str(error)
    return ""
