"""A run as the report needs it: settings, status, columns of figures, chosen policies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpg_dspy.analysis.policies import Change, InForce, changes, policies_at
from drpg_dspy.analysis.series import Series, read_series
from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.streaming import RunConfig, RunFolder
from drpg_dspy.streaming.position import is_stream_step
from drpg_dspy.streaming.settings import SETTINGS_KEY

__all__ = ["PolicyView", "RunData", "read_policies", "read_run", "same_until"]


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """One run, read once.

    Attributes:
        folder: Where it is kept.
        name: How the report calls it.
        status: How it stood when it was read, e.g. ``"finished"``.
        settings: What its stream was recognised by (``stream:settings``): examples, data,
            judge, threshold, … Empty for a run that was never begun.
        series: Its steps.
    """

    folder: RunFolder
    name: str
    status: str
    settings: Mapping[str, Any]
    series: Series

    @property
    def config(self) -> RunConfig:
        """What it was started with."""
        return self.folder.config

    @property
    def total(self) -> int:
        """Number of questions in its stream."""
        return int(self.settings.get("examples", len(self.series)))

    @property
    def finished(self) -> bool:
        """True when the stream was met to its end."""
        return self.status == "finished"

    @property
    def settled(self) -> int:
        """Leading steps of which none waits for its verdict."""
        waiting = np.flatnonzero(self.series.waiting)
        return int(waiting[0]) if len(waiting) else len(self.series)


@dataclass(frozen=True, slots=True)
class PolicyView:
    """The policies of a run that a report shows.

    Attributes:
        step: The one that was asked for, or the last one before it.
        in_force: At that step.
        changes: Of the first, best and last version.
        versions: Number of versions by route.
    """

    step: int
    in_force: tuple[InForce, ...]
    changes: tuple[Change, ...]
    versions: Mapping[str, int]


def read_run(folder: RunFolder, name: str) -> RunData:
    """Read a run's figures, also while it is going on.

    Args:
        folder: The run.
        name: How the report calls it.

    Raises:
        StorageError: Its memory is damaged; the message names the run.
    """
    status = folder.status
    if status.startswith("damaged"):
        raise StorageError(
            f"The run {name!r} cannot be read ({status}). Restore it from a copy, or leave it out."
        )
    if not folder.memory_path.exists():
        return RunData(folder, name, status, {}, read_series(()))
    with closing(_open(folder)) as memory:
        settings = json.loads(memory.get_meta(SETTINGS_KEY) or "{}")
        series = read_series(f for f in memory.figures() if is_stream_step(f.id))
    return RunData(folder, name, status, settings, series)


def read_policies(run: RunData, step: int) -> PolicyView:
    """Read a run's policies; those of steps that its figures do not cover are left out.

    Args:
        run: The run, cut to the steps that are shown.
        step: The step whose policies are wanted, from 1.
    """
    if not len(run.series):
        return PolicyView(0, (), (), {})
    last = int(run.series.steps[-1])
    with closing(_open(run.folder)) as memory:
        policies = [policy for policy in memory.policies() if policy.step <= last]
    shown = max(0, int(np.searchsorted(run.series.steps, step, side="right")) - 1)
    return PolicyView(
        step=int(run.series.steps[shown]),
        in_force=tuple(policies_at(policies, run.series, step)),
        changes=tuple(changes(policies, run.series)),
        versions=Counter(policy.route for policy in policies),
    )


def same_until(first: RunData, second: RunData, steps: int) -> int | None:
    """Return the first of so many steps at which two runs were asked different things.

    Returns:
        The step's number; ``None`` when the runs agree.
    """
    asked, asked_too = _inputs(first, steps), _inputs(second, steps)
    for step in range(1, steps + 1):
        if asked.get(step) != asked_too.get(step):
            return step
    return None


def _inputs(run: RunData, steps: int) -> dict[int, int]:
    """Return a hash of each step's inputs."""
    with closing(_open(run.folder)) as memory:
        return {
            step: hash(json.dumps(inputs, sort_keys=True, default=repr))
            for step, inputs in _asked(memory, steps)
        }


def _asked(memory: SQLiteMemory, steps: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for rollout, _ in memory.rollouts():
        if rollout.step > steps:
            return
        if is_stream_step(rollout.id):
            yield rollout.step, rollout.inputs


def _open(folder: RunFolder) -> SQLiteMemory:
    return SQLiteMemory(folder.memory_path, read_only=True, threshold=folder.config.threshold)
