from __future__ import annotations

import math

import numpy as np
import pytest

from drpg_dspy.analysis.audit import Answered, Paired, compare_answers

# Liu et al. 2026, Table 9: IFBench before and after repair, strict and loose.
STRICT = Paired(51, 83, tuple(f"f{i}" for i in range(8)), ("b",), 0)
LOOSE = Paired(56, 78, tuple(f"f{i}" for i in range(8)), ("b",), 0)


def answers(**right: bool | None) -> dict[str, Answered]:
    return {item: Answered(f"rollout-{item}", verdict) for item, verdict in right.items()}


@pytest.mark.parametrize(
    ("paired", "before", "after", "repair", "regression"),
    [(STRICT, 52, 59, "8.79", "1.92"), (LOOSE, 57, 64, "9.30", "1.75")],
)
def test_the_figures_are_those_of_the_published_repair_table(
    paired: Paired, before: int, after: int, repair: str, regression: str
) -> None:
    assert (paired.n, paired.before, paired.after, paired.net) == (143, before, after, 7)
    assert f"{100 * paired.repair:.2f}" == repair
    assert f"{100 * paired.regression:.2f}" == regression


def test_the_sign_test_counts_the_flips_alone() -> None:
    # 8 against 1: P(at most 1 of 9) = (1 + 9) / 512, doubled.
    assert STRICT.sign.two_sided == 20 / 512
    assert Paired(0, 0, ("a", "b", "c"), (), 0).sign.two_sided == 0.25
    assert Paired(9, 9, (), (), 0).sign.two_sided == 1.0


def test_four_items_of_each_fate_are_paired_by_hand() -> None:
    before = answers(a=True, b=True, c=False, d=False, e=None, f=True)
    after = answers(a=True, b=False, c=True, d=False, e=True, f=None)

    found = compare_answers(before, after)

    assert found == Paired(both=1, neither=1, fixed=("c",), broken=("b",), not_judged=2)
    assert (found.n, found.before, found.after, found.net) == (4, 2, 2, 0)
    assert (found.repair, found.regression) == (0.5, 0.5)


def test_an_item_that_only_one_side_has_is_left_out() -> None:
    found = compare_answers(answers(a=True, b=False), answers(b=True, c=True))

    assert (found.n, found.fixed) == (1, ("b",))


def test_shares_of_nothing_are_unknown() -> None:
    nothing = Paired(0, 0, (), (), 3)

    assert math.isnan(nothing.repair)
    assert math.isnan(nothing.regression)
    assert all(math.isnan(end) for end in nothing.interval())
    assert math.isnan(Paired(4, 0, (), (), 0).repair)


def test_intervals_where_nothing_can_vary_have_no_width() -> None:
    assert Paired(0, 0, ("a", "b"), (), 0).interval() == (1.0, 1.0)
    assert Paired(3, 4, (), (), 0).interval() == (0.0, 0.0)


def test_the_interval_is_that_of_resampling_the_items() -> None:
    paired = Paired(10, 10, tuple("abcdefgh"), ("x", "y"), 0)
    changes = np.array([1] * 8 + [-1] * 2 + [0] * 20)
    drawn = np.random.default_rng(7).choice(changes, size=(10_000, 30)).mean(axis=1)

    low, high = paired.interval(resamples=10_000, seed=1)

    # Both are resampling estimates of percentiles on a grid of 1/30.
    assert low == pytest.approx(np.percentile(drawn, 2.5), abs=1 / 30 + 1e-9)
    assert high == pytest.approx(np.percentile(drawn, 97.5), abs=1 / 30 + 1e-9)
    assert low < paired.net / paired.n < high


def test_the_same_seed_gives_the_same_interval_and_a_wider_level_a_wider_one() -> None:
    assert STRICT.interval(seed=3) == STRICT.interval(seed=3)
    narrow, wide = STRICT.interval(0.5), STRICT.interval(0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence"):
        STRICT.interval(1.5)
