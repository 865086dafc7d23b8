"""A benchmark whose complaints about its data name the option that was given wrong."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from drpg_dspy.arguments import takes_no
from drpg_dspy.cli.app import explained, wrong
from drpg_dspy.exceptions import BenchmarkDataMissing

if TYPE_CHECKING:
    from drpg_dspy.types import Benchmark

__all__ = ["checked", "flags", "loader_flags"]


def checked(benchmark: Benchmark) -> Benchmark:
    """Return the benchmark with a ``load`` and an ``evaluator`` that raise wrong usage.

    Data that is not where it was said to be, and parts that the benchmark does not have, become
    a ``click.BadParameter``. Data that is missing in the usual places, and errors that nobody
    explained, stay what they are.
    """

    def load(data: Any = None, **options: Any) -> list[Any]:
        parameters = inspect.signature(benchmark.load).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for option in options:
            if option not in parameters and not takes_any:
                known = [name for name in parameters if name != "data"]  # has its own option
                raise wrong(loader_flags([option]), takes_no(benchmark.name, option, known))
        with _data_is_there(data):
            try:
                return benchmark.load(data, **options)
            except ValueError as error:
                if not options or not explained(error):
                    raise  # not about what was given
                raise wrong(loader_flags(options), error) from error

    def evaluator(data: Any = None, **options: Any) -> Any:
        with _data_is_there(data):
            return benchmark.evaluator(data, **options)

    return dataclasses.replace(benchmark, load=load, evaluator=evaluator)


def flags(options: Iterable[str]) -> list[str]:
    """Return the names of options on the command line.

    >>> flags(["exclude_db"])
    ['--exclude-db']
    """
    return [f"--{option.replace('_', '-')}" for option in options]


def loader_flags(options: Iterable[str]) -> list[str]:
    """Return the options on the command line under which a loader's arguments are given.

    >>> loader_flags(["exclude_db", "evidence"])
    ['--exclude-db', '--load']
    """
    own = {"exclude_db", "split", "limit"}
    named = (flags([option])[0] if option in own else "--load" for option in options)
    return list(dict.fromkeys(named))


@contextmanager
def _data_is_there(data: Any) -> Iterator[None]:
    try:
        yield
    except BenchmarkDataMissing as error:
        if data is None:
            raise
        raise wrong("--data", error) from error
