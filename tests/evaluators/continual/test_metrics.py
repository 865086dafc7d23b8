"""Every metric on a small run whose figures are worked out by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from evaluators.continual import (
    METRICS,
    Event,
    Metric,
    Outcome,
    Trajectory,
    backward_transfer,
    collateral_damage,
    edit_switch,
    edit_switch_immediate,
    fidelity,
    final_satisfaction,
    initial_satisfaction,
    intervals,
    mean_satisfaction,
    peak_forgetting,
    unlearning_immediate,
    unlearning_rebound,
    unlearning_sustained,
)

NAN = float("nan")


def cells(
    step: int, task: str, *verdicts: float, value: str = "", shadow: bool = False
) -> list[Outcome]:
    return [
        Outcome(step, task, f"s{i}", verdict, value, shadow) for i, verdict in enumerate(verdicts)
    ]


# Steps:        0      1      2              3
# A (A1, A2):   1.0    0.5    0.5 (edited)   0.25
# B:                   1.0    0.75           deleted
# C:                                         0.5
RUN = [
    *cells(0, "A", 1, 1, 1, 1, value="A1"),
    *cells(1, "A", 1, 1, 0, 0, value="A1"),
    *cells(1, "B", 1, 1, 1, 1, value="B1"),
    *cells(2, "A", 1, 1, 0, 0, value="A2"),
    *cells(2, "A", 0, 1, 1, 0, value="A1", shadow=True),
    *cells(2, "B", 1, 1, 1, 0, value="B1"),
    *cells(3, "A", 1, 0, 0, 0, value="A2"),
    *cells(3, "A", 0, 0, 0, 0, value="A1", shadow=True),
    *cells(3, "B", 1, 1, 0, 0, value="B1", shadow=True),
    *cells(3, "C", 1, 1, 0, 0, value="C1"),
]
EVENTS = [
    Event(0, "add", "A", "A1"),
    Event(1, "add", "B", "B1"),
    Event(2, "edit", "A", "A2", "A1"),
    Event(3, "delete", "B", "", "B1"),
    Event(3, "add", "C", "C1"),
]
DEFAULTS = {("B", "B1"): {"s0": 1.0, "s1": 0.0, "s2": 0.0, "s3": 0.0}}


@pytest.fixture
def run() -> Trajectory:
    return Trajectory.of(RUN, EVENTS, DEFAULTS)


def test_mean_satisfaction_is_the_mean_over_steps_of_the_mean_over_tasks(run: Trajectory) -> None:
    steps = [1.0, (0.5 + 1.0) / 2, (0.5 + 0.75) / 2, (0.25 + 0.5) / 2]

    assert mean_satisfaction(run) == pytest.approx(sum(steps) / 4)


def test_peak_forgetting_is_the_drop_from_the_highest_rate_before(run: Trajectory) -> None:
    # A: 0.5, 0.5, 0.75 below its peak of 1; B: 0.25 at step 2; C and first steps have no past.
    assert peak_forgetting(run) == pytest.approx((0.5 + 0.5 + 0.75 + 0.25) / 4)


def test_collateral_damage_leaves_the_target_out(run: Trajectory) -> None:
    # Step 1 adds B: A falls by 0.5. Step 2 edits A: B falls by 0.25. Step 3 changes B and C: A
    # falls by 0.25.
    assert collateral_damage(run) == pytest.approx((0.5 + 0.25 + 0.25) / 3)


def test_a_rise_is_no_damage() -> None:
    rising = [*cells(0, "A", 0), *cells(1, "A", 1), *cells(1, "B", 1)]

    assert collateral_damage(Trajectory.of(rising, [Event(1, "add", "B")])) == 0.0


def test_edit_switch_counts_adapted_among_both_stale_and_adapted(run: Trajectory) -> None:
    # Step 2: s0 adapted, s1 both, s2 stale, s3 neither. Step 3: s0 adapted, the rest neither.
    assert edit_switch_immediate(run) == pytest.approx(1 / 3)
    assert edit_switch(run) == pytest.approx(2 / 4)


def test_unlearning_compares_with_the_rate_before_and_without_any_constraint(
    run: Trajectory,
) -> None:
    # Before 0.75, after 0.5, default 0.25: half of the way is left.
    assert unlearning_immediate(run) == pytest.approx(0.5)
    assert unlearning_sustained(run) == pytest.approx(0.5)
    assert math.isnan(unlearning_rebound(run))  # nothing later


@pytest.mark.parametrize(
    ("before", "after", "default", "expected"),
    [
        (1.0, 0.0, 0.0, 1.0),
        (1.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.5, 0.0),
        (0.5, 0.51, 0.5, 0.8),  # the distance is taken for at least 0.05
        (1.0, 0.4, 0.2, 0.75),
        (NAN, 0.4, 0.2, NAN),
    ],
)
def test_fidelity_is_clamped_and_bounded_below(
    before: float, after: float, default: float, expected: float
) -> None:
    assert fidelity(before, after, default) == pytest.approx(expected, nan_ok=True)


def test_a_deleted_task_that_comes_back_by_itself_rebounds() -> None:
    stream = [
        *cells(0, "K", 1, 1, value="k"),
        *cells(0, "L", 1, 1),
        *(
            outcome
            for step, rate in ((1, (0, 0)), (2, (1, 0)), (3, (0, 0)))
            for outcome in (
                *cells(step, "K", *rate, value="k", shadow=True),
                *cells(step, "L", 1, 1),
            )
        ),
    ]
    run = Trajectory.of(
        stream, [Event(1, "delete", "K", "", "k")], {("K", "k"): {"s0": 0.0, "s1": 0.0}}
    )

    assert unlearning_immediate(run) == 1.0
    assert unlearning_rebound(run) == pytest.approx(0.5)
    assert unlearning_sustained(run) == pytest.approx((1 + 0.5 + 1) / 3)


def test_a_window_ends_where_the_task_is_changed_again() -> None:
    stream = [
        *cells(0, "A", 1, value="1"),
        *cells(1, "A", 1, value="2"),
        *cells(1, "A", 0, value="1", shadow=True),
        *cells(2, "A", 1, value="3"),
        *cells(2, "A", 1, value="1", shadow=True),
        *cells(2, "A", 1, value="2", shadow=True),
    ]
    run = Trajectory.of(stream, [Event(1, "edit", "A", "2", "1"), Event(2, "edit", "A", "3", "2")])

    assert edit_switch(run) == pytest.approx((1.0 + 0.0) / 2)


def test_initial_final_and_backward_transfer(run: Trajectory) -> None:
    assert initial_satisfaction(run) == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    assert final_satisfaction(run) == pytest.approx((0.25 + 0.5) / 2)
    assert backward_transfer(run) == pytest.approx(0.25 - 1.0)  # C only came with the last step


def test_samples_that_were_not_judged_are_left_out_of_their_cell() -> None:
    run = Trajectory.of([*cells(0, "A", 1, NAN, 0), *cells(0, "B", NAN, NAN, NAN)])

    assert mean_satisfaction(run) == 0.5


def test_a_stream_without_events_has_no_edits_and_no_unlearning() -> None:
    run = Trajectory.of([*cells(0, "geography", 1, 0), *cells(1, "geography", 1, 1)])
    found = {metric.name: metric.compute(run) for metric in METRICS}

    assert (found["sat"], found["forgetting"], found["bwt"]) == (0.75, 0.0, 0.5)
    assert all(math.isnan(found[name]) for name in ("switch", "unlearning", "collateral"))


def test_two_verdicts_on_one_cell_are_refused() -> None:
    with pytest.raises(ValueError, match="Two verdicts on 'A', sample 's0', step 0"):
        Trajectory.of([*cells(0, "A", 1), *cells(0, "A", 0)])


def test_a_run_of_shadows_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one outcome that is no shadow"):
        Trajectory.of(cells(0, "A", 1, shadow=True))


SAT = (Metric("sat", "Mean satisfaction", mean_satisfaction),)


def test_an_interval_holds_its_value_and_is_the_same_for_the_same_seed(run: Trajectory) -> None:
    found = intervals([run], resamples=50)

    assert all(one.low <= one.value <= one.high for one in found.values() if one.value == one.value)
    assert found["sat"] == intervals([run], resamples=50)["sat"]
    assert found["sat"].low < found["sat"].high


def test_intervals_of_maxima_hold_their_figures() -> None:
    rng = random.Random(7)
    for _ in range(10):
        outcomes = [
            Outcome(step, task, f"s{i}", float(rng.random() < 0.5))
            for step in range(8)
            for task in ("A", "B", "C")
            for i in range(6)
        ]
        found = intervals([Trajectory.of(outcomes)], resamples=200)["forgetting"]
        assert found.low <= found.value <= found.high
        assert found.low < found.high


def test_an_interval_lies_around_the_figure_and_within_its_range() -> None:
    run = Trajectory.of(cells(0, "A", 1, 1, value="A1"))
    spread = [float(each) for each in np.linspace(0.0, 1.0, 1001)]

    def around(figure: float, least: float = -1.0) -> tuple[float, float]:
        values = iter([*spread, figure])  # the draws come first, the figure itself last
        metric = Metric("given", "Given", lambda _: next(values), False, least, 1.0)
        found = intervals([run], metrics=[metric], resamples=len(spread))["given"]
        return found.low, found.high

    assert around(0.5) == pytest.approx((0.025, 0.975))  # no bias: the percentiles
    assert around(0.25) == pytest.approx((-0.225, 0.725))  # the draws' mean lies 0.25 above it
    assert around(0.25, least=0.0) == pytest.approx((0.0, 0.725))


def test_an_interval_without_variance_is_a_point() -> None:
    same = Trajectory.of(cells(0, "A", 1, 1, 1))

    assert intervals([same], metrics=SAT, resamples=20)["sat"].low == 1.0


def test_a_paired_difference_to_itself_is_zero(run: Trajectory) -> None:
    found = intervals([run, run], [run, run], metrics=SAT, resamples=20)["sat"]

    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_pair_over_other_samples_is_refused(run: Trajectory) -> None:
    other = Trajectory.of(cells(0, "A", 1))

    with pytest.raises(ValueError, match="same samples"):
        intervals([run], [other], resamples=2)
    with pytest.raises(ValueError, match="at least one trajectory"):
        intervals([])
