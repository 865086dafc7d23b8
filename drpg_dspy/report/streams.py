"""Only answers to the same questions are compared."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from drpg_dspy.report.reading import RunData, same_until

__all__ = ["common_steps", "cut", "differing", "scored_alike"]

_SCORING = ("compare", "version", "judge", "threshold")
_STREAM = ("examples", "data")
_ORIGIN = ("limit", "seed", "split", "exclude_db")
"""Settings of a run that explain why its stream is another."""


def differing(runs: Sequence[RunData]) -> str:
    """Say in what the runs of one benchmark differ that must be alike.

    Args:
        runs: All of one benchmark.

    Returns:
        A message that names the runs with their differing settings; ``""`` when all met the
        same questions in the same order, scored alike.
    """
    facts = [_facts(run) for run in runs]
    names = [name for name in (*_SCORING, *_STREAM) if _vary(name, facts)]
    if not names:
        return ""
    if set(names) & set(_STREAM):
        names += [name for name in _ORIGIN if _vary(name, facts)]
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for run, fact in zip(runs, facts, strict=True):
        groups[tuple(f"{_SHOWN.get(name, name)} {fact[name]}" for name in names)].append(run.name)
    lines = [f"  {_listed(group)}: {', '.join(values)}" for values, group in groups.items()]
    differ = ", ".join(_SHOWN.get(name, name) for name in names)
    scored = "was scored in different ways" if set(names) <= set(_SCORING) else "differs"
    return (
        f"The stream of {runs[0].config.benchmark} {scored} between these runs, so their results "
        f"cannot be compared. They differ in: {differ}\n" + "\n".join(lines)
    )


def scored_alike(runs: Sequence[RunData]) -> bool:
    """Tell whether runs of one benchmark share scoring, judge and threshold."""
    facts = [_facts(run) for run in runs]
    return not any(_vary(name, facts) for name in _SCORING)


def common_steps(runs: Sequence[RunData]) -> int:
    """Return how many questions all runs of one benchmark have in common, from the first on.

    Args:
        runs: All of one benchmark, at least one.

    Raises:
        ValueError: They were scored differently, a run has no settled step, or the questions
            differ; the message says which runs and where.
    """
    alike = [
        dataclasses.replace(run, settings={**run.settings, "examples": 0, "data": ""})
        for run in runs
    ]
    if message := differing(alike):
        raise ValueError(f"{message}\nNo common part can mend that: leave some of them out.")
    steps = min(run.settled for run in runs)
    if not steps:
        empty = [run.name for run in runs if not run.settled]
        raise ValueError(
            f"The first question of {_listed(empty)} is not judged yet, so there is no common "
            "part. Leave it out, or wait for it."
        )
    streams = {str(run.settings.get("data")): run for run in runs}
    first, *others = streams.values()
    for other in others:
        if (step := same_until(first, other, steps)) is not None:
            raise ValueError(
                f"{first.name} and {other.name} were asked different questions at step {step}, so "
                "they have no longer common part. Runs that can be compared share --seed, "
                "--split and --exclude-db. Leave one of them out."
            )
    return steps


def cut(run: RunData, steps: int) -> RunData:
    """Return a run's first steps, as if its stream ended there."""
    settings = {**run.settings, "examples": steps}
    return dataclasses.replace(run, series=run.series.first(steps), settings=settings)


_SHOWN = {
    "examples": "questions",
    "data": "data fingerprint",
    "compare": "scoring",
    "version": "scoring version",
}


def _facts(run: RunData) -> Mapping[str, Any]:
    config = run.config
    return {
        "compare": config.compare,
        "version": config.versions.get("scoring"),
        "judge": run.settings.get("judge"),
        "threshold": run.settings.get("threshold", config.threshold),
        "examples": run.total,
        "data": run.settings.get("data"),
        "limit": config.limit,
        "seed": config.seed,
        "split": config.extra.get("split"),
        "exclude_db": list(config.exclude_db),
    }


def _vary(name: str, facts: Sequence[Mapping[str, Any]]) -> bool:
    values = {str(fact[name]) for fact in facts}
    if name == "version":
        values.discard("None")  # earlier runs did not write it down
    return len(values) > 1


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
