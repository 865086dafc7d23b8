"""Methods against each other: who was better where, by how much, and how sure one may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from drpg_dspy.analysis.series import Series
from drpg_dspy.analysis.statistics import McNemar, Wilcoxon, mcnemar, mean_interval, wilcoxon

__all__ = ["Comparison", "Outcome", "Record", "Results", "paired"]

Unit = Literal["model–benchmark pair", "model", "question", "question (mean over models)"]

_SAME = 1e-12
"""Scores that are closer are equal: sums of the same numbers in another order."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one method reached on one benchmark with one model.

    Attributes:
        method, benchmark, lm: Names.
        run: Name of the run it comes from.
        series: The run's steps.
        threshold: Scores from here on are correct.
        complete: The whole stream was met. Only complete outcomes are compared.
    """

    method: str
    benchmark: str
    lm: str
    run: str
    series: Series
    threshold: float = 0.5
    complete: bool = True

    @property
    def score(self) -> float:
        """Mean score, in [0, 1]; NaN when there is none."""
        return self.series.score


@dataclass(frozen=True, slots=True)
class Record:
    """How often one method scored higher than another, as high, and lower."""

    wins: int
    ties: int
    losses: int

    @property
    def n(self) -> int:
        """Model–benchmark pairs compared."""
        return self.wins + self.ties + self.losses


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tests of one method against another.

    Attributes:
        first, second: The methods; differences are first minus second.
        benchmark, lm: What was compared; ``""`` = all.
        unit: What one pair is.
        difference: Mean of the pairs' differences in score, in [-1, 1].
        interval: Its 95 % interval by the normal approximation; NaN for fewer than two pairs.
        signed_ranks: Wilcoxon's test.
        sign: McNemar's test; ``None`` where pairs are not right or wrong.
    """

    first: str
    second: str
    benchmark: str
    lm: str
    unit: Unit
    difference: float
    interval: tuple[float, float]
    signed_ranks: Wilcoxon
    sign: McNemar | None


class Results:
    """Outcomes by method, benchmark and model.

    Args:
        outcomes: No two of one method, benchmark and model. Names keep the order in which they
            come first.
        methods: Another order of the methods.

    Raises:
        ValueError: Two share method, benchmark and model.
    """

    def __init__(self, outcomes: Iterable[Outcome], methods: Sequence[str] = ()) -> None:
        self.outcomes = tuple(outcomes)
        self._by_names: dict[tuple[str, str, str], Outcome] = {}
        for outcome in self.outcomes:
            names = (outcome.method, outcome.benchmark, outcome.lm)
            other = self._by_names.setdefault(names, outcome)
            if other is not outcome:
                raise ValueError(
                    f"The runs {other.run!r} and {outcome.run!r} are both {outcome.method!r} on "
                    f"{outcome.benchmark!r} with {outcome.lm!r}; name the methods apart."
                )
        self.methods = tuple(methods) or tuple(dict.fromkeys(o.method for o in self.outcomes))
        self.benchmarks = tuple(dict.fromkeys(o.benchmark for o in self.outcomes))
        self.lms = tuple(dict.fromkeys(o.lm for o in self.outcomes))

    def get(self, method: str, benchmark: str, lm: str) -> Outcome | None:
        """Return an outcome, complete or not, if there is one."""
        return self._by_names.get((method, benchmark, lm))

    def best(self, benchmark: str, lm: str) -> frozenset[str]:
        """Return the methods with the highest score; none unless two or more are complete."""
        scores = {
            method: found.score
            for method in self.methods
            if (found := self._complete(method, benchmark, lm)) is not None
        }
        if len(scores) < 2:
            return frozenset()
        top = max(scores.values())
        return frozenset(method for method, score in scores.items() if top - score <= _SAME)

    def pairs(
        self, first: str, second: str, benchmark: str | None = None
    ) -> list[tuple[Outcome, Outcome]]:
        """Return the complete outcomes of two methods, by benchmark and model.

        Args:
            first, second: The methods.
            benchmark: ``None`` = all.
        """
        found = []
        for name in self.benchmarks if benchmark is None else (benchmark,):
            for lm in self.lms:
                one, other = self._complete(first, name, lm), self._complete(second, name, lm)
                if one is not None and other is not None:
                    found.append((one, other))
        return found

    def record(self, first: str, second: str, benchmark: str | None = None) -> Record:
        """Count on how many model–benchmark pairs one method beats another.

        Args:
            first, second: The methods.
            benchmark: ``None`` = all.
        """
        deltas = self._deltas(self.pairs(first, second, benchmark))
        wins = sum(delta > _SAME for delta in deltas)
        losses = sum(delta < -_SAME for delta in deltas)
        return Record(wins, len(deltas) - wins - losses, losses)

    def compare(self, first: str, second: str) -> list[Comparison]:
        """Test one method against another, from the whole to the parts.

        Over all model–benchmark pairs, as the DRPG paper does for its 42; for each benchmark
        over its models, likewise; for each benchmark over its questions, where several models
        answered each question the mean of their differences, because answers to one question
        are no independent cases; and for each model alone over the questions.

        Questions that either run could not judge, or still waits for, are left out. A failed
        step is a wrong answer.
        """
        found = []
        everything = self.pairs(first, second)
        if len(everything) > 1 and len({one.benchmark for one, _ in everything}) > 1:
            found.append(self._over_pairs(everything, "", "model–benchmark pair"))
        for benchmark in self.benchmarks:
            pairs = self.pairs(first, second, benchmark)
            if len(pairs) > 1:
                found.append(self._over_pairs(pairs, benchmark, "model"))
                found.append(_over_questions(pairs))
            found.extend(_over_questions([pair]) for pair in pairs)
        return [comparison for comparison in found if comparison.signed_ranks.n]

    def _over_pairs(
        self, pairs: Sequence[tuple[Outcome, Outcome]], benchmark: str, unit: Unit
    ) -> Comparison:
        one, other = pairs[0]
        lms = {first.lm for first, _ in pairs}
        lm = lms.pop() if len(lms) == 1 else ""
        deltas = np.array(self._deltas(pairs))
        return Comparison(
            one.method, other.method, benchmark, lm, unit, *_effect(deltas), wilcoxon(deltas), None
        )

    def _deltas(self, pairs: Sequence[tuple[Outcome, Outcome]]) -> list[float]:
        return [one.score - other.score for one, other in pairs]

    def _complete(self, method: str, benchmark: str, lm: str) -> Outcome | None:
        found = self.get(method, benchmark, lm)
        if found is None or not found.complete or math.isnan(found.score):
            return None
        return found


def paired(first: Series, second: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the steps that both runs settled, and what each scored there.

    Returns:
        Step numbers, scores of the first, scores of the second; a failed step scores 0. Steps
        that wait for feedback or could not be judged in either run are left out.
    """
    kept = [series.judged | series.failed for series in (first, second)]
    steps, one, other = np.intersect1d(
        first.steps[kept[0]], second.steps[kept[1]], assume_unique=True, return_indices=True
    )
    return steps, first.credit[kept[0]][one], second.credit[kept[1]][other]


def _over_questions(pairs: Sequence[tuple[Outcome, Outcome]]) -> Comparison:
    """Test over the questions of one benchmark, with one model or the mean over several."""
    one, other = pairs[0]
    aligned = [paired(first.series, second.series) for first, second in pairs]
    if len(aligned) == 1:
        _, ours, theirs = aligned[0]
        right, right_too = ours >= one.threshold, theirs >= other.threshold
        sign = mcnemar(int((right & ~right_too).sum()), int((right_too & ~right).sum()))
        deltas = ours - theirs
        return Comparison(
            one.method,
            other.method,
            one.benchmark,
            one.lm,
            "question",
            *_effect(deltas),
            wilcoxon(deltas),
            sign,
        )
    shared = set.intersection(*(set(steps.tolist()) for steps, _, _ in aligned))
    rows = [
        (ours - theirs)[np.isin(steps, np.fromiter(shared, np.int64, len(shared)))]
        for steps, ours, theirs in aligned
    ]
    deltas = np.mean(rows, axis=0)
    return Comparison(
        one.method,
        other.method,
        one.benchmark,
        "",
        "question (mean over models)",
        *_effect(deltas),
        wilcoxon(deltas),
        None,
    )


def _effect(deltas: np.ndarray) -> tuple[float, tuple[float, float]]:
    mean = float(deltas.mean()) if len(deltas) else float("nan")
    return mean, mean_interval(deltas)
