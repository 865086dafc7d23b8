"""Answers that violate constraints: checked, put right, repaired, cut."""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import LMUnexpectedError

from drpg_dspy import (
    ConstraintAdapter,
)
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import REVISION
from tests.optimizers.constrained import UNDER_5, play, qa


def test_a_violation_is_named_to_the_model_and_the_repaired_answer_is_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_5, "Tone": "Be kind."})
    lm = play("one two three four five six", "one two three four")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    repair = lm.prompts[1][-1]["content"]
    assert rollout.outputs == {"answer": "one two three four"}
    assert f"[[ ## requirements ## ]]\n- {UNDER_5}\n- Be kind." in repair
    assert (
        "- Write about 3 words, one short sentence: it had 6 words, at most 4 are allowed."
    ) in repair
    assert "one two three four five six" not in repair
    assert "question: How far?" in repair
    assert rollout.usage.calls == 2 == 1 + rules.max_lm_calls
    assert rollout.guidance.counts == {
        "constraints_checked": 1,
        "constraint_violations": 1,
        "constraint_repairs": 1,
    }
    assert rollout.trace[-1].route == REVISION


def test_repair_0_looks_at_no_answer(learner: Any) -> None:
    lm = play("one two three four five six", "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}, repair=0), qa()).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"answer": "one two three four five six"}
    assert rollout.guidance.counts == {}
    assert len(lm.prompts) == 1


def test_an_answer_that_is_right_costs_nothing(learner: Any) -> None:
    lm = play("one two", "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert len(lm.prompts) == 1
    assert rollout.guidance.counts == {"constraints_checked": 1}
    assert len(rollout.trace) == 1


@pytest.mark.parametrize(
    ("worse", "why"),
    [
        ("one two three four five six seven", "as long as before"),
        ("alpha, beta", "breaks what held"),
        ("", "empty"),
        ("I'm sorry, but I can't help.", "a refusal"),
    ],
)
def test_an_answer_that_gets_worse_is_not_given(learner: Any, worse: str, why: str) -> None:
    rules = ConstraintAdapter({"Length": UNDER_5, "No_Commas": "Use no commas."}, mend=False)
    with dspy.context(lm=play("one two three four five six", worse)):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "one two three four five six"}, why
    assert rollout.guidance.counts["constraint_repairs_rejected"] == 1
    assert rollout.guidance.counts["constraint_violations_left"] == 1


def test_a_repair_that_throws_most_of_the_answer_away_is_not_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Keyword": "Mention 'budget' once or more."})
    draft = " ".join(["word"] * 40)
    with dspy.context(lm=play(draft, "the budget")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": draft}


def test_a_repair_that_recites_the_requirement_is_not_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Keyword": "Mention the word 'sea' at least twice."})
    recital = "It is far, and I should mention the word 'sea' at least twice: sea."
    with dspy.context(lm=play("It is far.", recital)):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far."}
    assert rollout.guidance.counts["constraint_repairs_rejected"] == 1


def test_a_quote_that_is_asked_for_is_no_recital(learner: Any) -> None:
    rules = ConstraintAdapter(
        {
            "Keyword": "Mention 'sea' at least once.",
            "Start_With": "Start the answer with 'To whom it may concern'.",
        }
    )
    with dspy.context(lm=play("It is far.", "To whom it may concern: the sea is far.")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "To whom it may concern: the sea is far."}


def test_repairs_stop_at_their_bound_and_keep_the_best(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"Length": UNDER_5, "Keyword": "Mention 'sea' at least once."}, repair=2
    )
    lm = play("a b c d e f", "a b c sea e f", "sea a b c")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "sea a b c"}
    assert rollout.guidance.counts["constraint_repairs"] == 2
    assert len(lm.prompts) == 3


def test_what_takes_no_writer_is_put_right_without_a_call(learner: Any) -> None:
    rules = ConstraintAdapter(
        {
            "Start_With": "Start the answer with 'In short'.",
            "End_With": "End with a question mark.",
            "No_Commas": "Use no commas.",
            "All_Lower": "Write in lowercase.",
        }
    )
    lm = play("It is far, I think.", "x")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "in short – it is far – i think?"}
    assert rollout.guidance.counts["constraint_mends"] == 4
    assert len(lm.prompts) == 1


def test_mending_is_not_done_where_it_is_turned_off(learner: Any) -> None:
    rules = ConstraintAdapter({"All_Lower": "Write in lowercase."}, mend=False)
    lm = play("It Is Far", "it is far away")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "it is far away"}
    assert len(lm.prompts) == 2


def test_a_mend_that_would_break_another_constraint_is_not_made(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"Length": "Answer in exactly 3 words.", "Start_With": "Start the answer with 'Now'."}
    )
    lm = play("It is far", "it is far")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far"}


def test_a_refusal_is_given_as_it_is_and_counted(learner: Any) -> None:
    refusal = "I'm sorry, but I can't help with that request."
    lm = play(refusal, "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"answer": refusal}
    assert rollout.guidance.counts["answers_declined"] == 1
    assert len(lm.prompts) == 1


def test_an_empty_answer_is_asked_for_again_and_never_mended(learner: Any) -> None:
    rules = ConstraintAdapter({"Start_With": "Start the answer with 'Now'."})

    class Empty(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> dspy.Prediction:
            self.answer(question=question)
            return dspy.Prediction(answer="")

    with dspy.context(lm=play("x", "Now it is far.")):
        rollout = learner(rules, Empty()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "Now it is far."}
    assert "constraint_mends" not in rollout.guidance.counts


def test_a_share_bounds_how_many_answers_are_repaired(learner: Any) -> None:
    def repaired(name: str) -> list[bool]:
        rules = ConstraintAdapter({"Length": UNDER_5}, repair_share=0.3)
        online = learner(rules, qa(), name=name)
        with dspy.context(lm=play("one two three four five six", "one two three four")):
            rollouts = [online.predict_one({"question": f"How far is {i}?"}) for i in range(60)]
        return [r.outputs["answer"] == "one two three four" for r in rollouts]

    drawn = repaired("a")
    assert 8 < sum(drawn) < 30
    assert drawn == repaired("b")


def test_the_last_text_of_the_last_predictor_is_the_answer(learner: Any) -> None:
    rules = ConstraintAdapter({"All_Lower": "Write in lowercase."})
    lm = ScriptedLM(lambda messages: fields(reasoning="I Think So", answer="It Is Far"))
    with dspy.context(lm=lm):
        rollout = learner(rules, dspy.ChainOfThought("question -> answer")).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"reasoning": "I Think So", "answer": "it is far"}


def test_a_field_can_be_named_and_must_be_there(learner: Any) -> None:
    lm = ScriptedLM(lambda messages: fields(title="It Is", answer="It Is Far"))
    program = dspy.Predict("question -> title, answer")
    named = ConstraintAdapter({"All_Lower": "Write in lowercase."}, field="title")
    missing = ConstraintAdapter({"All_Lower": "Write in lowercase."}, field="body")
    with dspy.context(lm=lm):
        rollout = learner(named, program, name="a").predict_one({"question": "q"})
        failed = learner(missing, program.deepcopy(), name="b").predict_one({"question": "q"})

    assert rollout.outputs == {"title": "it is", "answer": "It Is Far"}
    assert "field='body'" in failed.error


def test_a_program_that_returns_a_text_or_a_number_is_served(learner: Any) -> None:
    class Plain(dspy.Module):
        def __init__(self, value: Any) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")
            self.value = value

        def forward(self, question: str) -> Any:
            self.answer(question=question)
            return self.value

    rules = {"All_Lower": "Write in lowercase."}
    with dspy.context(lm=play("x", "x")):
        text = learner(ConstraintAdapter(rules), Plain("It Is"), name="a")(question="q")
        number = learner(ConstraintAdapter(rules), Plain(42), name="b")(question="q")

    assert (text, number) == ("it is", 42)


def test_a_dead_model_leaves_the_draft_to_a_served_call(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "first answer was" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="one two three four five six")

    online = learner(ConstraintAdapter({"Length": UNDER_5}), qa())
    with dspy.context(lm=ScriptedLM(reply)):
        prediction = online(question="How far?")

    assert prediction.answer == "one two three four five six"
    assert online.memory.rollout(prediction.rollout_id).guidance.counts == {
        "constraints_checked": 1,
        "constraint_violations": 1,
        "constraint_repairs": 1,
        "constraint_violations_left": 1,
        "revise_failed": 1,
    }


def test_a_dead_model_takes_no_mend_away(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "first answer was" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="It Is Far")

    rules = ConstraintAdapter(
        {"All_Lower": "Write in lowercase.", "Keyword": "Mention 'bus' at least once."}
    )
    online = learner(rules, qa())
    with dspy.context(lm=ScriptedLM(reply)):
        prediction = online(question="How far?")
    counts = online.memory.rollout(prediction.rollout_id).guidance.counts

    assert prediction.answer == "it is far"
    assert (counts["constraint_mends"], counts["revise_failed"]) == (1, 1)
    assert counts["constraint_violations_left"] == 1


def test_a_repair_that_recites_the_advice_is_rejected(learner: Any) -> None:
    recited = "Write about 5 words, one short"
    with dspy.context(lm=play("one two three four five six seven eight nine", recited)):
        rollout = learner(
            ConstraintAdapter({"Length": "Keep the answer under 8 words."}), qa()
        ).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "one two three four five six seven eight nine"}
    assert rollout.guidance.counts["constraint_repairs_rejected"] == 1


def test_the_words_that_were_asked_for_are_not_recited(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"Start_With": "Start with the words Thank you for your question today"}, mend=False
    )
    with dspy.context(lm=play("It is far.", "Thank you for your question today: it is far.")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "Thank you for your question today: it is far."}


def test_a_choice_among_given_words_is_checked_and_left_as_it_is(learner: Any) -> None:
    class Decide(dspy.Signature):
        question: str = dspy.InputField()
        answer: Literal["Yes", "No"] = dspy.OutputField()

    class Explain(dspy.Signature):
        question: str = dspy.InputField()
        reason: str | None = dspy.OutputField()
        answer: Literal["Yes", "No"] = dspy.OutputField()

    upper = {"All_Upper": "Write everything in uppercase."}
    with dspy.context(lm=ScriptedLM(lambda _: fields(reason="it is far", answer="Yes"))):
        alone = learner(ConstraintAdapter(upper), dspy.Predict(Decide), name="a").predict_one(
            {"question": "q"}
        )
        beside = learner(ConstraintAdapter(upper), dspy.Predict(Explain), name="b").predict_one(
            {"question": "q"}
        )

    assert alone.outputs == {"answer": "Yes"}
    assert alone.guidance.counts["constraint_violations_left"] == 1
    assert beside.outputs == {"reason": "IT IS FAR", "answer": "Yes"}


def test_a_field_that_nobody_writes_is_warned_of(
    learner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    learner(ConstraintAdapter({"Tone": "Be kind."}, field="nope"), qa())

    assert "field='nope': no predictor of Predict writes it (they write: answer)" in caplog.text


def test_an_lm_error_is_no_answer_to_a_repair(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "first answer was" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="one two three four five six")

    with dspy.context(lm=ScriptedLM(reply)):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert LMUnexpectedError.__name__ in rollout.error


LONG = "It is far. Take the bus. It leaves at nine from the old market square."
UNDER_9 = {"Length": "Keep the answer under 9 words."}


def test_an_answer_that_stays_too_long_loses_its_last_sentences(learner: Any) -> None:
    lm = play(LONG, LONG)
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter(UNDER_9), qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far. Take the bus."}
    assert len(lm.prompts) == 2
    assert rollout.guidance.counts == {
        "constraints_checked": 1,
        "constraint_violations": 1,
        "constraint_repairs": 1,
        "constraint_repairs_rejected": 1,
        "constraint_cuts": 1,
        "sentences_cut": 1,
    }
    assert rollout.trace[-1].route == REVISION
    assert rollout.trace[-1].inputs == {"answer": LONG}


def test_a_repair_comes_before_a_cut(learner: Any) -> None:
    with dspy.context(lm=play(LONG, "Far; take the bus at nine.")):
        rollout = learner(ConstraintAdapter(UNDER_9), qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "Far; take the bus at nine."}
    assert "constraint_cuts" not in rollout.guidance.counts


def test_an_answer_that_no_lm_is_asked_about_may_be_cut(learner: Any) -> None:
    rules = ConstraintAdapter(UNDER_9, repair_share=1e-9)
    lm = play(LONG, "x")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far. Take the bus."}
    assert len(lm.prompts) == 1


@pytest.mark.parametrize("mend", [False, [], ("case", "commas", "begin", "end")])
def test_cutting_is_left_out_where_it_is_not_asked_for(learner: Any, mend: Any) -> None:
    with dspy.context(lm=play(LONG, LONG)):
        rollout = learner(ConstraintAdapter(UNDER_9, mend=mend), qa()).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"answer": LONG}
    assert rollout.guidance.counts["constraint_violations_left"] == 1


def test_what_may_be_mended_can_be_named(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"All_Lower": "Write in lowercase.", "No_Commas": "Use no commas."}, mend=["case"]
    )
    with dspy.context(lm=play("It is Far, Anna", "still, a comma")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "it is far, anna"}
    assert rules.get_params()["mend"] == ["case"]
