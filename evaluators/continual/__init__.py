"""Continual-learning metrics over any stream in which tasks come, change and go.

A *task* is whatever is watched over time: a constraint type (RECAP), a question category, a
database. At each *step* some tasks are active, and each of them was tried on the same *samples*.
``r(t, k)`` is the share of samples that satisfy task t at step k; samples that were not judged
are left out of their cell.

Source: "RECAP: Regression Evaluation for Continual Adaptation of Prompts", App. D. Where it
leaves the way of averaging open, the docstring says what is done here.

    >>> stream = [Outcome(0, "A", "x", 1.0), Outcome(1, "A", "x", 0.5), Outcome(1, "B", "x", 1.0)]
    >>> seen = Trajectory.of(stream, [Event(0, "add", "A"), Event(1, "add", "B")])
    >>> mean_satisfaction(seen), peak_forgetting(seen), collateral_damage(seen)
    (0.875, 0.5, 0.5)
"""

from __future__ import annotations

from evaluators.continual.bootstrap import Interval, intervals
from evaluators.continual.metrics import (
    EPSILON,
    METRICS,
    Metric,
    average,
    backward_transfer,
    collateral_damage,
    edit_switch,
    edit_switch_immediate,
    fidelity,
    final_satisfaction,
    initial_satisfaction,
    mean_satisfaction,
    peak_forgetting,
    satisfaction_by_step,
    satisfaction_by_task,
    unlearning_immediate,
    unlearning_rebound,
    unlearning_sustained,
)
from evaluators.continual.trajectory import Event, Outcome, Trajectory

__all__ = [
    "EPSILON",
    "METRICS",
    "Event",
    "Interval",
    "Metric",
    "Outcome",
    "Trajectory",
    "average",
    "backward_transfer",
    "collateral_damage",
    "edit_switch",
    "edit_switch_immediate",
    "fidelity",
    "final_satisfaction",
    "initial_satisfaction",
    "intervals",
    "mean_satisfaction",
    "peak_forgetting",
    "satisfaction_by_step",
    "satisfaction_by_task",
    "unlearning_immediate",
    "unlearning_rebound",
    "unlearning_sustained",
]
