"""What a sweep sets for its cells: ``[BENCHMARK=]VALUE``, for one benchmark or for all."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from drpg_dspy.cli import names
from drpg_dspy.cli.app import unknown_name, wrong

__all__ = ["check_overrides", "overrides_for"]

_LOADED = {"split": "--split", "exclude_db": "--exclude-db"}
"""Arguments of a benchmark's loader that a sweep can set, with their options."""


def overrides_for(benchmark: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loader's arguments that a sweep's options give to a benchmark's cells.

    What names the benchmark wins over what names none; the latter is for those benchmarks whose
    loader takes it.

    Args:
        benchmark: As a file of settings names it.
        options: Of the sweep: ``split`` and ``exclude_db``, each a list of ``[BENCHMARK=]VALUE``.

    Raises:
        click.BadParameter: Two parts are given to one benchmark.
    """
    found: dict[str, Any] = {}
    for name, option in _LOADED.items():
        pairs = [_pair(text) for text in options.get(name) or ()]
        values = [value for whose, value in pairs if whose == benchmark]
        if not values and any(not whose for whose, _ in pairs) and _takes(benchmark, name):
            values = [value for whose, value in pairs if not whose]
        if not values:
            continue
        if name == "split":
            if len(set(values)) > 1:
                raise wrong(option, f"{benchmark} is given several parts: {', '.join(values)}.")
            found[name] = values[0]
        else:
            found[name] = list(dict.fromkeys(values))
    return found


def check_overrides(benchmarks: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse what none of a sweep's benchmarks would get.

    Raises:
        click.BadParameter: Names the option, the benchmark, and those that there are.
    """
    known = sorted(set(benchmarks))
    for name, option in _LOADED.items():
        for whose, value in map(_pair, options.get(name) or ()):
            if whose and whose not in known:
                raise wrong(option, f"In {whose}={value}: {unknown_name('cell of', whose, known)}")
            if not whose and not any(_takes(benchmark, name) for benchmark in known):
                raise wrong(option, f"None of {', '.join(known)} has such parts: {value!r}.")


def _pair(text: str) -> tuple[str, str]:
    """Return the benchmark, ``""`` = all, and the value."""
    whose, equals, value = text.rpartition("=")
    return (whose, value) if equals else ("", text)


def _takes(benchmark: str, argument: str) -> bool:
    parameters = inspect.signature(names.benchmark(benchmark).load).parameters
    return argument in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
