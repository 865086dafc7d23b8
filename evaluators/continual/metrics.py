"""The figures of a trajectory, each with its formula.

``r(t, k)`` is the share of samples that satisfy task t at step k; samples that were not judged
are left out of their cell.

Source: "RECAP: Regression Evaluation for Continual Adaptation of Prompts", App. D. Where it
leaves the way of averaging open, the docstring says what is done here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from evaluators.continual.trajectory import Array, Trajectory, Window, mean_over

__all__ = [
    "EPSILON",
    "METRICS",
    "Metric",
    "average",
    "backward_transfer",
    "collateral_damage",
    "edit_switch",
    "edit_switch_immediate",
    "fidelity",
    "final_satisfaction",
    "initial_satisfaction",
    "mean_satisfaction",
    "peak_forgetting",
    "satisfaction_by_step",
    "satisfaction_by_task",
    "unlearning_immediate",
    "unlearning_rebound",
    "unlearning_sustained",
]

EPSILON = 0.05
"""Least distance that unlearning is measured against."""


def mean_satisfaction(run: Trajectory) -> float:
    """Mean over steps k of the mean over active tasks t of ``r(t, k)``; in [0, 1]."""
    return average(mean_over(run.rates, axis=0))


def peak_forgetting(run: Trajectory) -> float:
    """Mean of ``f(t, k) = max(0, max_{j<k} r(t, j) − r(t, k))``; in [0, 1], lower is better.

    Over all tasks and steps at which the task is active and was so before. A task whose version
    was edited keeps its peak, as in the paper: a harder version can look like forgetting.
    """
    drops: list[float] = []
    for row in run.rates:
        peak = math.nan
        for rate in row:
            if math.isnan(rate):
                continue
            if not math.isnan(peak):
                drops.append(max(0.0, peak - rate))
            peak = rate if math.isnan(peak) else max(peak, rate)
    return average(drops)


def collateral_damage(run: Trajectory) -> float:
    """Mean over steps of ``1/|R_k| Σ_{t ∈ R_k} max(0, r(t, k−1) − r(t, k))``; lower is better.

    ``R_k`` are the tasks active at both steps save those that step k added, edited or deleted.
    Steps without any such task, and without an event, are left out.
    """
    per_step: list[float] = []
    for place in range(1, len(run.steps)):
        targets = {event.task for event in run.events if event.step == run.steps[place]}
        if not targets:
            continue
        others = [i for i, task in enumerate(run.tasks) if task not in targets]
        drops = run.rates[others, place - 1] - run.rates[others, place]
        drops = drops[~np.isnan(drops)]
        if len(drops):
            per_step.append(float(np.maximum(drops, 0.0).mean()))
    return average(per_step)


def edit_switch(run: Trajectory) -> float:
    """``Adapted / (Both + Stale + Adapted)``, averaged over edits; in [0, 1], higher is better.

    Adapted: the new version is satisfied and the old is not; Stale: the old and not the new;
    Both: both. Counted over all steps in which the edited version is in force. An edit whose
    versions allow each other (under 200 words, then under 120) can never switch fully.
    """
    return average(_switch(window, len(window.old)) for window in run.edits)


def edit_switch_immediate(run: Trajectory) -> float:
    """:func:`edit_switch` counted at the step of the edit alone."""
    return average(_switch(window, 1) for window in run.edits)


def fidelity(before: float, after: float, default: float) -> float:
    """``1 − |after − default| / max(|before − default|, 0.05)``, clamped to [0, 1].

    Args:
        before: Rate of the deleted task at the step before its deletion.
        after: Its rate afterwards, when nobody asks for it.
        default: Its rate when nothing was ever asked for.

    Returns:
        1 where satisfaction is back at its default, 0 where nothing was unlearned; NaN where a
        rate is not known.

    >>> round(fidelity(0.9, 0.3, 0.1), 3)
    0.75
    """
    if any(math.isnan(rate) for rate in (before, after, default)):
        return math.nan
    return min(1.0, max(0.0, 1 - abs(after - default) / max(abs(before - default), EPSILON)))


def unlearning_immediate(run: Trajectory) -> float:
    """:func:`fidelity` at the step of the deletion, averaged over deletions."""
    return average(next(iter(_fidelities(window)), math.nan) for window in run.deletions)


def unlearning_sustained(run: Trajectory) -> float:
    """Mean :func:`fidelity` from the deletion to the end (or until the task comes back).

    Averaged over deletions. This is the variant that RECAP reports.
    """
    return average(average(_fidelities(window)) for window in run.deletions)


def unlearning_rebound(run: Trajectory) -> float:
    """How far :func:`fidelity` falls again after the deletion: at once, minus the least later.

    In [0, 1], lower is better; averaged over deletions with a later step.
    """
    drops = []
    for window in run.deletions:
        found = [value for value in _fidelities(window) if not math.isnan(value)]
        if len(found) > 1:
            drops.append(max(0.0, found[0] - min(found[1:])))
    return average(drops)


def initial_satisfaction(run: Trajectory) -> float:
    """Mean over tasks of ``r(t, k)`` at the task's first step: forward transfer."""
    return average(_known(row)[0] for row in run.rates if len(_known(row)))


def final_satisfaction(run: Trajectory) -> float:
    """Mean over the tasks active at the last step of ``r(t, K)``."""
    return average(run.rates[:, -1])


def backward_transfer(run: Trajectory) -> float:
    """Mean of ``r(t, K) − r(t, first step of t)`` over tasks active at the last step K.

    In [−1, 1]; tasks that only came with the last step are left out.
    """
    changes = []
    for row in run.rates:
        known = _known(row)
        if len(known) > 1 and not math.isnan(row[-1]):
            changes.append(float(row[-1] - known[0]))
    return average(changes)


def satisfaction_by_task(run: Trajectory) -> dict[str, float]:
    """Mean over the steps at which a task is active of ``r(t, k)``, by task."""
    return {task: average(row) for task, row in zip(run.tasks, run.rates, strict=True)}


def satisfaction_by_step(run: Trajectory) -> dict[int, float]:
    """Mean over active tasks of ``r(t, k)``, by step."""
    means = mean_over(run.rates, axis=0)
    return {step: float(mean) for step, mean in zip(run.steps, means, strict=True)}


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a trajectory.

    Attributes:
        name: Short, for tables and JSON.
        title: For people.
        compute: From a trajectory to the figure; NaN where there is none.
        higher: True when more is better.
        least, most: Ends of its range, where it has any: an interval does not reach beyond.
    """

    name: str
    title: str
    compute: Callable[[Trajectory], float]
    higher: bool = True
    least: float = -math.inf
    most: float = math.inf


METRICS: tuple[Metric, ...] = (
    Metric("sat", "Mean satisfaction", mean_satisfaction, True, 0.0, 1.0),
    Metric("forgetting", "Peak forgetting", peak_forgetting, False, 0.0, 1.0),
    Metric("collateral", "Collateral damage", collateral_damage, False, 0.0, 1.0),
    Metric("switch", "Edit switch", edit_switch, True, 0.0, 1.0),
    Metric("switch_at_once", "Edit switch at once", edit_switch_immediate, True, 0.0, 1.0),
    Metric("unlearning", "Unlearning fidelity", unlearning_sustained, True, 0.0, 1.0),
    Metric("unlearning_at_once", "Unlearning at once", unlearning_immediate, True, 0.0, 1.0),
    Metric("rebound", "Unlearning rebound", unlearning_rebound, False, 0.0, 1.0),
    Metric("initial", "Initial", initial_satisfaction, True, 0.0, 1.0),
    Metric("final", "Final", final_satisfaction, True, 0.0, 1.0),
    Metric("bwt", "Backward transfer", backward_transfer, True, -1.0, 1.0),
)
"""All figures of App. D, in the order of the paper's tables."""


def average(values: Iterable[float]) -> float:
    """Return the mean of what is not NaN; NaN where nothing is left.

    >>> average([1.0, float("nan"), 0.0])
    0.5
    """
    known = [float(value) for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _switch(window: Window, steps: int) -> float:
    old, new = window.old[:steps].ravel(), window.new[:steps].ravel()
    judged = ~(np.isnan(old) | np.isnan(new))
    was, now = old[judged] >= 0.5, new[judged] >= 0.5
    some = int((was | now).sum())
    return float((now & ~was).sum()) / some if some else math.nan


def _fidelities(window: Window) -> list[float]:
    before, default = average(window.before), average(window.default)
    return [fidelity(before, average(row), default) for row in window.old]


def _known(row: Array) -> Array:
    return row[~np.isnan(row)]
