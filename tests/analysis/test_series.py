"""A run as columns agrees with its summary, whatever happened in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from drpg_dspy.analysis import rolling_scores, summarise
from drpg_dspy.analysis.series import Series, read_series
from drpg_dspy.analysis.statistics import wilson
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    memory = SQLiteMemory(tmp_path / "memory.sqlite")
    yield memory
    memory.close()


def add(
    memory: SQLiteMemory,
    id: str,
    feedback: Feedback | None = None,
    *,
    failed: bool = False,
    rule: str = "",
) -> None:
    policies = {"predict": Policy("predict", (Rule(rule),))} if rule else {}
    memory.record(
        Rollout(
            id,
            int(id.partition(".")[0]),
            {"q": id},
            None if failed else {"a": "42"},
            usage=Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=0.5),
            guidance=Guidance(policies, usage=Usage(calls=1, prompt_tokens=30)),
            error="Broken: down" if failed else "",
            seconds=2.0,
        )
    )
    if feedback is not None:
        memory.commit(id, feedback)


@pytest.fixture
def eventful(memory: SQLiteMemory) -> SQLiteMemory:
    """Return a run with everything in it that a step can become."""
    add(memory, "00001", Feedback(1.0, subscores={"f1": 1.0}), rule="Count once.")
    add(memory, "00002", Feedback(0.25, subscores={"f1": 0.5}, usage=Usage(2, 7, 3)))
    add(memory, "00003", Feedback(math.nan))
    add(memory, "00004", failed=True)
    add(memory, "00005", failed=True)
    add(memory, "00005.2", Feedback(1.0), rule="Never twice.")
    add(memory, "00006")
    return memory


def read(memory: SQLiteMemory) -> Series:
    return read_series(memory.figures())


def test_a_series_adds_up_to_the_summary(eventful: SQLiteMemory) -> None:
    series, summary = read(eventful), summarise(eventful)

    assert len(series) == summary.n == 6
    assert series.score == pytest.approx(summary.score) == pytest.approx(2.25 / 5)
    assert series.judged.tolist() == [True, True, False, False, True, False]
    assert int(series.not_judged.sum()) == summary.not_judged == 1
    assert int(series.failed.sum()) == summary.failed == 1
    assert int(series.waiting.sum()) == summary.waiting == 1
    usage = summary.usage
    assert series.prompt_tokens.sum() == usage.prompt_tokens
    assert series.completion_tokens.sum() == usage.completion_tokens
    assert series.calls.sum() == usage.calls
    assert series.cost.sum() == usage.cost
    policy = summary.policy_writing + summary.learning
    assert series.policy_calls.sum() == policy.calls
    assert series.policy_prompt_tokens.sum() == policy.prompt_tokens


def test_a_step_tried_again_counts_once_and_costs_twice(eventful: SQLiteMemory) -> None:
    series = read(eventful)

    assert series.steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert series.scores[4] == 1.0
    assert series.seconds.tolist() == [2.0, 2.0, 2.0, 2.0, 4.0, 2.0]


def test_versions_and_parts_of_scores_are_columns(eventful: SQLiteMemory) -> None:
    series = read(eventful)

    assert series.versions["predict"].tolist() == [1, 0, 0, 0, 2, 0]
    assert series.subscores["f1"][:2].tolist() == [1.0, 0.5]
    assert np.isnan(series.subscores["f1"][2:]).all()


def test_the_prequential_curve_ends_at_the_score(eventful: SQLiteMemory) -> None:
    series = read(eventful)

    curve = series.prequential()

    assert curve.steps.tolist() == [1, 2, 3, 4, 5]
    assert curve.mean.tolist() == pytest.approx([1.0, 0.625, 1.25 / 3, 1.25 / 4, 2.25 / 5])
    assert curve.mean[-1] == pytest.approx(series.score)
    low, high = wilson(2.25 / 5, 5)
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((float(low), float(high)))


def test_the_rolling_curve_is_that_of_the_summary_once_its_window_is_full(
    eventful: SQLiteMemory,
) -> None:
    curve = read(eventful).rolling(2)

    found = list(zip(curve.steps.tolist(), curve.mean.tolist(), strict=True))
    assert found == rolling_scores(eventful, 2)[1:] == [(2, 0.625), (5, 0.625)]


def test_a_window_that_is_never_full_gives_one_point(eventful: SQLiteMemory) -> None:
    curve = read(eventful).rolling(50)

    assert curve.steps.tolist() == [5]
    assert curve.mean.tolist() == pytest.approx([0.75])


def test_an_empty_run_has_empty_curves_and_no_score() -> None:
    series = read_series(())

    assert math.isnan(series.score)
    assert len(series.prequential().steps) == len(series.rolling().steps) == 0


def test_the_first_steps_stand_alone(eventful: SQLiteMemory) -> None:
    series = read(eventful).first(2)

    assert series.steps.tolist() == [1, 2]
    assert series.score == 0.625
    assert series.versions["predict"].tolist() == [1, 0]
    assert len(series.subscores["f1"]) == 2


def test_a_thinned_curve_keeps_its_ends(memory: SQLiteMemory) -> None:
    for step in range(1, 31):
        add(memory, f"{step:05d}", Feedback(step % 2))

    curve = read(memory).prequential().thinned(7)

    assert len(curve.steps) == 7
    assert (curve.steps[0], curve.steps[-1]) == (1, 30)
    assert curve.mean[-1] == 0.5


def test_a_window_below_one_is_refused(memory: SQLiteMemory) -> None:
    with pytest.raises(ValueError, match="window"):
        read(memory).rolling(0)
