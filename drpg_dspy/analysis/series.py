"""A run as columns of numbers, one entry a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from drpg_dspy.analysis.statistics import wilson
from drpg_dspy.analysis.summary import ROLLING_WINDOW, standing
from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import StepFigures
from drpg_dspy.types import Usage

__all__ = ["Curve", "Series", "read_series"]

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A share over the steps of a run, with its confidence band.

    Attributes:
        steps: Where it has a value; whole numbers, growing.
        mean, low, high: The share and its 95 % Wilson interval, in [0, 1].
    """

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def thinned(self, most: int) -> Curve:
        """Return at most so many points, the first and the last among them."""
        if len(self.steps) <= most:
            return self
        kept = np.unique(np.linspace(0, len(self.steps) - 1, most).round().astype(int))
        return Curve(self.steps[kept], self.mean[kept], self.low[kept], self.high[kept])


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The steps of a run in order. All arrays have one entry for each step met.

    Attributes:
        steps: The steps' numbers, growing.
        scores: In [0, 1]; NaN where there is none.
        failed: The program raised.
        waiting: No verdict has come yet.
        prompt_tokens, completion_tokens, calls, cost: Of answering, policy writing and learning,
            attempts that failed included.
        policy_prompt_tokens, policy_completion_tokens, policy_calls: The part of these that
            policy writing and learning took.
        seconds: Wall time of the call, attempts that failed included.
        versions: By route: the policy version in force; 0 = none.
        subscores: By name: parts of the score; NaN where a verdict has none.
    """

    steps: np.ndarray
    scores: np.ndarray
    failed: np.ndarray
    waiting: np.ndarray
    prompt_tokens: np.ndarray
    completion_tokens: np.ndarray
    calls: np.ndarray
    cost: np.ndarray
    policy_prompt_tokens: np.ndarray
    policy_completion_tokens: np.ndarray
    policy_calls: np.ndarray
    seconds: np.ndarray
    versions: Columns = field(default_factory=dict)
    subscores: Columns = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def judged(self) -> np.ndarray:
        """True where a step has a score."""
        judged: np.ndarray = ~np.isnan(self.scores)
        return judged

    @property
    def not_judged(self) -> np.ndarray:
        """True where the judge reached no verdict."""
        without: np.ndarray = ~self.judged & ~self.failed & ~self.waiting
        return without

    @property
    def credit(self) -> np.ndarray:
        """What each step adds to the run's score: 0 where it failed or was not judged.

        NaN where the verdict is still to come. Its mean over the rest is
        :attr:`.RunSummary.score`.
        """
        return np.where(self.waiting, np.nan, np.nan_to_num(self.scores, nan=0.0))

    @property
    def score(self) -> float:
        """Mean score over the steps that do not wait, in [0, 1]; NaN when there are none."""
        settled = self.credit[~self.waiting]
        return float(settled.mean()) if len(settled) else math.nan

    def first(self, count: int) -> Series:
        """Return the steps numbered 1 … ``count``."""
        whole("count", count, 0)
        kept = int(np.searchsorted(self.steps, count, side="right"))
        columns = {name: getattr(self, name)[:kept] for name in _COLUMNS}
        return Series(
            **columns,
            versions={route: values[:kept] for route, values in self.versions.items()},
            subscores={name: values[:kept] for name, values in self.subscores.items()},
        )

    def prequential(self) -> Curve:
        """Return the score over all steps so far: each was answered before it was learned from.

        Its last point is :attr:`score`.
        """
        settled = ~self.waiting
        values = self.credit[settled]
        counts = np.arange(1, len(values) + 1)
        return _curve(self.steps[settled], np.cumsum(values) / counts, counts)

    def rolling(self, window: int = ROLLING_WINDOW) -> Curve:
        """Return the mean score of the last ``window`` judged steps.

        The curve begins where the window is full, or with the last judged step of a run that
        never fills it.

        Raises:
            ValueError: The window is smaller than 1.
        """
        whole("window", window, 1)
        steps, values = self.steps[self.judged], self.scores[self.judged]
        size = min(window, len(values))
        if not size:
            nothing = np.array([])
            return Curve(nothing, nothing, nothing, nothing)
        sums = np.concatenate([[0.0], np.cumsum(values)])
        means = np.clip((sums[size:] - sums[:-size]) / size, 0.0, 1.0)
        return _curve(steps[size - 1 :], means, np.full(len(means), size))


_COLUMNS = tuple(f.name for f in fields(Series) if f.name not in ("versions", "subscores"))


def read_series(figures: Iterable[StepFigures]) -> Series:
    """Return a run's columns.

    A step that was tried again after it had failed stands once, as it ended; what all its
    attempts cost is counted.

    Args:
        figures: Of its rollouts, by step (:meth:`.Memory.figures`).
    """
    ended: dict[str, StepFigures] = {}
    spent: dict[str, tuple[Usage, Usage, float]] = {}
    for rollout in figures:
        name = standing(rollout.id)
        answering, policy, seconds = spent.get(name, (Usage(), Usage(), 0.0))
        learning = rollout.feedback.usage if rollout.feedback is not None else Usage()
        ended[name] = rollout
        spent[name] = (
            answering + rollout.answering,
            policy + rollout.writing + learning,
            seconds + rollout.seconds,
        )
    rows = list(ended.values())
    answers = [spent[name][0] for name in ended]
    policies = [spent[name][1] for name in ended]
    totals = [answer + policy for answer, policy in zip(answers, policies, strict=True)]
    verdicts = [None if row.failed else row.feedback for row in rows]
    return Series(
        steps=np.array([row.step for row in rows], dtype=np.int64),
        scores=np.array([math.nan if v is None else v.score for v in verdicts], dtype=float),
        failed=np.array([row.failed for row in rows], dtype=bool),
        waiting=np.array([not row.failed and row.feedback is None for row in rows], dtype=bool),
        prompt_tokens=_column(totals, "prompt_tokens"),
        completion_tokens=_column(totals, "completion_tokens"),
        calls=_column(totals, "calls"),
        cost=_column(totals, "cost"),
        policy_prompt_tokens=_column(policies, "prompt_tokens"),
        policy_completion_tokens=_column(policies, "completion_tokens"),
        policy_calls=_column(policies, "calls"),
        seconds=np.array([spent[name][2] for name in ended], dtype=float),
        versions=_by_name([row.versions for row in rows], 0),
        subscores=_by_name([v.subscores if v is not None else {} for v in verdicts], math.nan),
    )


def _curve(steps: np.ndarray, mean: np.ndarray, counts: np.ndarray) -> Curve:
    low, high = wilson(mean, counts)
    return Curve(steps, mean, low, high)


def _column(usages: list[Usage], name: str) -> np.ndarray:
    return np.array([getattr(usage, name) for usage in usages], dtype=float)


def _by_name(rows: list[Mapping[str, float]], missing: float) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, missing) for row in rows]) for name in names}
