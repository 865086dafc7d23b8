"""Intervals and tests against numbers worked out by hand."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from drpg_dspy.analysis.statistics import mcnemar, mean_interval, wilcoxon, wilson

Z2 = 1.959963984540054**2


def test_the_wilson_interval_of_none_and_of_all_is_one_sided() -> None:
    low, high = wilson(np.array([0.0, 1.0]), 10)

    # With a share of 0 the upper end is z² / (n + z²).
    assert low.tolist() == pytest.approx([0.0, 10 / (10 + Z2)])
    assert high.tolist() == pytest.approx([Z2 / (10 + Z2), 1.0])


def test_the_wilson_interval_bears_a_mean_that_rounding_put_above_one() -> None:
    low, high = wilson(1.0 + 1e-15, 3)

    assert 0 < low < 1
    assert high == 1.0


@pytest.mark.parametrize("confidence", [0, 1, 95, "high"])
def test_a_confidence_outside_0_and_1_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        wilson(0.5, 10, confidence)


def test_the_normal_interval_of_a_mean_needs_two_pairs() -> None:
    low, high = mean_interval([0.1, 0.3])

    # Mean 0.2, standard deviation 0.1 * sqrt(2), over sqrt(2) pairs.
    assert (low, high) == pytest.approx((0.2 - math.sqrt(Z2) * 0.1, 0.2 + math.sqrt(Z2) * 0.1))
    assert all(math.isnan(end) for end in mean_interval([0.1]))


@pytest.mark.parametrize(
    ("differences", "one_sided", "two_sided"),
    [
        ([1, 2, 3, 4, 5], 1 / 32, 2 / 32),
        # Of the 16 ways to sign the ranks 1 … 4, seven reach the rank sum 6 of these.
        ([1, 2, 3, -4], 7 / 16, 14 / 16),
        ([-1, -2, -3], 1.0, 2 / 8),
        # Tied sizes: all ranks are equal, so the test is a sign test.
        ([1, 1, 1, 1, 1], 1 / 32, 2 / 32),
        ([1, 1, -1], 4 / 8, 1.0),
        ([0, 0, 0.25], 1 / 2, 1.0),
    ],
)
def test_signed_ranks_are_exact_for_few_pairs(
    differences: list[float], one_sided: float, two_sided: float
) -> None:
    test = wilcoxon(differences)

    assert (test.one_sided, test.two_sided) == pytest.approx((one_sided, two_sided))
    assert test.method == "exact"
    assert test.n == len(differences)
    assert test.differing == sum(d != 0 for d in differences)


def test_many_tied_pairs_take_the_normal_approximation() -> None:
    test = wilcoxon([1] * 30 + [-1] * 10 + [0] * 60)

    # All ranks are equal, so z = (30 - 10) / sqrt(40).
    z = 20 / math.sqrt(40)
    assert test.two_sided == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert test.one_sided == pytest.approx(math.erfc(z / math.sqrt(2)) / 2)
    assert (test.n, test.differing, test.method) == (100, 40, "normal")


def test_what_only_rounding_separates_is_a_tie() -> None:
    differences = [0.605 - 0.563, 0.505 - 0.463, -(0.705 - 0.663)]
    assert len(set(map(abs, differences))) > 1

    assert wilcoxon(differences) == wilcoxon([1, 1, -1])


def test_pairs_that_never_differ_have_no_p_value() -> None:
    test = wilcoxon([0.0, 0.0])

    assert (test.n, test.differing, test.method) == (2, 0, "")
    assert math.isnan(test.one_sided)
    assert math.isnan(test.two_sided)


def test_a_pair_without_a_score_is_refused() -> None:
    with pytest.raises(ValueError, match="leave out"):
        wilcoxon([1.0, math.nan])


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)

    with pytest.raises(ImportError, match=r"drpg-dspy\[report\]"):
        wilcoxon([1.0])


@pytest.mark.parametrize(
    ("counts", "one_sided", "two_sided"),
    [
        ((7, 1), 9 / 256, 18 / 256),
        ((1, 7), 255 / 256, 18 / 256),
        ((2, 2), 11 / 16, 1.0),
        ((0, 0), 1.0, 1.0),
    ],
)
def test_mcnemar_counts_tosses(counts: tuple[int, int], one_sided: float, two_sided: float) -> None:
    test = mcnemar(*counts)

    assert (test.one_sided, test.two_sided) == (one_sided, two_sided)


def test_mcnemar_bears_thousands_of_questions() -> None:
    assert 0 < mcnemar(1200, 900).two_sided < 1e-9


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="only_second"):
        mcnemar(1, -1)
