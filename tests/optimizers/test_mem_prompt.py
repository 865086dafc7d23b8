from __future__ import annotations

from typing import Any

import dspy
import pytest

from drpg_dspy import MemPrompt
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import SHOT_VERDICT, ShotsField


def test_the_most_similar_cases_are_shown_most_similar_last_with_their_verdicts(
    learner: Any, teach: Any
) -> None:
    lm, online = ScriptedLM([fields(answer="forty-two")]), learner(MemPrompt(k=2))
    with dspy.context(lm=lm):
        ids = teach(
            online,
            ("how many apples are in may harvested", 1.0),
            ("how many apples are in june harvested", 0.0),
            ("who is the mayor of Lyon", 1.0),
        )
        question = "how many apples are in june eaten"
        rollout = online.predict_one({"context": "", "question": question})

    shots = rollout.guidance.shots["self"]
    assert [(shot["question"].split()[5], shot[SHOT_VERDICT]) for shot in shots] == [
        ("may", "correct"),
        ("june", "wrong"),
    ]
    assert rollout.guidance.retrieved["shots"] == (ids[1], ids[0])
    assert "answer: forty-two\nverdict: wrong\n\n[[ ## context ## ]]" in lm.texts()[-1]
    assert len(lm.prompts) == 4


def test_more_than_memory_holds_shows_all_of_it(learner: Any, teach: Any) -> None:
    online = learner(MemPrompt(k=50))
    with dspy.context(lm=ScriptedLM([fields(answer="x")])):
        teach(online, ("one", 0.0), ("two", 0.0), ("three", 1.0))
        shots = online.propose({"context": "", "question": "two"}).shots["self"]

    assert sorted(shot["question"] for shot in shots) == ["one", "three", "two"]
    assert shots[-1]["question"] == "two"


def test_a_program_with_a_field_for_examples_shows_them_there(learner: Any, teach: Any) -> None:
    class Answer(dspy.Signature):
        """Answer the question."""

        examples: str = ShotsField()
        question: str = dspy.InputField()
        answer: list[int] = dspy.OutputField()

    class Program(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict(Answer)

        def forward(self, question: str, context: str = "") -> dspy.Prediction:
            return self.answer(question=question)

    lm, online = ScriptedLM([fields(answer="[1, 2]")]), learner(MemPrompt(k=2), Program())
    with dspy.context(lm=lm):
        teach(online, ("the first two", 0.0))
        online(question="the first two again")

    first, second = lm.texts()
    assert "verdict" not in first
    assert "question: the first two\nanswer: [1, 2]\nverdict: wrong" in second


async def test_async_calls_see_the_same_cases(learner: Any, teach: Any) -> None:
    online = learner(MemPrompt(k=2))
    with dspy.context(lm=ScriptedLM([fields(answer="x")])):
        teach(online, ("one", 0.0), ("two", 1.0))
        here = online(context="", question="two")
        there = await online.acall(context="", question="two")

    guidances = [online.memory.rollout(p.rollout_id).guidance.shots for p in (here, there)]
    assert guidances[0] == guidances[1]
    assert len(guidances[0]["self"]) == 2


@pytest.mark.parametrize("k", [0, 1.5, None])
def test_a_wrong_k_is_named(k: Any) -> None:
    with pytest.raises(ValueError, match="k must be a whole number"):
        MemPrompt(k)
