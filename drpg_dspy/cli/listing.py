"""``drpg list``: what there is to run, and what was run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.layout import emit_json, heading
from drpg_dspy.exceptions import BenchmarkDataMissing

if TYPE_CHECKING:
    from drpg_dspy.types import Benchmark

__all__ = ["list_command"]

_KINDS = ("benchmarks", "optimizers", "runs")


@click.command("list", cls=Command)
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or one for each kind.")
def list_command(kind: str | None, as_json: bool) -> None:
    """List benchmarks, optimizers and the runs of this folder; all three by default.

    Of a benchmark it says whether its data is where it is looked for, of a run how it stands.

    \b
    Example:
      drpg list
      drpg list runs --json

    Next: drpg run BENCHMARK --optimizer OPTIMIZER, or drpg show RUN.
    """
    kinds = (kind,) if kind else _KINDS
    entries = {name: list(_ENTRIES[name]()) for name in kinds}
    if as_json:
        emit_json(entries[kind] if kind else entries)
        return
    parts = []
    for name, rows in entries.items():
        body = "\n".join(line for row in rows for line in _LINES[name](row))
        parts.append(f"{heading(name)}\n{body or '  none yet'}")
    click.echo("\n\n".join(parts))


def _benchmark_lines(row: dict[str, Any]) -> Iterator[str]:
    scorings = f" ({row['scorings']})" if row["scorings"] else ""
    yield f"  {row['name']}: {row['title']}"
    yield f"      {row['metric']}{scorings}, k = {row['k']}"
    yield f"      paper: {row['paper']}; licence: {row['licence']}"
    yield f"      data: {row['status']}"
    if row["note"]:
        yield f"      note: {row['note']}"


def _optimizer_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"  {row['name']}: {row['paper']}"
    if row["arguments"]:
        yield f"      --set: {row['arguments']}"
    if row["policy_lm"]:
        yield "      --policy-lm SPEC: another LM for its own calls"
    if row["writes_policies"]:
        yield "      writes policies: --holdout SHARE guards them"


def _run_lines(row: dict[str, Any]) -> Iterator[str]:
    if row["optimizer"] is None:
        yield f"  {row['name']}"
    else:
        guarded = "" if row["holdout"] is None else f" (holdout {row['holdout']:g})"
        yield f"  {row['name']}: {row['optimizer']}{guarded} on {row['benchmark']}, {row['lm']}"
    yield f"      {row['status']}"


def _benchmarks() -> Iterator[dict[str, Any]]:
    from drpg_dspy.cli import names

    for name in names.benchmark_names():
        found = names.benchmark(name)
        yield {
            "name": found.name,
            "title": found.title,
            "metric": found.metric,
            "scorings": ", ".join(found.compares),
            "k": found.k,
            "paper": found.paper,
            "licence": found.licence,
            "status": _status(found),
            "note": found.note,
        }


def _status(found: Benchmark) -> str:
    """Say whether a benchmark's data is here, by reading it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            n = len(found.load(None))
        except BenchmarkDataMissing as error:
            return f"missing. {error}"
        except ValueError as error:
            return f"damaged: {error}"
        except OSError as error:
            return f"cannot be read: {error}"
    notes = [str(note.message) for note in said if issubclass(note.category, UserWarning)]
    return "; ".join([f"{n:,} questions are here", *notes])


def _optimizers() -> Iterator[dict[str, Any]]:
    import inspect

    from drpg_dspy.cli import names

    for name, cls in names.optimizer_classes().items():
        arguments = list(inspect.signature(cls).parameters)
        yield {
            "name": name,
            "paper": cls.paper,
            "arguments": ", ".join(name for name in arguments if name != "policy_lm"),
            "policy_lm": "policy_lm" in arguments,
            "writes_policies": cls.writes_policies,
        }


def _runs() -> Iterator[dict[str, Any]]:
    from drpg_dspy.streaming import damaged_runs, list_runs

    for run in list_runs():
        yield {
            "name": run.name,
            "status": run.status,
            "benchmark": run.config.benchmark,
            "optimizer": run.config.optimizer,
            "holdout": run.config.extra.get("holdout"),
            "lm": run.config.lm,
        }
    unknown = dict.fromkeys(("benchmark", "optimizer", "holdout", "lm"))
    for name, why in damaged_runs().items():
        yield {"name": name, "status": f"damaged: {why}", **unknown}


_ENTRIES: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "benchmarks": _benchmarks,
    "optimizers": _optimizers,
    "runs": _runs,
}

_LINES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "benchmarks": _benchmark_lines,
    "optimizers": _optimizer_lines,
    "runs": _run_lines,
}
