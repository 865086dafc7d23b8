"""Methods against each other, with scores chosen so that the outcome can be counted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from drpg_dspy.analysis.comparison import Outcome, Record, Results, paired
from drpg_dspy.analysis.series import Series, read_series
from drpg_dspy.memory.base import StepFigures
from drpg_dspy.types import Feedback, Usage

NAN = math.nan


def series(*scores: float | None) -> Series:
    """Return a run with these scores; NaN = not judged, None = failed."""
    return read_series(
        StepFigures(
            f"{step:05d}",
            step,
            score is None,
            1.0,
            Usage(),
            Usage(),
            {},
            None if score is None else Feedback(score),
        )
        for step, score in enumerate(scores, start=1)
    )


def outcome(
    method: str, *scores: float | None, benchmark: str = "b", lm: str = "m", **more: Any
) -> Outcome:
    return Outcome(method, benchmark, lm, f"{method}-{benchmark}-{lm}", series(*scores), **more)


def test_the_best_method_is_that_with_the_highest_score_and_equals_share_it() -> None:
    results = Results(
        [outcome("a", 1, 0, 1), outcome("b", 0, 1, 1), outcome("c", 1, 0, 0), outcome("d", NAN)]
    )

    assert results.best("b", "m") == {"a", "b"}


def test_one_method_alone_is_not_the_best() -> None:
    results = Results([outcome("a", 1), outcome("b", 1, complete=False)])

    assert results.best("b", "m") == frozenset()


def test_wins_ties_and_losses_are_counted_over_models_and_benchmarks() -> None:
    results = Results(
        [
            outcome("new", 1, 1, lm="m1"), outcome("old", 1, 0, lm="m1"),
            outcome("new", 0, 1, lm="m2"), outcome("old", 1, 0, lm="m2"),
            outcome("new", 0, 0, benchmark="c", lm="m1"),
            outcome("old", 1, 0, benchmark="c", lm="m1"),
            outcome("new", 1, 1, benchmark="c", lm="m2"),
        ]
    )  # fmt: skip

    assert results.record("new", "old") == Record(wins=1, ties=1, losses=1)
    assert results.record("new", "old", "b") == Record(wins=1, ties=1, losses=0)
    assert results.record("old", "new", "c") == Record(wins=1, ties=0, losses=0)
    assert results.record("new", "old").n == 3


def test_scores_that_differ_by_rounding_are_a_tie() -> None:
    results = Results([outcome("a", 0.1, 0.2, 0.3), outcome("b", 0.3, 0.2, 0.1)])

    assert results.record("a", "b") == Record(0, 1, 0)
    assert results.best("b", "m") == {"a", "b"}


def test_an_unfinished_run_takes_no_part() -> None:
    results = Results([outcome("new", 1, complete=False), outcome("old", 0)])

    assert results.record("new", "old").n == 0
    assert results.compare("new", "old") == []
    assert results.get("new", "b", "m") is not None


def test_two_runs_under_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="both 'a' on 'b' with 'm'"):
        Results([outcome("a", 1), outcome("a", 0)])


def test_pairs_leave_out_what_either_run_could_not_judge_and_count_failures_as_wrong() -> None:
    steps, ours, theirs = paired(series(1, NAN, None, 0.5), series(0, 1, 1, NAN, 1))

    assert steps.tolist() == [1, 3]
    assert ours.tolist() == [1.0, 0.0]
    assert theirs.tolist() == [0.0, 1.0]


def test_one_model_on_one_benchmark_is_tested_over_its_questions() -> None:
    results = Results([outcome("new", 1, 1, 1, 1, 0, 1), outcome("old", 0, 0, 0, 1, 1, NAN)])

    (test,) = results.compare("new", "old")

    assert (test.benchmark, test.lm, test.unit) == ("b", "m", "question")
    assert test.difference == pytest.approx(2 / 5)
    assert (test.signed_ranks.n, test.signed_ranks.differing) == (5, 4)
    # Three against one: 5 of 16 ways to toss four coins give three heads or more.
    assert test.signed_ranks.one_sided == pytest.approx(5 / 16)
    assert test.sign is not None
    assert (test.sign.only_first, test.sign.only_second) == (3, 1)
    assert test.sign.one_sided == 5 / 16
    assert test.sign.two_sided == 10 / 16


def test_right_and_wrong_follow_the_threshold() -> None:
    results = Results([outcome("new", 0.6, threshold=0.6), outcome("old", 0.5, threshold=0.6)])

    (test,) = results.compare("new", "old")

    assert test.sign is not None
    assert (test.sign.only_first, test.sign.only_second) == (1, 0)


def test_several_models_are_tested_by_model_by_question_and_alone() -> None:
    results = Results(
        [
            outcome("new", 1, 1, 0, lm="m1"), outcome("old", 0, 1, 0, lm="m1"),
            outcome("new", 1, 1, 1, lm="m2"), outcome("old", 0, 0, 1, lm="m2"),
        ]
    )  # fmt: skip

    by_model, by_question, *alone = results.compare("new", "old")

    assert by_model.unit == "model"
    assert by_model.signed_ranks.n == 2
    assert by_model.difference == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert by_model.signed_ranks.one_sided == 1 / 4
    # Question 1 improves with both models, 2 with one, 3 with none: 1, 1/2, 0.
    assert by_question.unit == "question (mean over models)"
    assert by_question.difference == pytest.approx(0.5)
    assert (by_question.signed_ranks.n, by_question.signed_ranks.differing) == (3, 2)
    assert by_question.sign is None
    assert [test.lm for test in alone] == ["m1", "m2"]


def test_several_benchmarks_are_tested_over_all_pairs_first() -> None:
    cells = [("b", "m1"), ("b", "m2"), ("c", "m1"), ("c", "m2"), ("d", "m1")]
    results = Results(
        outcome(method, *(1 if method == "new" and i <= n else 0 for i in range(6)),
                benchmark=benchmark, lm=lm)
        for method in ("new", "old")
        for n, (benchmark, lm) in enumerate(cells)
    )  # fmt: skip

    first = results.compare("new", "old")[0]

    assert (first.benchmark, first.lm, first.unit) == ("", "", "model–benchmark pair")
    assert first.signed_ranks.n == 5
    assert first.signed_ranks.one_sided == pytest.approx(1 / 32)
    assert first.difference == pytest.approx((1 + 2 + 3 + 4 + 5) / 6 / 5)


def test_methods_come_in_the_order_given() -> None:
    results = Results([outcome("b", 1), outcome("a", 0)], ["a", "b"])

    assert results.methods == ("a", "b")
