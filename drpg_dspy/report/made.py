"""How runs were made: what a reader needs to repeat them, or to see what a score means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drpg_dspy.report.entries import Entry
from drpg_dspy.report.labels import arguments
from drpg_dspy.report.reading import RunData
from drpg_dspy.report.tables import MISSING, Cell, Table, count
from drpg_dspy.streaming import RunConfig

__all__ = ["scoring", "scorings", "settings_table"]


def scoring(run: RunData) -> str:
    """Return by what a run was scored: the scoring's name, and its version where it is on record.

    Where a benchmark has one scoring alone, its judge stands in for the name.
    """
    name = run.config.compare or _judge(run.settings.get("judge"))
    version = run.config.versions.get("scoring")
    return f"{name} (version {version})" if version else name


def scorings(entries: Sequence[Entry]) -> str:
    """Return the scoring of each benchmark, as one sentence."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        names = found.setdefault(entry.outcome.benchmark, [])
        if (name := scoring(entry.run)) not in names:
            names.append(name)
    said = "; ".join(f"{benchmark} {', '.join(names)}" for benchmark, names in found.items())
    return f"Scoring: {said}."


def settings_table(entries: Sequence[Entry]) -> Table:
    """Return a row for each run: scoring, embedder, data, order, and the method's arguments."""
    columns = (
        "benchmark", "model", "method", "run", "scoring", "embedder", "arguments", "data", "seed",
        "limit", "delay", "temperature", "max tokens", "drpg-dspy",
    )  # fmt: skip
    rows: list[list[Cell | str]] = []
    for entry in entries:
        config, outcome = entry.run.config, entry.outcome
        rows.append(
            [
                outcome.benchmark,
                outcome.lm,
                outcome.method,
                entry.run.name,
                scoring(entry.run),
                config.embedder or MISSING,
                _pairs(arguments(config)) or MISSING,
                _data(config),
                MISSING if config.seed is None else count(config.seed),
                "all" if config.limit is None else count(config.limit),
                count(config.delay),
                _plain(config.extra.get("temperature")),
                _plain(config.extra.get("max_tokens")),
                config.versions.get("drpg-dspy", MISSING),
            ]
        )
    notes = (
        "Scoring: repaired is this library's form of the benchmark's metric, faithful that of the "
        "released code. Data: the split, databases left out, and arguments of the loader; – is "
        "the benchmark's default. Limit: the first so many questions of the order that the seed "
        "gives. Delay: steps until a verdict comes. Arguments: what the method was given; the "
        "others have their defaults.",
    )
    title = "How the runs were made"
    return Table.of("settings", title, columns, rows, notes=notes, heads=8, group=2)


def _data(config: RunConfig) -> str:
    without = [f"without {database}" for database in config.exclude_db]
    split = [f"split {config.extra['split']}"] if config.extra.get("split") else []
    load = _pairs(config.extra.get("load") or {})
    return ", ".join([*split, *without, *([load] if load else [])]) or MISSING


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in values.items())


def _plain(value: Any) -> str:
    if value is None:
        return MISSING
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _judge(identity: Any) -> str:
    """Return the last part of a judge's dotted name, which may have a version behind it."""
    if isinstance(identity, Mapping):
        identity = identity.get("class")
    if not isinstance(identity, str) or not identity:
        return MISSING
    name, space, version = identity.partition(" ")
    return f"{name.rpartition('.')[2]}{space}{version}"
