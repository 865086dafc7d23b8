"""How sure one may be of a figure: bootstrap intervals over samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluators.continual.metrics import METRICS, Metric, average
from evaluators.continual.trajectory import Trajectory

__all__ = ["Interval", "intervals"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its bootstrap interval.

    Attributes:
        value: The figure over all samples; NaN where it is not defined.
        low, high: The interval's ends; NaN where no draw has the figure.
    """

    value: float
    low: float
    high: float


def intervals(
    runs: Sequence[Trajectory],
    baseline: Sequence[Trajectory] | None = None,
    *,
    metrics: Sequence[Metric] = (),
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return figures with intervals over samples, by the metrics' names.

    Samples are drawn anew within each run, whole trajectories at a time, because a sample's
    verdicts hang together over steps and tasks. Several runs (seeds) are averaged.

    The intervals are percentiles of the draws less their bias, that is, how far their mean lies
    from the figure (Efron and Tibshirani 1993, ch. 10): a maximum over steps, as in peak
    forgetting, is larger over drawn samples than over the samples themselves, and plain
    percentiles may leave the figure itself out. For a mean there is no bias to speak of.

    Args:
        runs: The runs of one method.
        baseline: Runs of another method on the same samples, in the same order: the figures are
            then differences to it, with the same samples drawn on both sides.
        metrics: By default :data:`METRICS`.
        confidence: Level of the intervals, in (0, 1).
        resamples: Draws.
        seed: Of the draws.

    Raises:
        ValueError: No run, or the baseline's runs are others or have other samples.
    """
    pairs = _pairs(runs, baseline)
    wanted = metrics or METRICS

    def figures(draws: Sequence[np.ndarray[Any, Any] | None]) -> list[float]:
        table = []
        for (run, other), draw in zip(pairs, draws, strict=True):
            ours = run if draw is None else run.with_samples(draw)
            values = [metric.compute(ours) for metric in wanted]
            if other is not None:
                theirs = other if draw is None else other.with_samples(draw)
                values = [v - m.compute(theirs) for v, m in zip(values, wanted, strict=True)]
            table.append(values)
        return [average(column) for column in zip(*table, strict=True)]

    rng = np.random.default_rng(seed)
    drawn = np.array(
        [
            figures([rng.integers(0, len(run.samples), len(run.samples)) for run in runs])
            for _ in range(resamples)
        ]
    )
    found = {}
    for metric, value, column in zip(wanted, figures([None] * len(runs)), drawn.T, strict=True):
        range_ = (-math.inf, math.inf) if baseline is not None else (metric.least, metric.most)
        found[metric.name] = _around(value, column[~np.isnan(column)], confidence, range_)
    return found


def _around(
    value: float, drawn: np.ndarray[Any, Any], confidence: float, limits: tuple[float, float]
) -> Interval:
    if math.isnan(value) or not len(drawn):
        return Interval(value, math.nan, math.nan)
    tail = (1 - confidence) / 2
    bias = float(drawn.mean()) - value
    low, high = np.clip(np.quantile(drawn, [tail, 1 - tail]) - bias, *limits)
    return Interval(value, float(low), float(high))


def _pairs(
    runs: Sequence[Trajectory], baseline: Sequence[Trajectory] | None
) -> list[tuple[Trajectory, Trajectory | None]]:
    if not runs:
        raise ValueError("intervals needs at least one trajectory, got none.")
    if baseline is None:
        return [(run, None) for run in runs]
    same = len(baseline) == len(runs) and all(
        run.samples == other.samples for run, other in zip(runs, baseline, strict=True)
    )
    if not same:
        raise ValueError("A paired interval needs runs over the same samples; these differ.")
    return list(zip(runs, baseline, strict=True))
