"""The settings of a run, from the options of ``drpg run``."""

from __future__ import annotations

import importlib.util
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli import names
from drpg_dspy.cli.app import wrong, wrong_if
from drpg_dspy.cli.holdouts import check_guard
from drpg_dspy.cli.methods import read_constraints, read_pairs, read_settings
from drpg_dspy.exceptions import missing_extra
from drpg_dspy.streaming import Budget, RunConfig

__all__ = ["DEFAULTS", "LIMITS", "budget_from", "config_from", "default_name", "has_mlflow"]

DEFAULTS: Mapping[str, Any] = {
    "optimizer": "drpg",
    "settings": (),
    "load": (),
    "constraints": (),
    "repair": None,
    "holdout": None,
    "policy_lm": None,
    "k": None,
    "embedder": "default",
    "data": None,
    "split": None,
    "limit": None,
    "seed": 42,
    "delay": 0,
    "compare": None,
    "exclude_db": (),
    "temperature": 0.0,
    "max_tokens": 1024,
    "stop_after_failures": 5,
    "mlflow": None,
    "experiment": None,
    "tracking_uri": None,
}
"""The options of ``drpg run`` that have a default, with the papers' settings."""

LIMITS = {"calls": "lm_calls", "tokens": "tokens", "dollars": "dollars", "minutes": "seconds"}
"""The limits of a :class:`~drpg_dspy.streaming.Budget`, by the options that set them."""


def config_from(options: Mapping[str, Any]) -> RunConfig:
    """Return a run's settings from the options of ``drpg run``."""
    benchmark = names.benchmark(options["benchmark"])
    data = options["data"]
    load = read_pairs("--load", options["load"])
    if options["holdout"] is not None:
        check_guard(options["optimizer"])
    if options.get("gate"):
        check_guard(options["optimizer"], "--gate")
        if options["holdout"] is not None:
            raise wrong("--gate", "Give either --gate or --holdout, and not both.")
    optional = {
        "load": load or None,
        "holdout": options["holdout"],
        "constraints": read_constraints(options.get("constraints", ())) or None,
        "repair": options.get("repair"),
        "gate": options.get("gate"),
        "epochs": options.get("epochs"),
        "threads": options.get("threads"),
    }
    return RunConfig(
        benchmark=options["benchmark"],
        optimizer=options["optimizer"],
        options=read_settings(options["optimizer"], options["settings"], options["k"], benchmark),
        lm=options["lm"],
        policy_lm=options["policy_lm"],
        embedder=options["embedder"],
        data=str(Path(data).absolute()) if data is not None else None,
        limit=options["limit"],
        seed=options["seed"],
        delay=options["delay"],
        compare=names.compare_of(benchmark, options["compare"]),
        exclude_db=tuple(options["exclude_db"]),
        budget=budget_from(options),
        extra={
            "temperature": options["temperature"],
            "max_tokens": options["max_tokens"],
            "split": options["split"],
            "stop_after_failures": options["stop_after_failures"],
            "mlflow": _reports_to_mlflow(options["mlflow"]),
            "experiment": options["experiment"] or f"drpg-{benchmark.name}",
            "tracking_uri": options["tracking_uri"],
            **{name: value for name, value in optional.items() if value is not None},
        },
        versions={
            "drpg-dspy": metadata.version("drpg-dspy"),
            "dspy": metadata.version("dspy"),
            "python": platform.python_version(),
        },
    )


def _reports_to_mlflow(asked: bool | None) -> bool:
    if asked is False or has_mlflow():
        return asked is not False
    if asked:
        raise missing_extra("--mlflow", "mlflow", "mlflow")
    click.echo(
        "MLflow is not installed: the run is reported to a JSONL file. "
        "For curves and prompt versions: pip install 'drpg-dspy[mlflow]'",
        err=True,
    )
    return False


def has_mlflow() -> bool:
    """Tell whether MLflow is installed."""
    return importlib.util.find_spec("mlflow") is not None


def budget_from(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits that were given, by the names of :class:`~drpg_dspy.streaming.Budget`.

    Raises:
        click.BadParameter: One is no limit (``nan``).
    """
    given: dict[str, Any] = {}
    for option, limit in LIMITS.items():
        if (value := options.get(f"budget_{option}")) is not None:
            given[limit] = value * 60 if option == "minutes" else value
            with wrong_if(f"--budget-{option}", ValueError):
                Budget(**{limit: given[limit]})
    return given


def default_name(config: RunConfig) -> str:
    """Return the name of a run that was given none: ``BENCHMARK-OPTIMIZER-LM``."""
    lm = str(config.lm).rsplit("/", 1)[-1]
    parts = (config.benchmark.rsplit(":", 1)[0], config.optimizer, lm)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).strip("-._")[:100]
