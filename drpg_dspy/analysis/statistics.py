"""How sure one may be: intervals of a share, and tests of paired results.

The tests ask whether one method beats another on the same questions, or over the same
model–benchmark pairs. SciPy (extra ``report``) is imported where it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from drpg_dspy.arguments import number, whole
from drpg_dspy.exceptions import missing_extra

__all__ = [
    "McNemar",
    "Wilcoxon",
    "bootstrap_interval",
    "mcnemar",
    "mean_interval",
    "wilcoxon",
    "wilson",
]

CONFIDENCE = 0.95
"""Level of every interval unless another is given."""

_EXACT_UP_TO = 50
_ENUMERATED_UP_TO = 13
"""Pairs up to which all 2^n signs are tried where ranks are tied."""


def wilson(
    mean: np.ndarray | float, n: np.ndarray | int, confidence: float = CONFIDENCE
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Wilson score interval of a share of ``n`` cases.

    Scores between 0 and 1 vary at most as much as right and wrong with the same mean, so for
    those the interval is rather too wide than too narrow.

    Args:
        mean: In [0, 1].
        n: Number of cases, at least 1; of the mean's shape, or one for all.
        confidence: In (0, 1).

    Returns:
        Lower and upper ends, in [0, 1].

    Source: Wilson, Probable inference, the law of succession, and statistical inference, 1927.

    >>> low, high = wilson(0.5, 100)
    >>> f"{low:.4f} {high:.4f}"
    '0.4038 0.5962'
    """
    z = _quantile(confidence)
    # A mean of ones may miss 1 by a rounding error.
    share = np.clip(np.asarray(mean, dtype=float), 0.0, 1.0)
    cases = np.asarray(n, dtype=float)
    scale = 1 + z**2 / cases
    centre = (share + z**2 / (2 * cases)) / scale
    half = z / scale * np.sqrt(share * (1 - share) / cases + (z / (2 * cases)) ** 2)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def mean_interval(differences: Any, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the normal interval of the mean of paired differences; NaN for fewer than two.

    >>> low, high = mean_interval([1.0, 0.0, 0.0, -1.0] * 25)
    >>> f"{low:.3f} {high:.3f}"
    '-0.139 0.139'
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        return math.nan, math.nan
    half = _quantile(confidence) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def bootstrap_interval(
    differences: Any, confidence: float = CONFIDENCE, *, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of paired differences.

    Pairs are drawn with replacement, as often as there are pairs.

    Args:
        differences: First minus second, one for each pair.
        confidence: In (0, 1).
        resamples: How often, at least 1.
        seed: Of the draws.

    Returns:
        Lower and upper end; NaN for fewer than two pairs.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993.

    >>> low, high = bootstrap_interval([1.0, 0.0, 0.0, -1.0] * 25)
    >>> f"{low:.2f} {high:.2f}"
    '-0.14 0.14'
    """
    values = np.asarray(differences, dtype=float)
    number("confidence", confidence, 0, 1)
    whole("resamples", resamples, 1)
    if len(values) < 2:
        return math.nan, math.nan
    # Drawing pairs is drawing how often each distinct difference occurs.
    distinct, counts = np.unique(np.round(values, 12), return_counts=True)
    shares = counts / counts.sum()
    drawn = np.random.default_rng(seed).multinomial(len(values), shares, size=resamples)
    means = drawn @ distinct / len(values)
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Wilcoxon:
    """A Wilcoxon signed-rank test.

    Attributes:
        n: Pairs.
        differing: Pairs that differ; the others are left out, as Wilcoxon does.
        one_sided: p-value against "the first is not better".
        two_sided: p-value against "there is no difference". Both NaN when no pair differs.
        method: ``"exact"``, or ``"normal"``: the approximation with correction for ties.
            ``""`` when no pair differs.
    """

    n: int
    differing: int
    one_sided: float
    two_sided: float
    method: Literal["exact", "normal", ""]


def wilcoxon(differences: Any) -> Wilcoxon:
    """Test paired differences (first minus second) by their signed ranks.

    Exact for up to 50 differing pairs without ties among the sizes of their differences, and
    for up to 13 with ties; else by the normal approximation. Differences that agree to nine
    decimals are ties: what separates them is rounding.

    Raises:
        ImportError: SciPy is not installed.
        ValueError: A difference is not finite.

    Source: Wilcoxon, Individual comparisons by ranking methods, 1945; ``scipy.stats.wilcoxon``.
    """
    given = np.asarray(differences, dtype=float)
    if not np.isfinite(given).all():
        raise ValueError("Paired differences must be finite; leave out pairs without a score.")
    values = np.round(given, 9)
    values = values[values != 0]
    if not len(values):
        return Wilcoxon(len(given), 0, math.nan, math.nan, "")
    test = _scipy_stats()
    method: Any = "asymptotic"
    if len(np.unique(np.abs(values))) == len(values) <= _EXACT_UP_TO:
        method = "exact"
    elif len(values) <= _ENUMERATED_UP_TO:
        method = test.PermutationMethod(n_resamples=np.inf)
    p = {
        side: min(1.0, float(test.wilcoxon(values, alternative=side, method=method).pvalue))
        for side in ("greater", "two-sided")
    }
    name: Literal["exact", "normal"] = "normal" if method == "asymptotic" else "exact"
    return Wilcoxon(len(given), len(values), p["greater"], p["two-sided"], name)


@dataclass(frozen=True, slots=True)
class McNemar:
    """An exact McNemar test: a sign test on the questions that only one of two got right.

    Attributes:
        only_first, only_second: Questions that only the one got right.
        one_sided: p-value against "the first is not better".
        two_sided: p-value against "there is no difference".
    """

    only_first: int
    only_second: int
    one_sided: float
    two_sided: float


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Test two counts of questions that only one of two methods got right.

    Raises:
        ValueError: A count is negative or no whole number.

    Source: McNemar, Note on the sampling error of the difference between correlated
    proportions or percentages, 1947, with the binomial distribution in place of chi-squared.

    >>> mcnemar(5, 0).two_sided, mcnemar(5, 0).one_sided, mcnemar(3, 3).two_sided
    (0.0625, 0.03125, 1.0)
    """
    whole("only_first", only_first, 0)
    whole("only_second", only_second, 0)
    n = only_first + only_second
    one_sided = _tail(n, only_second)
    return McNemar(
        only_first, only_second, one_sided, min(1.0, 2 * _tail(n, min(only_first, only_second)))
    )


def _tail(n: int, most: int) -> float:
    """Return the chance of at most so many heads in ``n`` tosses."""
    return float(sum(math.comb(n, i) for i in range(most + 1)) / 2**n)


def _quantile(confidence: float) -> float:
    level = number("confidence", confidence, 0, 1)
    if level == 1:
        raise ValueError("confidence must be less than 1, got 1.")
    return NormalDist().inv_cdf((1 + level) / 2)


def _scipy_stats() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise missing_extra("The Wilcoxon test", "report", "scipy") from error
    return stats
