"""How a report calls benchmarks, models and methods, shortly and without confusion."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drpg_dspy.report.reading import RunData
from drpg_dspy.streaming import RunConfig

__all__ = ["benchmark_names", "method_names", "short_names"]

_LONGEST = 40


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return for each model the part after the last slash, where it tells the model apart.

    >>> short_names(["openai/gpt-4.1-mini", "azure/gpt-4.1-mini", "local/qwen"])
    {'openai/gpt-4.1-mini': 'openai/gpt-4.1-mini', 'azure/gpt-4.1-mini': 'azure/gpt-4.1-mini',
     'local/qwen': 'qwen'}
    """
    return _where_unique({name: name.rsplit("/", 1)[-1] for name in names})


def benchmark_names(names: Iterable[str]) -> dict[str, str]:
    """Return for each benchmark its module where it was given as ``MODULE:ATTRIBUTE``.

    >>> benchmark_names(["spider", "tiny_bench:BENCHMARK"])
    {'spider': 'spider', 'tiny_bench:BENCHMARK': 'tiny_bench'}
    """
    return _where_unique({name: name.partition(":")[0] for name in names})


def method_names(runs: Sequence[RunData]) -> list[str]:
    """Return a name for each run's method: no two of one benchmark and model share one.

    The optimizer's name; with the settings that vary between its runs on one benchmark and
    model, where there are several; and with the run's name where even those are the same.
    """
    varying = _varying(runs)
    names = [_with_settings(run.config, varying[run.config.optimizer]) for run in runs]
    cells = Counter(zip(names, map(_cell, runs), strict=True))
    return [
        name if cells[name, _cell(run)] == 1 else f"{name} [{run.name}]"
        for name, run in zip(names, runs, strict=True)
    ]


def _where_unique(short: Mapping[str, str]) -> dict[str, str]:
    count = Counter(short.values())
    return {name: part if part and count[part] == 1 else name for name, part in short.items()}


def _varying(runs: Sequence[RunData]) -> Mapping[str, list[str]]:
    """Return by optimizer the settings that differ between runs of one benchmark and model."""
    cells: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for run in runs:
        cells[run.config.optimizer, *_cell(run)].append(_settings(run.config))
    varying: dict[str, list[str]] = defaultdict(list)
    for (optimizer, *_), alternatives in cells.items():
        for name in sorted({name for settings in alternatives for name in settings}):
            values = {settings.get(name) for settings in alternatives}
            if len(values) > 1 and name not in varying[optimizer]:
                varying[optimizer].append(name)
    return varying


def _with_settings(config: RunConfig, names: Sequence[str]) -> str:
    settings = _settings(config)
    shown = [*names, *({"holdout"} - set(names))]  # another method, also where it is the only one
    given = [f"{name}={settings[name]}" for name in shown if name in settings]
    return f"{config.optimizer} ({', '.join(given)})" if given else config.optimizer


def _settings(config: RunConfig) -> dict[str, str]:
    """Return the settings that belong to the method; those that were not given are left out."""
    writer = config.policy_lm if config.policy_lm != config.lm else None
    values: dict[str, Any] = {
        **config.options,
        "policy_lm": writer.rsplit("/", 1)[-1] if writer else None,
        "embedder": config.embedder,
        "delay": config.delay or None,
        "holdout": config.extra.get("holdout"),
        "temperature": config.extra.get("temperature"),
        "max_tokens": config.extra.get("max_tokens"),
    }
    return {name: _clipped(value) for name, value in values.items() if value is not None}


def _clipped(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cell(run: RunData) -> tuple[str, str]:
    return run.config.benchmark, str(run.config.lm)
