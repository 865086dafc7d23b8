"""Warnings about what would go wrong in silence: template adapters, predictors never attached."""

from __future__ import annotations

import logging
from typing import Any

import dspy
import pytest

from drpg_dspy.injection import attach, use_policy
from drpg_dspy.testing.scripted import ScriptedLM


class Template(dspy.Adapter):
    """Shows only the fields that its template names."""

    template = "{question}"

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, str]]:
        content = self.template.format(**inputs)
        return [
            {"role": "system", "content": signature.instructions},
            {"role": "user", "content": content},
        ]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        return {"answer": completion}


class NamesThePolicy(Template):
    template = "{policy}\n{question}"


class FormatsInstructions(Template):
    """Uses the instructions themselves as the template."""

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, str]]:
        return [{"role": "user", "content": signature.instructions.format(**inputs)}]


class ShowsNothing(Template):
    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, str]]:
        return [{"role": "user", "content": inputs["question"]}]


BRACES = "- quote {names} and {{this}}"


@pytest.fixture
def program() -> dspy.Module:
    made = dspy.Predict(dspy.Signature("question -> answer", "Answer {question}."))
    attach(made)
    return made


@pytest.fixture
def model() -> ScriptedLM:
    return ScriptedLM(["fine"])


def warnings_of(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("drpg_dspy")]


def test_an_adapter_that_hides_the_policy_is_named_once_with_the_remedy(
    program, model, caplog
) -> None:
    with caplog.at_level(logging.WARNING):
        with dspy.context(lm=model, adapter=Template()), use_policy({"self": "- rule"}):
            program(question="q")
            program(question="q")
    (said,) = warnings_of(caplog)
    assert "Template sends" in said
    assert 'placement="instructions"' in said
    attach(program, placement="instructions")
    with dspy.context(lm=model, adapter=Template()), use_policy({"self": "- rule\n- two"}):
        program(question="q")
    assert "- rule" in model.texts()[-1]
    assert len(warnings_of(caplog)) == 1


def test_an_adapter_that_shows_neither_place_is_told_so(program, model, caplog) -> None:
    attach(program, placement="instructions")
    with caplog.at_level(logging.WARNING):
        with dspy.context(lm=model, adapter=ShowsNothing()), use_policy({"self": "- rule"}):
            program(question="q")
    assert "show the signature's instructions" in warnings_of(caplog)[0]


async def test_an_adapter_that_names_the_field_is_left_alone(program, model, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        with dspy.context(lm=model, adapter=NamesThePolicy()), use_policy({"self": BRACES}):
            program(question="q")
            await program.acall(question="q")
    assert all(BRACES in text for text in model.texts())
    assert not warnings_of(caplog)


def test_braces_never_meet_a_template_while_the_policy_is_a_field(program, model) -> None:
    with dspy.context(lm=model, adapter=FormatsInstructions()), use_policy({"self": BRACES}):
        assert program(question="q").answer == "fine"


def test_braces_in_instructions_used_as_a_template_fail_with_the_remedy(program, model) -> None:
    attach(program, placement="instructions")
    with dspy.context(lm=model, adapter=FormatsInstructions()), use_policy({"self": BRACES}):
        with pytest.raises(KeyError) as failure:
            program(question="q")
    assert 'placement="input"' in failure.value.__notes__[0]


def test_dspys_own_adapters_are_not_checked(program, caplog, lm) -> None:
    with caplog.at_level(logging.WARNING), dspy.context(adapter=dspy.ChatAdapter()):
        with use_policy({"self": "- rule"}):
            program(question="q")
    assert not warnings_of(caplog)


class MakesItsOwn(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question, draft -> answer")

    def forward(self, question: str) -> Any:
        draft = dspy.ChainOfThought("question -> fresh_draft")(question=question).fresh_draft
        return self.answer(question=question, draft=draft)


def test_a_predictor_made_inside_forward_is_named_once(lm, caplog) -> None:
    program = MakesItsOwn()
    attach(program)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with use_policy({"answer": "- rule"}):
                program(question="q")
    (said,) = warnings_of(caplog)
    assert "Predict(question -> reasoning, fresh_draft)" in said
    assert "make it in __init__" in said
    assert ["- rule" in text for text in lm.texts()] == [False, True, False, True]


def test_the_advisor_of_refine_is_no_stranger(make_lm, caplog) -> None:
    lm = make_lm(advice={}, discussion="d")
    inner = dspy.Predict("question -> refined")
    program = dspy.Refine(inner, N=2, reward_fn=never_enough, threshold=1.0)
    attach(program)
    with caplog.at_level(logging.WARNING), dspy.context(lm=lm), use_policy({"module": "- rule"}):
        program(question="q")
    assert not warnings_of(caplog)


def never_enough(args: dict[str, Any], prediction: dspy.Prediction) -> float:
    return 0.0


def test_nothing_is_said_without_a_scope(lm, caplog) -> None:
    program = MakesItsOwn()
    attach(program)
    with caplog.at_level(logging.WARNING):
        program(question="q")
    assert not warnings_of(caplog)
