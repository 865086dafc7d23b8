"""Nothing of the learner's takes an answer down, and everything that went wrong is counted."""

from __future__ import annotations

import asyncio
import logging
import math
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

from drpg_dspy import DRPG, MAMStreamICL, OnlinePolicyOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import Holdout
from drpg_dspy.retrieval import CallableEmbedder, HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.tracking import JSONLTracker
from drpg_dspy.types import Guidance

WRITER = "You coach an assistant"


def script(messages: list[dict[str, str]]) -> str:
    if WRITER in messages[0]["content"]:
        return '{"rules": ["Answer in capital letters."]}'
    return fields(answer="PARIS" if "capital letters" in messages[-1]["content"] else "paris")


def without_writer(messages: list[dict[str, str]]) -> str:
    if WRITER in messages[0]["content"]:
        raise ConnectionError("the writer is down")
    return fields(answer="paris")


@pytest.fixture
def lm() -> Any:
    model = ScriptedLM(script)
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    return SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())


def qa() -> dspy.Module:
    return dspy.Predict("question -> answer")


def exact(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.answer == prediction.answer)


# -- what cannot be recorded


def test_another_workers_embedder_costs_the_record_not_the_answer(
    lm: Any, memory: SQLiteMemory, caplog: Any
) -> None:
    ours = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    theirs = SQLiteMemory(memory.path, CallableEmbedder(lambda t: [[1.0, 0.0]] * len(t), "other"))
    OnlinePolicyOptimizer(qa(), ZeroShot(), memory=theirs)(question="the first vector is theirs")

    with caplog.at_level(logging.WARNING):
        prediction = ours(question="q")

    assert (prediction.answer, prediction.rollout_id, ours.unrecorded) == ("paris", None, 1)
    assert "drpg memory reindex" in caplog.text
    assert memory.count_rollouts() == 1


def test_a_reindexed_memory_under_an_open_learner_still_gives_answers(
    lm: Any, memory: SQLiteMemory
) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    online.feedback(online(question="q").rollout_id, score=0.0)
    SQLiteMemory(memory.path).reindex(HashingEmbedder(64))

    answers = [online(question="q"), asyncio.run(online.acall(question="q"))]

    assert [(answer.answer, answer.rollout_id) for answer in answers] == [("paris", None)] * 2
    assert online.unrecorded == 2


def test_an_embedder_or_key_that_fails_costs_the_record_not_the_answer(
    lm: Any, tmp_path: Path
) -> None:
    def down(texts: list[str]) -> Any:
        raise ConnectionError("the embedding service is down")

    def broken(inputs: Any) -> str:
        raise KeyError("title")

    memory = SQLiteMemory(tmp_path / "m.sqlite", CallableEmbedder(down, "down", 2))
    for options in ({}, {"key": broken}):
        online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, **options)
        assert online(question="q").answer == "paris"
        assert online.unrecorded == 1


def test_a_deleted_memory_is_noticed_and_counted(lm: Any, memory: SQLiteMemory) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online(question="q")
    memory.path.unlink()

    assert online(question="q").rollout_id is None
    assert online.unrecorded == 1


def test_a_tracker_that_raises_inside_the_call_costs_neither_answer_nor_id(
    lm: Any, memory: SQLiteMemory, tmp_path: Path
) -> None:
    class Rude(JSONLTracker):
        def on_rollout(self, rollout: Any) -> None:
            raise RuntimeError("no span")

    with OnlinePolicyOptimizer(
        qa(), ZeroShot(), memory=memory, tracker=Rude(tmp_path / "t.jsonl")
    ) as online:
        assert memory.rollout(online(question="q").rollout_id).outputs == {"answer": "paris"}
        assert online.unrecorded == 0


def test_an_answer_without_a_record_does_not_lend_its_thread_anothers_id(
    lm: Any, memory: SQLiteMemory
) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online(question="q")
    assert online.last_rollout_id

    online(question=object())

    assert (online.last_rollout_id, online.unrecorded) == ("", 1)


# -- a policy that cannot be written


def test_a_dead_policy_writer_costs_the_policy_not_the_examples(memory: SQLiteMemory) -> None:
    dead = ScriptedLM(without_writer)
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    with dspy.context(lm=dead):
        online.feedback(online(question="Capital of France?").rollout_id, score=1.0)
        guidance = memory.rollout(online(question="The capital?").rollout_id).guidance

    assert guidance.counts == {"propose_failed": 1}
    assert guidance.shots == {"self": ({"question": "Capital of France?", "answer": "paris"},)}
    assert "Capital of France?" in dead.texts()[-1]
    assert guidance.usage.calls == 1, "what the failed call took is part of the record"


def test_a_dead_policy_writer_behind_a_guard_is_asked_once(memory: SQLiteMemory) -> None:
    dead = ScriptedLM(without_writer)
    online = OnlinePolicyOptimizer(qa(), Holdout(DRPG(k=2), share=0.001), memory=memory)
    with dspy.context(lm=dead):
        online.feedback(online(question="Capital of France?").rollout_id, score=1.0)
        guidance = memory.rollout(online(question="The capital?").rollout_id).guidance

    assert guidance.counts == {"propose_failed": 1}
    assert guidance.shots
    assert sum(WRITER in text for text in dead.texts()) == 1


def test_a_method_without_examples_of_its_own_is_not_asked_again(
    lm: Any, memory: SQLiteMemory
) -> None:
    class Failing(ZeroShot):
        asked = 0

        def propose(self, inputs: Any, memory: Any) -> Guidance:
            self.asked += 1
            raise ConnectionError("down")

    optimizer = Failing()
    online = OnlinePolicyOptimizer(qa(), optimizer, memory=memory)

    assert online(question="q").answer == "paris"
    assert optimizer.asked == 1


# -- arguments that steer a call


@pytest.mark.parametrize(
    "steering",
    [
        {"lm": ScriptedLM(script)},
        {"config": {"temperature": 0.5}},
        {"demos": [dspy.Example(question="d", answer="e")]},
        {"signature": dspy.Signature("question -> answer", "Be brief.")},
    ],
)
def test_what_steers_a_call_is_passed_on_and_not_recorded(
    lm: Any, memory: SQLiteMemory, steering: dict[str, Any]
) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    rollout = memory.rollout(online(question="q", **steering).rollout_id)

    assert rollout.inputs == {"question": "q"}
    assert rollout.key == "q"
    assert online.predict_one({"question": "q", **steering}).inputs == {"question": "q"}
    assert online.unrecorded == 0


def test_arguments_that_the_program_declares_are_inputs_whatever_they_are_called(
    lm: Any, memory: SQLiteMemory
) -> None:
    class Configured(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = qa()

        def forward(self, question: str, config: dict[str, str], model: Any = None) -> Any:
            return self.predict(question=question, lm=model)

    online = OnlinePolicyOptimizer(Configured(), ZeroShot(), memory=memory)
    prediction = online("q", config={"region": "eu"}, model=ScriptedLM(script))

    assert memory.rollout(prediction.rollout_id).inputs == {
        "question": "q",
        "config": {"region": "eu"},
    }


@pytest.mark.parametrize("how", ["with the call", "by the program"])
def test_the_lm_that_answers_writes_the_policy_however_it_was_given(
    memory: SQLiteMemory, how: str
) -> None:
    lm, program, steering = ScriptedLM(script), qa(), {}
    if how == "by the program":
        program.set_lm(lm)
    else:
        steering = {"lm": lm}
    online = OnlinePolicyOptimizer(program, DRPG(k=2), memory=memory)
    with dspy.context(lm=None):
        online.feedback(online(question="Capital of France?", **steering).rollout_id, score=0.0)

        assert online(question="Capital of France, please?", **steering).answer == "PARIS"
        again = asyncio.run(online.acall(question="Capital of France, then?", **steering))
    assert again.answer == "PARIS"


def test_an_lm_with_the_call_is_refused_where_the_optimizer_chooses_it(
    memory: SQLiteMemory,
) -> None:
    lms = [ScriptedLM(script), ScriptedLM(script)]
    online = OnlinePolicyOptimizer(qa(), MAMStreamICL(lms, k=1), memory=memory)

    with pytest.raises(ValueError, match="leave lm= out"):
        online(question="q", lm=ScriptedLM(script))


# -- labels that teach nothing


def broken_metric(example: Any, prediction: Any, trace: Any = None) -> float:
    raise ZeroDivisionError("no rows")


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (broken_metric, "no rows"),
        (lambda example, prediction: math.nan, "judged nothing"),
        (lambda example, prediction: None, "A metric must return"),
        (lambda example, prediction: np.array([0.5]), "A metric must return"),
    ],
)
def test_labels_that_teach_nothing_are_counted(
    lm: Any, memory: SQLiteMemory, caplog: Any, metric: Any, said: str
) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=metric)
    with caplog.at_level(logging.WARNING):
        assert online(question="q", labels={"answer": "paris"}).answer == "paris"

    assert (online.unlearned, memory.count()) == (1, 0)
    assert said in caplog.text


def test_labels_of_any_kind_cost_no_answer(lm: Any, memory: SQLiteMemory) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)

    assert online(question="q", labels={1: "not a name"}).answer == "paris"
    assert online.unlearned == 1


# -- what people say


@pytest.mark.parametrize("score", [np.float32(1.0), np.bool_(True), np.int64(1), np.array(1.0)])
def test_scores_of_other_libraries_count(lm: Any, memory: SQLiteMemory, score: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.feedback(online(question="q").rollout_id, score=score, text=None, id=None)

    assert memory.count("correct") == 1


@pytest.mark.parametrize("score", [np.array([1.0]), np.array([1.0, 0.0]), [1.0], 10**400])
def test_arrays_are_no_scores(lm: Any, memory: SQLiteMemory, score: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    prediction = online(question="q")

    with pytest.raises(ValueError, match="A score must be"):
        online.feedback(prediction.rollout_id, score=score)


@pytest.mark.parametrize("name", ["text", "id", "author"])
def test_what_is_no_text_is_named(lm: Any, memory: SQLiteMemory, name: str) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    prediction = online(question="q")

    with pytest.raises(ValueError, match=f"Feedback {name} must be a string, got 7"):
        online.feedback(prediction.rollout_id, score=1.0, **{name: 7})


@pytest.mark.parametrize("optimizer", [DRPG(k=2, feedback_text=True), SelfStreamICL(k=2)])
def test_half_a_character_anywhere_breaks_no_later_call(
    lm: Any, tmp_path: Path, optimizer: Any
) -> None:
    class Cut(dspy.Module):
        task_description = "Answer \udfff briefly."

        def __init__(self) -> None:
            super().__init__()
            self.predict = qa()

        def forward(self, question: str, note: str = "") -> Any:
            answer = self.predict(question=question).answer
            return dspy.Prediction(answer=answer + "\ud83d", parts=["\ud83d"])

    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    online = OnlinePolicyOptimizer(Cut(), optimizer, memory=memory)
    for score in (0.0, 1.0):
        prediction = online(question="Capital of France?", note="cut \ud83d")
        online.feedback(
            prediction.rollout_id, score=score, text="cut \ud83d", author="person:\ud83d"
        )

    counts = memory.rollout(online(question="Capital of France?").rollout_id).guidance.counts
    assert "propose_failed" not in counts
    assert online.unrecorded == 0
