"""Doing what ``drpg compare`` is asked for."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli import names
from drpg_dspy.cli.app import Stopped, wrong, wrong_if
from drpg_dspy.cli.chatter import OPTIMIZERS, quiet
from drpg_dspy.cli.layout import columns as aligned
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.learners import make_lm, prepare
from drpg_dspy.cli.settings import DEFAULTS, budget_from, config_from
from drpg_dspy.comparing import Comparison, columns_from
from drpg_dspy.comparing import compare as run_comparison
from drpg_dspy.streaming import Budget

__all__ = ["compare_and_report"]


def compare_and_report(options: Mapping[str, Any], *, as_json: bool) -> None:
    """Do what ``drpg compare`` does with its options by name."""
    budget: dict[str, Any] = dict(budget_from(options))
    if not budget:
        raise wrong("--budget-calls", "Say what learning may spend: calls, tokens or dollars.")
    named = [name.strip() for name in options["optimizers"].split(",") if name.strip()]
    with wrong_if("--optimizers", ValueError, ImportError):
        optimizers = [_optimizer(name) for name in named]
        columns_from(optimizers)
    train, test = options["train"], options["test"]
    config = config_from(
        {
            **DEFAULTS,
            **{name: options[name] for name in DEFAULTS if name in options},
            "benchmark": options["benchmark"],
            "optimizer": "zero_shot",
            "k": None,
            "lm": options["lm"],
            "policy_lm": None,
            "compare": options["scoring"],
            "limit": train + test,
            "experiment": options["experiment"] or f"drpg-compare-{_slug(options['benchmark'])}",
        }
    )
    with quiet(OPTIMIZERS), closing(prepare(config)) as stream:
        found = len(stream.examples)
        if found < train + test:
            raise wrong("--test", f"There are {found} questions, fewer than {train} + {test}.")
        writer = options["policy_lm"]
        prompt_lm = make_lm(writer, config.extra, "--policy-lm") if writer else None
        # Evaluation bars of DSPy's go to stdout, which is for results.
        with redirect_stdout(sys.stderr), wrong_if("--out", ValueError):
            comparison = run_comparison(
                stream.benchmark.program(),
                stream.examples[:train],
                stream.examples[train:],
                stream.metric,
                budget=Budget(**budget),
                optimizers=optimizers,
                lm=stream.lm,
                prompt_lm=prompt_lm,
                seeds=options["seeds"],
                folder=options["out"] or _folder(options),
                experiment=config.extra["experiment"] if config.extra["mlflow"] else "",
                tracking_uri=options["tracking_uri"],
                k=options["k"] or stream.benchmark.k,
                key=stream.benchmark.key,
                embedder=stream.embedder,
                threads=options["threads"],
                title=f"{stream.benchmark.title}: optimizers at equal budget",
                say=lambda line: click.echo(line, err=True),
            )
    _report(comparison, as_json)


def _optimizer(name: str) -> Any:
    """Return what a user named: the name itself, or with one's own classes, these."""
    if ":" not in name:
        return name
    parts = [
        names.optimizer_class(part, "--optimizers") if ":" in part else part
        for part in name.split("+")
    ]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _report(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        emit_json(comparison.as_dict())
    elif comparison.results:
        header, *rows = comparison.rows()
        click.echo(aligned(rows, header))
        for note in comparison.notes():
            click.echo(f"  {note}")
        if comparison.folder is not None:
            click.echo(comparison.folder / "index.html")
    if comparison.failed:
        unfinished = ", ".join(comparison.failed)
        raise Stopped(
            f"Not finished: {unfinished}. Once what failed is mended, the same command goes on "
            f"with {'it' if len(comparison.failed) == 1 else 'them'}.\n"
            + "\n".join(f"{name}: {why}" for name, why in comparison.failed.items())
        )


def _folder(options: Mapping[str, Any]) -> Path:
    lm = str(options["lm"]).rsplit("/", 1)[-1]
    return Path(".drpg") / "compare" / f"{_slug(options['benchmark'])}-{_slug(lm)}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
