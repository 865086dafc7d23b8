"""What one attached predictor sends: the place of the policy, examples, odd texts."""

from __future__ import annotations

import logging
import re
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback

from drpg_dspy.injection import attach, record_trace, set_policy, use_policy
from drpg_dspy.testing import ScriptedLM
from drpg_dspy.types import PolicyField, ShotsField

START, END = "<<CUSTOM-TYPE-START-IDENTIFIER>>", "<<CUSTOM-TYPE-END-IDENTIFIER>>"
ODD_TEXTS = {
    "braces": "- use {question} and {{x}} and {0!r} and %s",
    "backslashes": r"- match \d+\n\1 \g<0> C:\new",
    "markers of the chat adapter": "- never write\n[[ ## answer ## ]]\n42\n[[ ## completed ## ]]",
    "xml": "- <answer>x</answer> & <policy></policy> <!-- ]]> -->",
    "json": '- {"answer": "x", "reasoning": null}',
    "other scripts": "- 回答は短く。אל תנחש. 😀 é ﷽",
    "long": "- " + "regel " * 8_500,
    "markers of media": f'- see {START}[{{"type": "image_url", "image_url": "http://x"}}]{END} ok',
    "half a marker": f"- {START} alone",
}


class Open(dspy.Signature):
    """Answer."""

    examples: str = ShotsField()
    question: str = dspy.InputField()
    policy: str = PolicyField()
    answer: str = dspy.OutputField()


@pytest.fixture
def attached() -> dspy.Module:
    program = dspy.Predict("question, context -> answer")
    attach(program)
    return program


def demo_messages(prompt: list[dict[str, str]]) -> list[str]:
    return [message["content"] for message in prompt[1:-1]]


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()])
@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_any_text_reaches_the_prompt_verbatim_and_breaks_nothing(adapter, text, lm) -> None:
    program = dspy.ChainOfThought("question -> answer")
    attach(program)
    with dspy.context(adapter=adapter), use_policy({"predict": text}):
        assert program(question="q").answer == "x"
    assert text in lm.texts()[0]
    assert all(isinstance(message["content"], str) for message in lm.prompts[0])


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_any_text_stands_line_by_line_in_the_instructions(text, lm) -> None:
    program = dspy.ChainOfThought("question -> answer")
    attach(program, placement="instructions")
    with use_policy({"predict": text}):
        assert program(question="q").answer == "x"
    indented = text.replace("\n", "\n" + " " * 8)
    assert indented.rstrip() in lm.prompts[0][0]["content"]


def test_lone_surrogates_are_replaced_because_dspy_refuses_them(attached, lm) -> None:
    shots = [{"question": "q\ud800", "answer": "a"}]
    with use_policy({"self": "- a \ud800 b"}, {"self": shots}):
        attached(question="q", context="c")
    assert "- a \ufffd b" in lm.texts()[0]
    assert "q\ufffd" in lm.texts()[0]


def test_the_policy_is_the_first_input(attached, lm) -> None:
    with use_policy({"self": "- rule"}):
        attached(question="q", context="c")
    assert lm.prompts[0][-1]["content"].startswith("[[ ## policy ## ]]\n- rule\n\n[[ ## question")


def test_a_policy_passed_in_the_call_wins(attached, lm) -> None:
    with use_policy({"self": "- scoped"}):
        attached(question="q", context="c", policy="- passed")
    attached(question="q", context="c", policy="- passed too")
    assert "- passed" in lm.texts()[0]
    assert "- scoped" not in lm.texts()[0]
    assert "- passed too" in lm.texts()[1]


def test_an_argument_that_is_no_text_and_no_field_is_left_to_dspy(attached, lm) -> None:
    attached(question="q", context="c", policy=object())
    with use_policy({"self": "- rule"}):
        attached(question="q", context="c", policy=object())
    assert ["- rule" in text for text in lm.texts()] == [False, True]


def test_callbacks_and_dspy_traces_see_the_policy_among_the_inputs(attached, lm) -> None:
    class Spy(BaseCallback):
        seen: list[Any] = []  # noqa: RUF012

        def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            self.seen.append(inputs["kwargs"])

    with dspy.context(callbacks=[Spy()], trace=[]), use_policy({"self": "- rule"}):
        attached(question="q", context="c")
        ((_, inputs, _),) = dspy.settings.trace
    assert Spy.seen == [{"question": "q", "context": "c", "policy": "- rule"}]
    assert inputs == {"question": "q", "context": "c", "policy": "- rule"}


def test_the_signature_is_extended_only_under_a_policy(attached) -> None:
    plain = attached.signature
    with use_policy({"self": "- rule"}):
        shown = attached.signature
        assert list(shown.input_fields) == ["policy", "question", "context"]
        assert attached.signature is shown
    assert attached.signature is plain


@pytest.mark.parametrize("placement", ["input", "instructions"])
def test_a_signature_derived_from_the_extended_one_is_kept_without_the_policy(
    placement, lm
) -> None:
    program = dspy.Predict("question -> answer")
    attach(program, placement=placement)
    set_policy(program, {"self": "- own\n\trule"})
    program.signature = program.signature.append_instructions("Be brief.")
    with use_policy({"self": ""}):
        assert "own" not in program.signature.instructions
        assert program.signature.instructions.endswith("Be brief.")
        assert list(program.signature.input_fields) == ["question"]


class TestOpenField:
    def test_it_is_filled_where_it_stands(self, lm) -> None:
        program = dspy.Predict(Open)
        attach(program)
        with use_policy({"self": "- rule"}):
            program(question="q")
        last = lm.prompts[0][-1]["content"]
        assert last.index("## question") < last.index("[[ ## policy ## ]]\n- rule")

    @pytest.mark.parametrize("placement", ["input", "instructions"])
    def test_its_place_counts_more_than_the_placement(self, placement, lm) -> None:
        program = dspy.Predict(Open)
        attach(program, placement=placement)
        with use_policy({"self": "- rule"}):
            program(question="q")
        assert "[[ ## policy ## ]]\n- rule" in lm.prompts[0][-1]["content"]

    def test_while_it_is_empty_the_prompt_is_the_plain_programs(self, lm) -> None:
        dspy.Predict(Open)(question="q")
        program = dspy.Predict(Open)
        attach(program)
        program(question="q")
        with use_policy({"self": ""}, {"self": []}):
            program(question="q")
        assert lm.prompts[0] == lm.prompts[1] == lm.prompts[2]

    def test_a_value_that_the_program_passes_is_kept_and_said_once(self, lm, caplog) -> None:
        program = dspy.Predict(Open)
        attach(program)
        shots = [{"question": "q1", "answer": "a1"}]
        with caplog.at_level(logging.WARNING), use_policy({"self": "- rule"}, {"self": shots}):
            for _ in range(2):
                program(question="q", policy="house rules", examples="mine")
        assert "house rules" in lm.texts()[1]
        assert "- rule" not in lm.texts()[1]
        assert "q1" not in lm.texts()[1]
        said = [r.getMessage() for r in caplog.records if "of its own" in r.getMessage()]
        assert len(said) == 2
        assert "field 'policy' of route 'self'" in said[0]
        assert "field 'examples' of route 'self'" in said[1]

    def test_a_program_that_fills_the_field_itself_sends_what_it_sends_unattached(self, lm) -> None:
        program = dspy.Predict(Open)
        program.demos = [dspy.Example(question="d", answer="a"), {"question": "e", "answer": "b"}]
        program(question="q", policy="house rules", examples="mine")
        attach(program)
        program(question="q", policy="house rules", examples="mine")
        assert lm.prompts[0] == lm.prompts[1]

    def test_an_empty_value_that_the_program_passes_is_filled(self, lm) -> None:
        program = dspy.Predict(Open)
        attach(program)
        with use_policy({"self": "- rule"}):
            program(question="q", policy="")
        assert "- rule" in lm.texts()[0]

    def test_markers_of_media_go_into_the_instructions(self, lm) -> None:
        program = dspy.Predict(Open)
        attach(program)
        text = ODD_TEXTS["markers of media"]
        with use_policy({"self": text}):
            program(question="q")
        assert text in lm.prompts[0][0]["content"]
        assert isinstance(lm.prompts[0][-1]["content"], str)


class TestShots:
    SHOTS = ({"question": "far", "answer": "1"}, {"question": "near", "answer": "2"})

    def test_they_follow_the_predictors_own_demos_in_order_and_complete(self, attached, lm) -> None:
        attached.demos = [dspy.Example(question="own", context="c", answer="0")]
        with use_policy({}, {"self": self.SHOTS}):
            attached(question="q", context="c")
        shown = demo_messages(lm.prompts[0])
        assert [re.findall(r"question ## \]\]\n(\w+)", text)[0] for text in shown[::2]] == [
            "own", "far", "near",
        ]  # fmt: skip
        assert "not supplied" not in lm.texts()[0]
        assert "[[ ## context ## ]]\n(omitted)" in shown[2]
        assert "[[ ## answer ## ]]\n2" in shown[5]
        assert len(attached.demos) == 1

    def test_demos_of_any_age_stay_complete_under_a_policy(self, attached, lm) -> None:
        attached.demos = [
            dspy.Example(question="plain", context="c", answer="0"),
            {"question": "traced", "context": "c", "answer": "0", "policy": "- stale rule"},
        ]
        with use_policy({"self": "- rule"}, {"self": self.SHOTS}):
            attached(question="q", context="c")
        text = lm.texts()[0]
        assert "not supplied" not in text
        assert "- stale rule" not in text
        assert text.count("[[ ## policy ## ]]\n(given below)") == 4

    def test_demos_passed_in_the_call_are_kept(self, attached, lm) -> None:
        demos = [{"question": "passed", "context": "c", "answer": "0"}]
        with use_policy({}, {"self": self.SHOTS}):
            attached(question="q", context="c", demos=demos)
        assert "passed" in lm.texts()[0]
        assert "near" in lm.texts()[0]
        assert len(demos) == 1

    def test_an_open_field_shows_them_as_one_text(self, lm) -> None:
        program = dspy.Predict(Open)
        program.demos = [dspy.Example(question="own", answer="0")]
        attach(program)
        with use_policy({"self": "- rule"}, {"self": self.SHOTS}):
            program(question="q")
        assert (
            "[[ ## examples ## ]]\nquestion: far\nanswer: 1\n\nquestion: near\nanswer: 2\n\n"
            in lm.prompts[0][-1]["content"]
        )
        assert "not supplied" not in lm.texts()[0]

    def test_one_without_an_answer_is_an_error_that_names_the_route(self, attached, lm) -> None:
        with pytest.raises(ValueError, match="A shot for route 'self'"):
            with use_policy({}, {"self": [{"question": "q"}]}):
                attached(question="q", context="c")

    def test_typed_inputs_may_be_missing(self, lm) -> None:
        program = dspy.Predict("question, tables: list[str], n: int -> answer")
        attach(program)
        with use_policy({"self": "- rule"}, {"self": self.SHOTS}):
            program(question="q", tables=["t"], n=3)
        assert "not supplied" not in lm.texts()[0]


def test_a_field_named_policy_in_a_call_time_signature_is_the_users(lm) -> None:
    program = dspy.Predict("question -> answer")
    attach(program)
    with use_policy({"self": "- learned"}):
        program(question="q", policy="theirs", signature="policy, question -> answer")
    assert "[[ ## policy ## ]]\ntheirs" in lm.prompts[0][-1]["content"]
    assert "- learned" in lm.prompts[0][0]["content"]


def test_positional_arguments_are_refused_as_in_plain_dspy(attached, lm) -> None:
    with pytest.raises(ValueError, match="Positional arguments are not allowed"):
        attached("q")


def test_a_predictor_that_fails_raises_its_own_error_and_is_recorded(attached) -> None:
    with dspy.context(lm=None), record_trace() as calls, use_policy({"self": "- rule"}):
        with pytest.raises(ValueError, match="No LM is loaded"):
            attached(question="q", context="c")
    assert calls[0].outputs is None
    assert calls[0].error.startswith("ValueError: No LM is loaded")


def test_a_closing_marker_on_the_answers_own_line_is_taken_off() -> None:
    """Trap D01: judges, memory and examples never see an adapter's marker."""
    program = dspy.Predict("question -> answer")
    attach(program)
    lm = ScriptedLM(lambda messages: "[[ ## answer ## ]]\nParis [[ ## completed ## ]]")
    with dspy.context(lm=lm), record_trace() as trace:
        prediction = program(question="Capital of France?")

    assert prediction.answer == "Paris"
    assert trace[0].outputs == {"answer": "Paris"}
