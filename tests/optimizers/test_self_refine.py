from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import LMUnexpectedError

from drpg_dspy import Holdout, SelfRefine
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import REVISION

Reply = str | Callable[[list[dict[str, str]]], str]


def kind(messages: list[dict[str, str]]) -> str:
    system = messages[0]["content"]
    if "needs_refinement" in system:
        return "review"
    return "refine" if "reviewer commented" in system else "program"


def play(program: Reply, review: Reply, refine: Reply) -> ScriptedLM:
    """A model with a reply, or a function of the messages, for each kind of call."""
    replies = {"program": program, "review": review, "refine": refine}

    def reply(messages: list[dict[str, str]]) -> str:
        chosen = replies[kind(messages)]
        return chosen if isinstance(chosen, str) else chosen(messages)

    return ScriptedLM(reply)


def kinds(lm: ScriptedLM) -> list[str]:
    return [kind(messages) for messages in lm.prompts]


def dead(messages: Any) -> str:
    raise ConnectionError("no route to host")


def review(text: str, again: Any = True) -> str:
    return fields(review=text, needs_refinement=again)


FINE = review("Nothing has to change.", again=False)
BAD = review("Name the unit.")


def qa() -> dspy.Module:
    return dspy.Predict("question -> answer")


def test_an_answer_that_needs_nothing_costs_one_call_more(learner: Any) -> None:
    lm, online = play(fields(answer="42"), FINE, dead), learner(SelfRefine(), qa())
    with dspy.context(lm=lm):
        prediction = online(question="6 x 7?")

    rollout = online.memory.rollout(prediction.rollout_id)
    assert prediction.answer == "42"
    assert kinds(lm) == ["program", "review"]
    assert rollout.guidance.counts == {}
    assert [call.route for call in rollout.trace] == ["self"]


def test_four_rounds_are_nine_calls_and_the_last_answer_is_given(learner: Any) -> None:
    def refine(messages: list[dict[str, str]]) -> str:
        return fields(answer=f"attempt {messages[-1]['content'].count('review: Name') + 1}")

    lm, online = play(fields(answer="attempt 1"), BAD, refine), learner(SelfRefine(), qa())
    with dspy.context(lm=lm):
        rollout = online.predict_one({"question": "How far?"})

    assert kinds(lm) == ["program"] + ["review", "refine"] * 4
    assert rollout.outputs == {"answer": "attempt 5"}
    assert rollout.usage.calls == 9 == 1 + online.optimizer.max_lm_calls
    assert rollout.guidance.counts == {"refinements": 4}
    assert rollout.trace[0].outputs == {"answer": "attempt 1"}
    assert (rollout.trace[1].route, rollout.trace[1].outputs) == (REVISION, rollout.outputs)


def test_the_review_sees_the_last_answer_and_the_refinement_all_of_them(learner: Any) -> None:
    steps = iter(range(2, 9))
    lm = play(
        fields(answer="attempt 1"),
        lambda m: review("on attempt " + m[-1]["content"].rsplit("answer: attempt ")[-1][0]),
        lambda m: fields(answer=f"attempt {next(steps)}"),
    )
    program = dspy.Predict(dspy.Signature("context, question -> answer", "State the distance."))
    with dspy.context(lm=lm):
        learner(SelfRefine(rounds=3), program)(context="a road of 5 km", question="How far?")

    last_review, last_refinement = (messages[-1]["content"] for messages in lm.prompts[-2:])
    for text in (last_review, last_refinement):
        assert "State the distance." in text
        assert "context: a road of 5 km\nquestion: How far?" in text
    assert "attempt 3" in last_review
    assert not any(f"attempt {i}" in last_review for i in (1, 2))
    assert (
        "[[ ## attempts ## ]]\n"
        "answer: attempt 1\nreview: on attempt 1\n\n"
        "answer: attempt 2\nreview: on attempt 2\n\n"
        "answer: attempt 3\nreview: on attempt 3\n\n"
    ) in last_refinement


def test_the_rounds_end_as_soon_as_nothing_has_to_change(learner: Any) -> None:
    lm = play(
        fields(answer="5"),
        lambda m: FINE if "5 km" in m[-1]["content"] else BAD,
        fields(answer="5 km"),
    )
    with dspy.context(lm=lm):
        rollout = learner(SelfRefine(), qa()).predict_one({"question": "How far?"})

    assert kinds(lm) == ["program", "review", "refine", "review"]
    assert rollout.outputs == {"answer": "5 km"}
    assert rollout.guidance.counts == {"refinements": 1}


@pytest.mark.parametrize(
    ("reply", "refined"),
    [
        (json.dumps({"review": "Fine.", "needs_refinement": False}), False),
        (json.dumps({"review": "Name the unit.", "needs_refinement": True}), True),
        ("[[ ## review ## ]]\nNothing.\n[[ ## needs_refinement ## ]]\nNo, it is fine.", False),
        ("[[ ## review ## ]]\nUnit?\n[[ ## needs_refinement ## ]]\nYes. Name the unit.", True),
        ("The unit is missing.\n\n**needs_refinement:** true", True),
        ("All right.\nneeds_refinement = false.", False),
        ("[[ ## review ## ]]\nx\n[[ ## needs_refinement ## ]]\nFalse [[ ## completed ## ]]", False),
    ],
)
def test_a_review_is_read_in_whatever_form_it_comes(
    learner: Any, reply: str, refined: bool
) -> None:
    lm = play(fields(answer="5"), reply, fields(answer="5 km"))
    with dspy.context(lm=lm):
        rollout = learner(SelfRefine(rounds=1), qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "5 km" if refined else "5"}
    assert "refine_unparsable" not in rollout.guidance.counts


@pytest.mark.parametrize("reply", ["", "I would not change a thing.", "[]", "{", "5" * 50_000])
def test_a_review_that_cannot_be_read_counts_and_ends_the_rounds(learner: Any, reply: str) -> None:
    lm = play(fields(answer="5"), reply, dead)
    with dspy.context(lm=lm):
        rollout = learner(SelfRefine(), qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "5"}
    assert rollout.guidance.counts == {"refine_unparsable": 1}
    assert kinds(lm) == ["program", "review"]


def test_an_answer_rewritten_past_reading_leaves_the_one_before(learner: Any) -> None:
    replies = iter([fields(answer="5 km"), "I refuse."])
    lm = play(fields(answer="5"), BAD, lambda m: next(replies))
    with dspy.context(lm=lm):
        rollout = learner(SelfRefine(), qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "5 km"}
    assert rollout.guidance.counts == {"refinements": 1, "refine_unparsable": 1}


def test_with_a_dead_lm_the_first_answer_is_served_and_a_step_fails(learner: Any) -> None:
    online = learner(SelfRefine(), qa())
    with dspy.context(lm=play(fields(answer="5"), BAD, dead)):
        served = online(question="How far?")
        step = online.predict_one({"question": "How far?"})

    rollout = online.memory.rollout(served.rollout_id)
    assert served.answer == "5"
    assert rollout.guidance.counts == step.guidance.counts == {"revise_failed": 1}
    assert rollout.usage.calls == step.usage.calls == 3
    assert step.failed
    assert "no route to host" in step.error


async def test_many_async_calls_are_refined_each_on_its_own(learner: Any) -> None:
    def asked(messages: list[dict[str, str]]) -> str:
        return re.findall(r"number (\d)", messages[-1]["content"])[0]

    lm = play(
        lambda m: fields(answer=f"{asked(m)}"),
        lambda m: FINE if "km" in m[-1]["content"] else BAD,
        lambda m: fields(answer=f"{asked(m)} km"),
    )
    online = learner(SelfRefine(), qa())
    with dspy.context(lm=lm):
        predictions = await asyncio.gather(
            *(online.acall(question=f"number {i} ?") for i in range(8))
        )

    assert [prediction.answer for prediction in predictions] == [f"{i} km" for i in range(8)]
    assert all(online.memory.rollout(p.rollout_id).usage.calls == 4 for p in predictions)


class Trip(dspy.Signature):
    """Plan a trip."""

    wish: str = dspy.InputField()
    stops: list[str] = dspy.OutputField(desc="towns in order")
    days: int = dspy.OutputField()
    season: Literal["summer", "winter"] = dspy.OutputField()


def test_all_fields_are_refined_together_and_keep_their_types(learner: Any) -> None:
    lm = play(
        fields(stops='["Lyon"]', days=3, season="summer"),
        lambda m: FINE if "Nice" in m[-1]["content"] else review("Too short."),
        fields(stops='["Lyon", "Nice"]', days="7", season="winter"),
    )
    with dspy.context(lm=lm):
        prediction = learner(SelfRefine(), dspy.Predict(Trip))(wish="the south")

    assert (prediction.stops, prediction.days, prediction.season) == (["Lyon", "Nice"], 7, "winter")
    refinement = lm.texts()[2]
    assert "towns in order" in refinement
    assert 'stops: ["Lyon"]\ndays: 3\nseason: summer\nreview: Too short.' in refinement


def test_a_refinement_of_the_wrong_type_is_no_answer(learner: Any) -> None:
    lm = play(
        fields(stops='["Lyon"]', days=3, season="summer"),
        BAD,
        fields(stops='["Lyon"]', days="a week", season="summer"),
    )
    with dspy.context(lm=lm):
        rollout = learner(SelfRefine(), dspy.Predict(Trip)).predict_one({"wish": "the south"})

    assert rollout.outputs["days"] == 3
    assert rollout.guidance.counts == {"refine_unparsable": 1}


def test_of_several_routes_the_final_answers_fields_are_refined(
    learner: Any, two_routes: Any
) -> None:
    class Wrapped(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = two_routes

        def forward(self, question: str) -> dspy.Prediction:
            answer = self.inner(question=question).answer
            return dspy.Prediction(answer=answer, passages=["kept"], tries=1)

    lm = play(fields(terms="t", answer="5"), lambda m: BAD, fields(answer="5 km"))
    online = learner(SelfRefine(rounds=1), Wrapped())
    with dspy.context(lm=lm):
        rollout = online.predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "5 km", "passages": ["kept"], "tries": 1}
    assert [call.route for call in rollout.trace] == ["inner.query", "inner.reply", REVISION]
    assert "passages" not in lm.texts()[-1]


def test_chain_of_thought_is_refined_with_its_reasoning(learner: Any) -> None:
    lm = play(
        fields(reasoning="because", answer="5"),
        BAD,
        fields(reasoning="units matter", answer="5 km"),
    )
    program = dspy.ChainOfThought("question -> answer")
    with dspy.context(lm=lm):
        prediction = learner(SelfRefine(rounds=1), program)(question="How far?")

    assert (prediction.reasoning, prediction.answer) == ("units matter", "5 km")
    assert "reasoning: because\nanswer: 5" in lm.texts()[1]


def test_fields_with_our_own_names_keep_theirs(learner: Any) -> None:
    lm = play(
        fields(task="a", review="b", attempts="c"),
        BAD,
        fields(task="A", review="B", attempts="C"),
    )
    program = dspy.Predict("inputs, lm_name -> task, review, attempts")
    with dspy.context(lm=lm):
        prediction = learner(SelfRefine(rounds=1), program)(inputs="i", lm_name="n")

    assert (prediction.task, prediction.review, prediction.attempts) == ("A", "B", "C")
    assert "task: a\nreview: b\nattempts: c\nreview_: Name the unit." in lm.texts()[-1]


@pytest.mark.parametrize(("first", "second"), [("5", "5 km"), (5, 6), ([5], [6])])
def test_a_plain_value_is_refined_as_such(learner: Any, first: Any, second: Any) -> None:
    class Plain(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ask = dspy.Predict("question -> result")

        def forward(self, question: str) -> Any:
            self.ask(question=question)
            return first

    online = learner(SelfRefine(rounds=1), Plain())
    with dspy.context(lm=play(fields(result="x"), BAD, fields(answer=json.dumps(second)))):
        answer = online(question="How far?")

    assert answer == (json.dumps(second) if isinstance(second, str) else second)
    assert online.memory.rollout(online.last_rollout_id).answer == answer


def test_an_answer_with_nothing_to_refine_is_named(learner: Any) -> None:
    class Opaque(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ask = dspy.Predict("question -> result")

        def forward(self, question: str) -> dspy.Prediction:
            self.ask(question=question)
            return dspy.Prediction(table={"rows": []})

    with dspy.context(lm=play(fields(result="x"), BAD, dead)):
        rollout = learner(SelfRefine(), Opaque()).predict_one({"question": "q"})

    assert "nothing to refine in a Prediction of table" in rollout.error


def test_a_closing_marker_on_the_answers_line_is_taken_off(learner: Any) -> None:
    lm = play(fields(answer="5"), BAD, "[[ ## answer ## ]]\n5 km [[ ## completed ## ]]")
    with dspy.context(lm=lm):
        assert learner(SelfRefine(rounds=1), qa())(question="How far?").answer == "5 km"


def test_an_awkward_answer_reaches_the_reviewer_verbatim(learner: Any) -> None:
    awkward = 'Use {braces} and \\1, <answer>x</answer>, "quotes", 規則'
    lm = play(fields(answer=awkward), FINE, dead)
    with dspy.context(lm=lm):
        prediction = learner(SelfRefine(), qa())(question=awkward)

    assert prediction.answer == awkward
    assert f"question: {awkward}" in lm.texts()[1]
    assert f"answer: {awkward}" in lm.texts()[1]


def test_verdicts_teach_it_nothing(learner: Any, teach: Any) -> None:
    lm, online = play(fields(answer="5"), FINE, dead), learner(SelfRefine())
    with dspy.context(lm=lm):
        teach(online, ("How far?", 0.0), ("How far?", 1.0))
        rollout = online.predict_one({"context": "LONG CONTEXT", "question": "How far?"})

    assert not rollout.guidance.shots
    assert lm.prompts[0] == lm.prompts[4]


def test_a_guarded_one_refines_too(learner: Any) -> None:
    online = learner(Holdout(SelfRefine(rounds=1)), qa())
    with dspy.context(lm=play(fields(answer="5"), BAD, fields(answer="5 km"))):
        assert online(question="How far?").answer == "5 km"
    assert online.optimizer.max_lm_calls == 2


def test_a_dead_program_is_not_reviewed(learner: Any) -> None:
    lm, online = play(dead, FINE, dead), learner(SelfRefine(), qa())
    with dspy.context(lm=lm), pytest.raises(LMUnexpectedError):
        online(question="How far?")

    assert kinds(lm) == ["program"]


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True, None])
def test_wrong_rounds_are_named(rounds: Any) -> None:
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1"):
        SelfRefine(rounds)
