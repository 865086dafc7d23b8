from __future__ import annotations

import asyncio
import datetime as dt
import threading
from typing import Any

import dspy
import pydantic
import pytest

from drpg_dspy.injection import attach, record_trace, use_policy
from drpg_dspy.plain import from_plain, to_plain
from drpg_dspy.types import PolicyField, ShotsField


class Person(pydantic.BaseModel):
    name: str


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


class TwoStep(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = dspy.Predict("question -> draft")
        self.b = dspy.ChainOfThought("question, draft -> answer")

    def forward(self, question: str) -> Any:
        return self.b(question=question, draft=self.a(question=question).draft)

    async def aforward(self, question: str) -> Any:
        draft = (await self.a.acall(question=question)).draft
        return await self.b.acall(question=question, draft=draft)


@pytest.fixture
def program() -> dspy.Module:
    made = TwoStep()
    attach(made)
    return made


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_calls_stand_in_the_order_in_which_they_ended(how, program, lm) -> None:
    with record_trace() as calls, use_policy({"a": "- rule"}, {"b": [{"answer": "s"}]}):
        await program.acall(question="q") if how == "async" else program(question="q")
    assert [(call.route, call.inputs) for call in calls] == [
        ("a", {"question": "q"}),
        ("b.predict", {"question": "q", "draft": "x"}),
    ]
    assert calls[1].outputs == {"reasoning": "x", "answer": "x"}
    assert calls[0].error == ""


def test_open_fields_and_steering_arguments_are_left_out(lm) -> None:
    class Open(dspy.Signature):
        """Answer."""

        policy: str = PolicyField()
        examples: str = ShotsField()
        question: str = dspy.InputField()
        answer: str = dspy.OutputField()

    program = dspy.Predict(Open)
    attach(program)
    with record_trace() as calls, use_policy({"self": "- r"}, {"self": [{"answer": "s"}]}):
        program(question="q", examples="", config={"max_tokens": 9}, lm=lm, demos=[])
    assert calls[0].inputs == {"question": "q"}


def test_a_failed_call_has_its_error_and_no_outputs(program, make_lm) -> None:
    def dies(messages: Any) -> str:
        raise RuntimeError("server is down")

    lm = make_lm(answer=dies)
    with record_trace() as calls, dspy.context(lm=lm), pytest.raises(dspy.LMError):
        program(question="q")
    assert [call.outputs is None for call in calls] == [False, True]
    assert "server is down" in calls[1].error
    assert calls[1].inputs == {"question": "q", "draft": "x"}


def test_an_answer_that_cannot_be_parsed_is_recorded_as_the_failure_of_its_route(
    program, make_lm
) -> None:
    lm = make_lm()
    lm.script_engine.script = lambda messages: "no form at all"
    with record_trace() as calls, dspy.context(lm=lm):
        with pytest.raises(dspy.utils.exceptions.AdapterParseError):
            program(question="q")
    assert [(call.route, call.error.split(":")[0]) for call in calls] == [
        ("a", "AdapterParseError")
    ]


def test_a_predictor_called_by_forward_is_recorded_once(lm) -> None:
    program = dspy.Predict("question -> answer")
    attach(program)
    with record_trace() as calls:
        program.forward(question="q")
        asyncio.run(program.aforward(question="r"))
        program(question="s")
    assert [call.inputs["question"] for call in calls] == ["q", "r", "s"]


def test_values_are_copies_that_have_a_plain_form(lm) -> None:
    program = dspy.Predict("anything: Any, person -> answer")
    attach(program)
    tool = dspy.Tool(lambda city: city, name="find", desc="d")
    loop: dict[str, Any] = {}
    loop["self"] = loop
    values = {
        "when": dt.datetime(2026, 1, 2), "who": [Person(name="Ada")], "odd": Opaque(),
        "tool": tool, "loop": loop, "set": {2, 1},
    }  # fmt: skip
    with record_trace() as calls:
        program(anything=values, person=Opaque())
    values["when"] = None
    seen = calls[0].inputs["anything"]
    assert seen["when"] == dt.datetime(2026, 1, 2)
    assert seen["who"] == [{"name": "Ada"}]
    assert seen["odd"] == calls[0].inputs["person"] == "<opaque>"
    assert seen["set"] == {1, 2}
    assert from_plain(to_plain(dict(calls[0].inputs))) == calls[0].inputs


def test_inputs_are_those_before_the_call_changed_them(lm) -> None:
    class Changes(dspy.Predict):
        def forward(self, notes: list[str]) -> Any:
            notes.append("more")
            return super().forward(notes=notes)

    program = Changes("notes: list[str] -> answer")
    attach(program)
    with record_trace() as calls:
        program(notes=["one"])
    assert calls[0].inputs == {"notes": ["one"]}


def test_recordings_nest(program, lm) -> None:
    with record_trace() as outer:
        program(question="q")
        with record_trace() as inner:
            program(question="r")
    assert [call.inputs["question"] for call in inner] == ["r", "r"]
    assert [call.inputs["question"] for call in outer] == ["q", "q", "r", "r"]


def test_workers_and_plain_threads_are_recorded(program, lm) -> None:
    pairs = [(program, {"question": str(i)}) for i in range(6)]
    with record_trace() as calls:
        dspy.Parallel(num_threads=3, disable_progress_bar=True)(pairs)
        thread = threading.Thread(target=with_lm, args=(lm, program))
        thread.start()
        thread.join()
    assert len(calls) == 14
    assert {call.inputs["question"] for call in calls} == {*"012345", "plain thread"}


def with_lm(lm: Any, program: dspy.Module) -> None:
    with dspy.context(lm=lm):
        program(question="plain thread")


def test_what_is_no_prediction_is_recorded_as_a_value(lm) -> None:
    class Number(dspy.Predict):
        def forward(self, question: str) -> Any:
            return len(super().forward(question=question).answer)

    program = Number("question -> answer")
    attach(program)
    with record_trace() as calls:
        assert program(question="q") == 1
    assert list(calls[0].outputs.values()) == [1]
