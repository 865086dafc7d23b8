from __future__ import annotations

import math
from typing import Any

import dspy
import numpy as np
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.judging import judge, to_feedback

EXAMPLE = dspy.Example(question="q", answer="a").with_inputs("question")
PREDICTION = dspy.Prediction(answer="a")


def test_metrics_of_two_three_and_five_arguments_are_called() -> None:
    def two(example: Any, prediction: Any) -> bool:
        return bool(example.answer == prediction.answer)

    def three(example: Any, prediction: Any, trace: Any = None) -> float:
        return 0.5

    def five(gold: Any, pred: Any, trace: Any, pred_name: Any, pred_trace: Any) -> Any:
        return dspy.Prediction(score=1.0, feedback="fine")

    assert judge(two, EXAMPLE, PREDICTION).score == 1.0
    assert judge(three, EXAMPLE, PREDICTION).score == 0.5
    assert judge(five, EXAMPLE, PREDICTION).text == "fine"
    assert judge(lambda *args: 1, EXAMPLE, PREDICTION).score == 1.0


def test_a_metric_that_raises_judges_nothing() -> None:
    def broken(example: Any, prediction: Any) -> float:
        raise KeyError("column")

    feedback = judge(broken, EXAMPLE, PREDICTION)

    assert not feedback.judged
    assert "KeyError" in feedback.text


def test_a_judge_that_could_not_judge_says_why() -> None:
    def unable(example: Any, prediction: Any) -> float:
        raise EvaluationFailed("the database is missing")

    assert judge(unable, EXAMPLE, PREDICTION).text == "the database is missing"


@pytest.mark.parametrize("verdict", ["good", None, {"other": 1}, [1]])
def test_what_is_no_score_is_an_error_that_shows_it(verdict: Any) -> None:
    with pytest.raises(ValueError, match="A metric must return"):
        judge(lambda example, prediction: verdict, EXAMPLE, PREDICTION)


def test_a_score_out_of_range_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got 7"):
        judge(lambda example, prediction: 7, EXAMPLE, PREDICTION)


@pytest.mark.parametrize("verdict", [True, np.float64(1.0), np.bool_(True), 1])
def test_scores_of_every_numeric_kind(verdict: Any) -> None:
    assert to_feedback(verdict).score == 1.0


def test_uninformative_verdicts_and_nan_do_not_teach() -> None:
    assert not to_feedback(dspy.Prediction(score=1.0, informative=False)).teaches
    assert not to_feedback(math.nan).teaches
    assert to_feedback(dspy.Prediction(score=0.0, feedback=None)).text == ""
