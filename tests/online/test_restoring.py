"""A stored answer is judged as the program gave it, and a learner keeps its program's own LMs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import dspy
import pydantic
import pytest

from drpg_dspy import OnlinePolicyOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields


class Bill(pydantic.BaseModel):
    amounts: list[float]

    @property
    def total(self) -> float:
        return sum(self.amounts)


class Read(dspy.Signature):
    photo: dspy.Image = dspy.InputField()
    text: str = dspy.InputField()
    bill: Bill = dspy.OutputField()


PHOTO = dspy.Image("data:image/png;base64,aGVsbG8=")


def total(example: Any, prediction: Any, trace: Any = None) -> float:
    assert isinstance(example.photo, dspy.Image)
    return float(prediction.bill.total == example.total)


@pytest.fixture
def lm() -> Any:
    model = ScriptedLM(lambda messages: fields(bill='{"amounts": [1.5, 2]}'))
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    return SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())


def test_a_metric_written_for_models_judges_late_labels(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(dspy.Predict(Read), ZeroShot(), memory=memory, metric=total)
    late = online(photo=PHOTO, text="a bill")
    online.feedback(late.rollout_id, labels={"total": 3.5})

    assert memory.feedback(late.rollout_id).score == 1.0


def test_a_metric_written_for_models_can_compile(lm: Any, memory: Any) -> None:
    example = dspy.Example(photo=PHOTO, text="a bill", total=3.5).with_inputs("photo", "text")
    learner = OnlinePolicyOptimizer(
        dspy.Predict(Read), SelfStreamICL(k=1), memory=memory, metric=total
    )
    compiled = learner.compile(dspy.Predict(Read), trainset=[example])

    assert len(compiled.demos) == 1


def test_an_example_shows_no_image(lm: Any, memory: Any) -> None:
    class TwoSteps(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = dspy.Predict(Read)
            self.again = dspy.Predict(Read)

        def forward(self, photo: dspy.Image, text: str) -> Any:
            self.read(photo=photo, text=text)
            return self.again(photo=photo, text=text)

    online = OnlinePolicyOptimizer(TwoSteps(), SelfStreamICL(k=1), memory=memory)
    first = online(photo=PHOTO, text="a bill")
    online.feedback(first.rollout_id, score=1.0)
    lm.prompts.clear()
    online(photo=PHOTO, text="another bill")

    for text in lm.texts():
        assert text.count("[image ") == 1
        assert "aGVsbG8=" not in text
        assert '{"amounts": [1.5, 2.0]}' in text


def test_an_answer_without_any_declared_field_is_left_in_plain_form(lm: Any, memory: Any) -> None:
    @dataclasses.dataclass
    class Odd:
        amounts: list[float]

    class Own(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = dspy.Predict(Read)

        def forward(self, photo: dspy.Image, text: str) -> Any:
            self.read(photo=photo, text=text)
            return Odd([1.0])

    seen = []

    def metric(example: Any, answer: Any, trace: Any = None) -> float:
        seen.append(answer)
        return 1.0

    online = OnlinePolicyOptimizer(Own(), ZeroShot(), memory=memory, metric=metric)
    online(photo=PHOTO, text="a bill")
    online.feedback(online.last_rollout_id, labels={"total": 1})

    assert seen == [{"amounts": [1.0]}]


@pytest.mark.parametrize("engine", [True, False])
def test_a_loaded_learner_keeps_the_lms_of_the_program_at_hand(
    lm: Any, memory: Any, tmp_path: Path, engine: bool
) -> None:
    program = dspy.Predict(Read)
    own = lm if engine else dspy.LM("openai/large", api_base="http://127.0.0.1:9/v1", api_key="x")
    program.set_lm(own)
    with OnlinePolicyOptimizer(program, ZeroShot(), memory=memory) as online:
        online.save(tmp_path / "saved")
    assert program.lm is own

    again = dspy.Predict(Read)
    again.set_lm(own)
    fresh = SQLiteMemory(tmp_path / "fresh.sqlite", HashingEmbedder())
    with OnlinePolicyOptimizer(again, ZeroShot(), memory=fresh) as online:
        online.load(tmp_path / "saved")
        assert again.lm is own

    bare = dspy.Predict(Read)
    fresh = SQLiteMemory(tmp_path / "bare.sqlite", HashingEmbedder())
    with OnlinePolicyOptimizer(bare, ZeroShot(), memory=fresh) as online:
        online.load(tmp_path / "saved")
        assert (bare.lm is None) is engine


def test_an_unwrapped_program_is_closed_and_plain(lm: Any, memory: Any) -> None:
    program = dspy.Predict(Read)
    online = OnlinePolicyOptimizer(program, ZeroShot(), memory=memory)

    assert online.unwrap() is program
    assert type(program) is dspy.Predict


def test_callbacks_see_a_call_of_a_module_and_not_a_compilation(lm: Any, memory: Any) -> None:
    from dspy.utils.callback import BaseCallback

    class Watch(BaseCallback):
        said: ClassVar[list[str]] = []

        def on_module_start(self, call_id: str, instance: Any, inputs: Any) -> None:
            self.said.append(type(instance).__name__)

        def on_compile_start(self, call_id: str, instance: Any, inputs: Any) -> None:
            self.said.append("compile")

    online = OnlinePolicyOptimizer(dspy.Predict(Read), ZeroShot(), memory=memory)
    online.callbacks = [Watch()]
    online(photo=PHOTO, text="a bill")

    assert Watch.said == ["Learner"]
    assert len(online.history) == 1
