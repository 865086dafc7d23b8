from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import dspy
import numpy as np
import pytest

from drpg_dspy.types import Feedback, Policy, Rollout, Rule, Usage


def test_a_rule_gets_a_stable_id_from_its_text() -> None:
    assert Rule("Count once.").id == Rule("Count once.").id != Rule("Count twice.").id


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_rule_needs_a_text(text: str) -> None:
    with pytest.raises(ValueError, match="needs a text"):
        Rule(text)


def test_a_policys_text_is_its_rules_and_its_sources_are_named_once() -> None:
    policy = Policy("r", (Rule("A b.", sources=("1", "2")), Rule("C d.", sources=("2", "3"))))

    assert policy.text == "- A b.\n- C d."
    assert policy.sources == ("1", "2", "3")
    assert Policy("r").text == ""


def test_records_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Policy("r").version = 2  # type: ignore[misc]


@pytest.mark.parametrize("score", ["1", None, 1.01, -1, math.inf, object()])
def test_scores_that_are_none_are_refused(score: Any) -> None:
    with pytest.raises(ValueError, match="score"):
        Feedback(score)


@pytest.mark.parametrize("score", [np.array([1.0]), np.array([0.5, 0.5]), 10**400, 1j])
def test_arrays_and_what_no_float_holds_are_no_scores(score: Any) -> None:
    with pytest.raises(ValueError, match="A score must be"):
        Feedback(score)


@pytest.mark.parametrize("score", [np.float32(1.0), np.True_, np.array(1.0), Fraction(1), 1])
def test_a_number_of_any_library_is_a_score(score: Any) -> None:
    assert Feedback(score).score == 1.0


def test_no_text_is_an_empty_text_and_anything_else_is_named() -> None:
    missing: Any = None
    assert Feedback(1.0, text=missing).text == ""
    for name in ("text", "id", "author"):
        with pytest.raises(ValueError, match=f"{name} must be a string, got 7"):
            Feedback(1.0, **{name: 7})


def test_nan_is_a_score_that_judges_nothing() -> None:
    assert not Feedback(math.nan).judged
    assert Feedback(0.0).judged


def test_usage_adds_up() -> None:
    total = Usage(1, 10, 2, 3, 0.5, 1.0) + Usage(2, 5, 1, 0, 0.25, 0.5)

    assert total == Usage(3, 15, 3, 3, 0.75, 1.5)
    assert total.tokens == 18


def test_a_rollouts_answer_is_what_judges_expect() -> None:
    answered = Rollout("1", 1, {}, {"sql": "SELECT 1"})
    assert isinstance(answered.answer, dspy.Prediction)
    assert answered.answer.sql == "SELECT 1"
    assert Rollout("1", 1, {}, {"$value": 3}).answer == 3
    assert Rollout("1", 1, {}, None).failed
