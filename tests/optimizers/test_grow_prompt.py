from __future__ import annotations

from typing import Any

import dspy
import pytest

from drpg_dspy import GrowPrompt
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import SHOT_VERDICT


def numbered() -> ScriptedLM:
    """Answers with the question's last word."""

    def reply(messages: list[dict[str, str]]) -> str:
        question = messages[-1]["content"].rsplit("[[ ## question ## ]]\n", 1)[1]
        word = question.split("\n")[0].split()[-1]
        return fields(terms=f"terms of {word}", answer=f"it is {word}")

    return ScriptedLM(reply)


def test_the_last_cases_are_shown_oldest_first_with_their_verdicts(
    learner: Any, teach: Any
) -> None:
    lm, online = numbered(), learner(GrowPrompt(last=3))
    with dspy.context(lm=lm):
        ids = teach(online, *[(f"number {i}", float(i % 2)) for i in range(5)])
        rollout = online.predict_one({"context": "NEW", "question": "number 9"})

    cases = lm.prompts[-1][-1]["content"].split("[[ ## context ## ]]")[0].split("\n\n")
    assert [case.splitlines()[-3:] for case in cases[:3]] == [
        ["question: number 2", "answer: it is 2", "verdict: wrong"],
        ["question: number 3", "answer: it is 3", "verdict: correct"],
        ["question: number 4", "answer: it is 4", "verdict: wrong"],
    ]
    assert rollout.guidance.retrieved["shots"] == tuple(reversed(ids[2:]))
    assert "LONG CONTEXT" not in lm.texts()[-1]
    assert len(lm.prompts) == 6


def test_sixteen_cases_unless_told_otherwise(learner: Any, teach: Any) -> None:
    online = learner(GrowPrompt())
    with dspy.context(lm=numbered()):
        teach(online, *[(f"number {i}", 1.0) for i in range(20)])
        shots = online.propose({"context": "", "question": "number 99"}).shots["self"]

    assert [shot["question"] for shot in shots] == [f"number {i}" for i in range(4, 20)]


def test_a_verdict_taken_back_takes_its_case_away(learner: Any, teach: Any) -> None:
    online = learner(GrowPrompt(last=4))
    with dspy.context(lm=numbered()):
        first, _ = teach(online, ("number 1", 1.0), ("number 2", 0.0))
        online.feedback(first, score=0.0)
        revised = online.propose({"context": "", "question": "q"}).shots["self"]
        online.retract(first)
        left = online.propose({"context": "", "question": "q"}).shots["self"]

    assert [(shot["answer"], shot[SHOT_VERDICT]) for shot in revised] == [
        ("it is 2", "wrong"),
        ("it is 1", "wrong"),
    ]
    assert [shot["answer"] for shot in left] == ["it is 2"]


def test_each_route_sees_its_own_calls_with_the_verdict_on_the_answer(
    learner: Any, teach: Any, two_routes: Any
) -> None:
    lm, online = numbered(), learner(GrowPrompt(last=2), two_routes)
    with dspy.context(lm=lm):
        teach(online, ("number 1", 0.0))
        online(question="number 2", context="")

    query, reply = lm.texts()[-2:]
    assert "question: number 1\nterms: terms of 1\nverdict: wrong" in query
    assert "terms: terms of 1\nanswer: it is 1\nverdict: wrong" in reply


def test_a_compiled_program_imitates_no_wrong_answer(learner: Any) -> None:
    def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
        return bool(example.gold == prediction.answer)

    online = learner(GrowPrompt(last=2))
    online.metric = metric
    trainset = [
        dspy.Example(context="c", question=f"number {i}", gold=gold).with_inputs(
            "context", "question"
        )
        for i, gold in enumerate(["it is 0", "other", "it is 2", "it is 3"])
    ]
    with dspy.context(lm=numbered()):
        compiled = online.compile(dspy.Predict("context, question -> answer"), trainset=trainset)

    assert [demo.answer for demo in compiled.demos] == ["it is 2", "it is 3"]
    assert all(SHOT_VERDICT not in demo for demo in compiled.demos)


@pytest.mark.parametrize("last", [0, -1, 2.0, True, "3"])
def test_a_wrong_number_of_cases_is_named(last: Any) -> None:
    with pytest.raises(ValueError, match="last must be a whole number"):
        GrowPrompt(last)
