"""From the names that users type to the things they stand for, found when a command runs.

The library never imports ``programs``: a benchmark is looked up here, at call time, by its file
name there, or as ``MODULE:ATTRIBUTE`` for a benchmark of one's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drpg_dspy.cli.app import Stopped, unknown_name, wrong
from drpg_dspy.cli.memory_names import not_there
from drpg_dspy.exceptions import DRPGError

if TYPE_CHECKING:
    from drpg_dspy.optimizers import OnlineOptimizer
    from drpg_dspy.types import Benchmark

    Name = click.ParamType[str]
else:
    Name = click.ParamType  # generic for type checkers only, in the older releases we accept

__all__ = [
    "BENCHMARK",
    "MODEL",
    "OPTIMIZER",
    "OUTPUT_FILE",
    "OUTPUT_FOLDER",
    "RUN",
    "benchmark",
    "benchmark_names",
    "compare_of",
    "import_from_here",
    "optimizer_class",
    "optimizer_classes",
    "writer_classes",
]


def benchmark_names() -> list[str]:
    """Return the names of the benchmarks: the modules of the package ``programs``.

    Raises:
        Stopped: The package is not installed.
    """
    if importlib.util.find_spec("programs") is None:
        raise Stopped(
            "The benchmarks (package 'programs') are not installed here. They come with the "
            "distribution: pip install drpg-dspy, or give a benchmark of your own as "
            "MODULE:ATTRIBUTE."
        )
    path = importlib.import_module("programs").__path__
    return sorted(m.name for m in pkgutil.iter_modules(path) if not m.ispkg and m.name[0] != "_")


def benchmark(name: str) -> Benchmark:
    """Return a benchmark by its name in ``programs`` or by ``MODULE:ATTRIBUTE``.

    Raises:
        click.BadParameter: Nothing has that name, or what has it is no benchmark.
    """
    from drpg_dspy.types import Benchmark

    if ":" in name:
        found = import_from_here(name, "BENCHMARK")
    elif name in (known := benchmark_names()):
        found = getattr(importlib.import_module(f"programs.{name}"), "BENCHMARK", None)
    else:
        raise wrong("BENCHMARK", unknown_name("benchmark", name, known))
    if not isinstance(found, Benchmark):
        raise wrong(
            "BENCHMARK",
            f"{name} is no benchmark: expected a drpg_dspy.types.Benchmark, found {found!r}.",
        )
    return found


def compare_of(found: Benchmark, compare: str | None) -> str | None:
    """Check the name of a scoring; without one it is the benchmark's first.

    Raises:
        click.BadParameter: The benchmark has no such scoring.
    """
    if compare is None:
        return found.compares[0] if found.compares else None
    if compare not in found.compares:
        remedy = "" if found.compares else f"{found.name} has one scoring: leave --compare out."
        raise wrong("--compare", unknown_name("scoring", compare, found.compares, remedy))
    return compare


def import_from_here(spec: str, option: str) -> Any:
    """Import ``MODULE:ATTRIBUTE``; modules in the working directory are found as well.

    Args:
        spec: What to import.
        option: Where it was given.

    Raises:
        click.BadParameter: There is no such module or attribute.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise wrong(option, f"Expected MODULE:ATTRIBUTE, got {spec!r}.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise wrong(
            option, f"There is no module {module_name!r} here ({here}) or among the installed ones."
        ) from error
    if not hasattr(module, attribute):
        raise wrong(option, f"The module {module_name!r} has no {attribute!r}.")
    return getattr(module, attribute)


def optimizer_classes() -> dict[str, type[OnlineOptimizer]]:
    """Return the methods by name, in alphabetical order.

    A guard around another method is no method of its own: drpg run --holdout.
    """
    from drpg_dspy.optimizers import naming

    return naming.optimizer_classes()


def optimizer_class(name: str, option: str = "--optimizer") -> type[OnlineOptimizer]:
    """Return a method by its name, or one's own by ``MODULE:CLASS``.

    Args:
        name: What a user typed.
        option: Where it was given.

    Raises:
        click.BadParameter: Nothing has that name, or what has it is no method.
    """
    from drpg_dspy.optimizers import OnlineOptimizer

    if ":" not in name:
        if name not in (known := optimizer_classes()):
            remedy = "One of your own is MODULE:CLASS."
            raise wrong(option, unknown_name("optimizer", name, known, remedy))
        return known[name]
    found = import_from_here(name, option)
    if not inspect.isclass(found) or not issubclass(found, OnlineOptimizer):
        raise wrong(
            option,
            f"{name} is no method: expected a class derived from "
            f"drpg_dspy.optimizers.OnlineOptimizer, found {found!r}.",
        )
    if inspect.isabstract(found):
        lacks = ", ".join(sorted(found.__abstractmethods__))
        raise wrong(option, f"{name} is not finished: it must define {lacks}.")
    if not isinstance(getattr(found, "name", None), str):
        raise wrong(option, f"{name} has no name for reports: give it one, as in name = 'mine'.")
    return found


def writer_classes() -> dict[str, type[Any]]:
    """Return the policy writers by the word before ``Writer``: ``case``, ``set``, …"""
    from drpg_dspy import optimizers

    return {
        name.removesuffix("Writer").lower(): getattr(optimizers, name)
        for name in optimizers.__all__
        if name.endswith("Writer") and name != "PolicyWriter"
    }


class _BenchmarkName(Name):
    """Checks the name; the benchmark itself is loaded by the command."""

    name = "benchmark"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if ":" not in value and value not in (known := benchmark_names()):
            self.fail(unknown_name("benchmark", value, known), param, ctx)
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return _completions(benchmark_names(), incomplete)


class _OptimizerName(Name):
    name = "optimizer"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            optimizer_class(str(value))
        except click.BadParameter as error:
            self.fail(error.message, param, ctx)
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return _completions(list(optimizer_classes()), incomplete)


class _RunName(Name):
    name = "run"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from drpg_dspy.streaming import RunFolder

        try:
            return RunFolder.open(value).name
        except DRPGError as error:
            raise Stopped(f"The run {value!r} is damaged: {error}") from error
        except ValueError:
            raise not_there("NAME", value, only_runs=True) from None

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        from drpg_dspy.streaming import list_runs

        return _completions([run.name for run in list_runs()], incomplete)


class _ModelName(Name):
    name = "model"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from drpg_dspy import weights

        if value not in (known := weights.names()):
            self.fail(unknown_name("model", value, known), param, ctx)
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        from drpg_dspy import weights

        return _completions(weights.names(), incomplete)


class _OutputFile(click.Path):
    """A file to write; whether it can be written is found out before the work begins."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, readable=False)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not os.path.isdir(path.parent):
            self.fail(f"There is no folder {str(path.parent)!r}.", param, ctx)
        if os.path.exists(path) and not os.access(path, os.W_OK):
            self.fail(f"{str(path)!r} may not be written. Name another file.", param, ctx)
        if not os.path.exists(path) and not _writable(path.parent):
            self.fail(_locked(path.parent), param, ctx)
        return path


class _OutputFolder(click.Path):
    """A folder to write into, made where it is missing; found out before the work begins."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, readable=False)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        there = next(folder for folder in (path.absolute(), *path.absolute().parents)
                     if os.path.exists(folder))  # fmt: skip
        if not os.path.isdir(there):
            self.fail(f"{str(there)!r} is a file, no folder.", param, ctx)
        if not _writable(there):
            self.fail(_locked(there), param, ctx)
        return path


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _locked(folder: Path) -> str:
    return (
        f"Nothing may be written into the folder {str(folder)!r}. Give this user the right to it, "
        "or name another folder."
    )


def _completions(names: list[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


BENCHMARK = _BenchmarkName()
MODEL = _ModelName()
OPTIMIZER = _OptimizerName()
OUTPUT_FILE = _OutputFile()
OUTPUT_FOLDER = _OutputFolder()
RUN = _RunName()
