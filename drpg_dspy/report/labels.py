"""How a report calls benchmarks, models and methods, shortly and without confusion."""

from __future__ import annotations

import inspect
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drpg_dspy.optimizers.naming import optimizer_classes
from drpg_dspy.report.reading import RunData
from drpg_dspy.streaming import RunConfig

__all__ = ["arguments", "benchmark_names", "method_names", "short_names"]

_LONGEST = 40

_AROUND = ("holdout", "gate", "constraints", "repair")
"""What may stand around a method, by its name in a run's settings."""


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


def method_names(runs: Sequence[RunData], ks: Mapping[str, int] | None = None) -> list[str]:
    """Return a name for each run's method: no two of one benchmark and model share one.

    The optimizer's name alone where a run has the defaults of its benchmark. Where the settings
    of an optimizer vary between its runs on one benchmark, a run that deviates from the defaults
    is named with those in which it does. Runs that are the same even so have their own names
    behind.

    Args:
        runs: Those that are compared.
        ks: The default k of each benchmark, by its name in the runs' settings; where it is not
            known, the k that most of the benchmark's runs have.
    """
    usual = {**_commonest_k(runs), **(ks or {})}
    varying = _varying(runs)
    names = [_with_settings(run.config, varying[run.config.optimizer], usual) for run in runs]
    cells = Counter(zip(names, map(_cell, runs), strict=True))
    return [
        name if cells[name, _cell(run)] == 1 else f"{name} [{run.name}]"
        for name, run in zip(names, runs, strict=True)
    ]


def arguments(config: RunConfig) -> dict[str, Any]:
    """Return what a run's method was given beside the model that answers: its own settings."""
    writer = config.policy_lm if config.policy_lm != config.lm else None
    values = {
        **config.options,
        "policy_lm": writer.rsplit("/", 1)[-1] if writer else None,
        **{name: config.extra.get(name) for name in _AROUND},
    }
    return {name: value for name, value in values.items() if value is not None}


def _where_unique(short: Mapping[str, str]) -> dict[str, str]:
    count = Counter(short.values())
    return {name: part if part and count[part] == 1 else name for name, part in short.items()}


def _commonest_k(runs: Sequence[RunData]) -> dict[str, int]:
    """Return by benchmark the k of most runs; of a benchmark without a majority nothing."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for run in runs:
        if isinstance(k := run.config.options.get("k"), int):
            found[run.config.benchmark][k] += 1
    first = {benchmark: counts.most_common(2) for benchmark, counts in found.items()}
    return {
        benchmark: ranked[0][0]
        for benchmark, ranked in first.items()
        if len(ranked) == 1 or ranked[0][1] > ranked[1][1]
    }


def _varying(runs: Sequence[RunData]) -> Mapping[str, list[str]]:
    """Return by optimizer the settings that differ between its runs on one benchmark.

    What belongs to the model rather than to the method may differ from model to model.
    """
    cells: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        config = run.config
        cells[config.optimizer, config.benchmark].append(_of_the_method(config))
        cells[config.optimizer, *_cell(run)].append(_of_the_model(config))
    varying: dict[str, list[str]] = defaultdict(list)
    for (optimizer, *_), alternatives in cells.items():
        for name in sorted({name for settings in alternatives for name in settings}):
            values = {_clipped(settings.get(name)) for settings in alternatives}
            if len(values) > 1 and name not in varying[optimizer]:
                varying[optimizer].append(name)
    return varying


def _with_settings(config: RunConfig, names: Sequence[str], ks: Mapping[str, int]) -> str:
    settings = {**_of_the_method(config), **_of_the_model(config)}
    if settings.get("k") == ks.get(config.benchmark):
        settings.pop("k", None)
    shown = [*names, *({"holdout"} - set(names))]  # another method, also where it is the only one
    given = [f"{name}={_clipped(settings[name])}" for name in shown if name in settings]
    return f"{config.optimizer} ({', '.join(given)})" if given else config.optimizer


def _of_the_method(config: RunConfig) -> dict[str, Any]:
    """Return its arguments without those that say what is so anyhow."""
    method = optimizer_classes().get(config.optimizer)
    parameters = inspect.signature(method).parameters if method is not None else {}
    usual = {name: parameter.default for name, parameter in parameters.items() if name != "k"}
    own = {**arguments(config), "delay": config.delay or None}
    return {
        name: value
        for name, value in own.items()
        if value is not None and not (name in usual and usual[name] == value)
    }


def _of_the_model(config: RunConfig) -> dict[str, Any]:
    values = {
        "embedder": config.embedder,
        "temperature": config.extra.get("temperature"),
        "max_tokens": config.extra.get("max_tokens"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _clipped(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cell(run: RunData) -> tuple[str, str]:
    return run.config.benchmark, str(run.config.lm)
