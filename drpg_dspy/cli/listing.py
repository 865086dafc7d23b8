"""``drpg list``: what there is to run, and what was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from drpg_dspy.cli.app import Command
from drpg_dspy.cli.layout import emit_json, heading

__all__ = ["list_command"]

_KINDS = ("benchmarks", "optimizers", "runs")


@click.command("list", cls=Command)
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or one for each kind.")
def list_command(kind: str | None, as_json: bool) -> None:
    """List benchmarks, optimizers and the runs of this folder; all three by default.

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


def _optimizer_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"  {row['name']}: {row['paper']}"
    if row["arguments"]:
        yield f"      --set: {row['arguments']}"


def _run_lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"  {row['name']}: {row['optimizer']} on {row['benchmark']}, {row['lm']}"
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
        }


def _optimizers() -> Iterator[dict[str, Any]]:
    import inspect

    from drpg_dspy.cli import names

    for name, cls in names.optimizer_classes().items():
        arguments = list(inspect.signature(cls).parameters)
        yield {"name": name, "paper": cls.paper, "arguments": ", ".join(arguments)}


def _runs() -> Iterator[dict[str, Any]]:
    from drpg_dspy.streaming import list_runs

    for run in list_runs():
        yield {
            "name": run.name,
            "status": run.status,
            "benchmark": run.config.benchmark,
            "optimizer": run.config.optimizer,
            "lm": run.config.lm,
        }


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
