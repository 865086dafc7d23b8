"""An optimizer that chooses who answers, and one that changes answers before they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import dspy
import pytest
from dspy.utils.exceptions import LMUnexpectedError

from drpg_dspy import DRPG, Holdout, MAMStreamICL, OnlinePolicyOptimizer, Revision
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online.defaults import flat_params
from drpg_dspy.optimizers import OnlineOptimizer
from drpg_dspy.optimizers.shots import shots_by_route
from drpg_dspy.plain import dumps
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.streaming import Retry
from drpg_dspy.streaming.attempts import answer_with_retries
from drpg_dspy.streaming.settings import identity
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import REVISION, Feedback, Guidance


class Reviser(OnlineOptimizer):
    """Asks an LM to shout each answer; ``fails`` plays what goes wrong."""

    name: ClassVar[str] = "reviser"
    max_lm_calls: ClassVar[int] = 1

    def __init__(self, fails: Callable[[], Any] | None = None) -> None:
        self.fails = fails
        self.threads: list[int] = []

    def propose(self, inputs: Any, memory: Any) -> Guidance:
        return Guidance()

    def revise(self, inputs: Any, answer: Any, guidance: Any, memory: Any) -> Revision:
        self.threads.append(threading.get_ident())
        if self.fails is not None:
            return self.fails()  # type: ignore[no-any-return]
        shout = dspy.Predict("quiet -> loud")
        if not isinstance(answer, dspy.Prediction):
            return Revision(shout(quiet=str(answer)).loud)
        return Revision(answer.copy(answer=shout(quiet=answer.answer).loud), {"shouts": 1})


class Two(dspy.Module):
    """Two routes, and two methods beside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("question -> sketch")
        self.write = dspy.Predict("question, sketch -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        sketch = self.draft(question=question).sketch
        return dspy.Prediction(answer=self.write(question=question, sketch=sketch).answer, n=1)

    def ask(self, question: str) -> dspy.Prediction:
        return self.write(question=question, sketch="none")

    def length(self, question: str) -> int:
        return len(question)


def reply(messages: list[dict[str, str]]) -> str:
    """Answer in small letters, and in capital ones to whoever asks for loudness."""
    asked = messages[0]["content"].split("Your output fields are:")[1]
    if "`loud`" in asked:
        return fields(loud="PARIS")
    return fields(answer="paris") if "`answer`" in asked else fields(sketch="s")


@pytest.fixture
def lm() -> Any:
    model = ScriptedLM(reply)
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    return SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())


def dead() -> Revision:
    raise ConnectionError("no route to host")


def test_the_revised_answer_is_given_recorded_judged_and_learned_from(lm: Any, memory: Any) -> None:
    judged = []

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        judged.append(prediction.answer)
        return 1.0

    online = OnlinePolicyOptimizer(Two(), Reviser(), memory=memory, metric=metric)
    prediction = online(question="q", labels={"gold": "PARIS"})

    assert (prediction.answer, prediction.n) == ("PARIS", 1)
    assert judged == ["PARIS"]
    rollout = memory.rollout(prediction.rollout_id)
    assert rollout.outputs == {"answer": "PARIS", "n": 1}
    assert rollout.guidance.counts == {"shouts": 1}
    assert [case.rollout.outputs["answer"] for case in memory.recent(1)] == ["PARIS"]


def test_revising_is_metered_and_its_calls_are_not_in_the_trace(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(), memory=memory)
    with dspy.context(trace=[]):
        prediction = online(question="q")
        traced = [predictor for predictor, _, _ in dspy.settings.trace]

    rollout = memory.rollout(prediction.rollout_id)
    assert rollout.usage.calls == len(lm.prompts) == 3
    assert [call.route for call in rollout.trace] == ["draft", "write", REVISION]
    assert rollout.trace[1].outputs == {"answer": "paris"}
    assert rollout.trace[2].inputs == {"answer": "paris"}
    assert rollout.trace[2].outputs == {"answer": "PARIS"}
    assert traced == [online.program.draft, online.program.write]


def test_examples_show_what_became_of_the_answer(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(), memory=memory)
    online.feedback(online(question="q").rollout_id, score=1.0)

    shots = shots_by_route(memory.recent(1), online.card)

    assert shots["write"][0]["answer"] == "PARIS"
    assert shots["draft"][0] == {"question": "q", "sketch": "s"}


@pytest.mark.parametrize(
    ("fails", "reason"),
    [(dead, "no route"), (lambda: "PARIS", "must return a Revision"), (lambda: Revision(1, 5), "")],
)
def test_a_failing_revision_takes_no_served_answer_down(
    lm: Any, memory: Any, caplog: Any, fails: Any, reason: str
) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(fails), memory=memory)
    prediction = online(question="q")

    rollout = memory.rollout(prediction.rollout_id)
    assert prediction.answer == rollout.outputs["answer"] == "paris"
    assert rollout.guidance.counts == {"revise_failed": 1}
    assert reason in caplog.text


def test_a_failing_revision_makes_a_step_of_a_run_fail(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(dead), memory=memory)
    rollout = online.predict_one({"question": "q"})

    assert rollout.failed
    assert rollout.error == "ConnectionError: no route to host"
    assert rollout.usage.calls == 2
    assert rollout.guidance.counts == {"revise_failed": 1}


def test_a_step_that_succeeds_when_tried_again_did_not_fail(lm: Any, memory: Any) -> None:
    optimizer = Reviser(dead)
    online = OnlinePolicyOptimizer(Two(), optimizer, memory=memory)

    def recover(seconds: float) -> None:
        optimizer.fails = None

    rollout, error = answer_with_retries(online, {"question": "q"}, "r", 1, Retry(sleep=recover))

    assert error is None
    assert rollout.outputs["answer"] == "PARIS"
    assert rollout.guidance.counts == {"shouts": 1, "step_retries": 1}


async def test_an_async_answer_is_revised_beside_the_event_loop(lm: Any, memory: Any) -> None:
    optimizer = Reviser()
    online = OnlinePolicyOptimizer(Two(), optimizer, memory=memory)
    prediction = await online.acall(question="q")

    rollout = memory.rollout(prediction.rollout_id)
    assert prediction.answer == rollout.outputs["answer"] == "PARIS"
    assert rollout.usage.calls == 3
    assert optimizer.threads != [threading.get_ident()]


async def test_a_failing_revision_takes_no_async_answer_down(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(dead), memory=memory)
    prediction = await online.acall(question="q")

    assert prediction.answer == "paris"
    assert memory.rollout(prediction.rollout_id).guidance.counts == {"revise_failed": 1}


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_stream_ends_with_the_revised_answer_and_shows_no_other_call(
    lm: Any, memory: Any, is_async: bool
) -> None:
    online = OnlinePolicyOptimizer(
        dspy.Predict("question, sketch -> answer"), Reviser(), memory=memory
    )
    stream = dspy.streamify(online, is_async_program=is_async)
    items = [item async for item in stream(question="q", sketch="s")]

    assert items[-1].answer == "PARIS"
    assert len(items) > 1
    assert not any("PARIS" in str(item) for item in items[:-1])


def test_nothing_is_revised_where_the_program_failed(memory: Any) -> None:
    optimizer = Reviser()
    online = OnlinePolicyOptimizer(Two(), optimizer, memory=memory)

    def down(messages: Any) -> str:
        raise ConnectionError("down")

    with dspy.context(lm=ScriptedLM(down)), pytest.raises(LMUnexpectedError, match="down"):
        online(question="q")

    assert optimizer.threads == []


def test_of_other_methods_only_predictions_are_revised(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(), memory=memory)

    assert online.ask(question="q").answer == "PARIS"
    assert online.length(question="four") == 4


def test_a_programs_plain_value_can_be_revised(lm: Any, memory: Any) -> None:
    class Plain(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.write = dspy.Predict("question, sketch -> answer")

        def forward(self, question: str) -> str:
            return str(self.write(question=question, sketch="s").answer)

    online = OnlinePolicyOptimizer(Plain(), Reviser(), memory=memory)

    assert online(question="q") == "PARIS"
    assert memory.rollout(online.last_rollout_id).answer == "PARIS"


def test_an_answer_is_revised_by_the_lm_that_gave_it(memory: Any) -> None:
    own, program = ScriptedLM(reply), Two()
    program.set_lm(own)

    prediction = OnlinePolicyOptimizer(program, Reviser(), memory=memory)(question="q")

    assert prediction.answer == "PARIS"
    assert len(own.prompts) == 3


def test_a_guard_lets_its_method_revise_and_choose(lm: Any, memory: Any) -> None:
    guarded = OnlinePolicyOptimizer(Two(), Holdout(Reviser()), memory=memory)

    assert guarded(question="q").answer == "PARIS"
    assert guarded.optimizer.answering_lm(Guidance()) is None


class Chooser(OnlineOptimizer):
    name: ClassVar[str] = "chooser"

    def __init__(self, lm: dspy.BaseLM) -> None:
        self.lm = lm

    def propose(self, inputs: Any, memory: Any) -> Guidance:
        return Guidance()

    def answering_lm(self, guidance: Guidance) -> dspy.BaseLM:
        return self.lm


async def test_the_lm_that_the_optimizer_chose_answers(lm: Any, memory: Any) -> None:
    chosen = ScriptedLM(lambda messages: fields(sketch="s", answer="chosen"))
    online = OnlinePolicyOptimizer(Two(), Holdout(Chooser(chosen)), memory=memory)

    answers = [online(question="q").answer, (await online.acall(question="q")).answer]
    answers.append(online.predict_one({"question": "q"}).outputs["answer"])

    assert answers == ["chosen"] * 3
    assert lm.prompts == []


def test_a_chosen_lm_that_nobody_would_ask_is_refused(lm: Any, memory: Any) -> None:
    program = Two()
    program.set_lm(lm)
    online = OnlinePolicyOptimizer(program, Chooser(ScriptedLM(["x"])), memory=memory)

    with pytest.raises(ValueError, match=r"every predictor of Two has an LM of its own.*set_lm"):
        online(question="q")

    program.draft.lm = None
    with pytest.raises(Exception, match="sketch"):
        online(question="q")  # the chosen one is asked now


def test_no_secret_stands_in_what_is_shown_of_an_optimizer() -> None:
    secret = dspy.LM("openai/gpt-4o", api_key="sk-SECRET", temperature=0.0)
    for optimizer in (
        DRPG(policy_lm=secret),
        MAMStreamICL([secret, None]),
        Holdout(MAMStreamICL([secret, secret])),
    ):
        shown = repr(optimizer) + dumps(flat_params(optimizer)) + dumps(identity(optimizer))

        assert "sk-SECRET" not in shown
        assert shown.count("gpt-4o") >= 3
        assert " at 0x" not in shown


def test_feedback_on_a_revised_answer_is_one_experience(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(Two(), Reviser(), memory=memory)
    rollout = online.predict_one({"question": "q"})
    online.learn_one(rollout, Feedback(0.0))

    assert memory.recent(1, "wrong")[0].rollout == memory.rollout(rollout.id)
