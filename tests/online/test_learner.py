from __future__ import annotations

import asyncio
import copy
import math
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, OnlinePolicyOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.exceptions import CompileFailed, StorageError, UnknownRollout
from drpg_dspy.governance import Governance
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import CaseWriter
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Feedback

WRITER = "You coach an assistant"


def script(messages: list[dict[str, str]]) -> str:
    if WRITER in messages[0]["content"]:
        return '{"rules": ["Answer in capital letters."]}'
    shouting = "capital letters" in messages[-1]["content"]
    return fields(answer="PARIS" if shouting else "paris")


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


def test_the_call_is_the_programs_own_and_carries_a_rollout_id(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    prediction = online(question="Capital of France?")

    assert prediction.answer == "paris"
    assert memory.rollout(prediction.rollout_id).outputs == {"answer": "paris"}


def test_a_wrong_verdict_changes_the_next_answer(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    first = online(question="Capital of France?")
    online.feedback(first.rollout_id, score=0.0, text="shout")

    assert online(question="Capital of France, please?").answer == "PARIS"


def test_labels_with_the_call_are_judged_by_the_metric(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)
    online(question="Capital of France?", labels={"answer": "PARIS"})
    online(question="The capital of France?", labels=dspy.Example(answer="PARIS"))

    assert memory.count("wrong") == 1
    assert memory.count("correct") == 1


def test_late_labels_are_judged_as_well(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)
    prediction = online(question="q")
    online.feedback(prediction.rollout_id, labels={"answer": "paris"})

    assert memory.count("correct") == 1


def test_labels_without_a_metric_are_refused(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    with pytest.raises(ValueError, match="no metric"):
        online(question="q", labels={"answer": "x"})


def test_feedback_late_out_of_order_and_twice(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    ids = [online(question=f"q{i}").rollout_id for i in range(3)]
    online.feedback(ids[2], score=1.0)
    online.feedback(ids[0], score=0.0)
    online.feedback(ids[0], score=1.0)

    assert memory.count("correct") == 2
    assert memory.count() == 2
    assert [f.score for _, f in memory.feedback_history(ids[0])] == [0.0, 1.0]


def test_the_same_feedback_three_times_counts_once(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2, writer=CaseWriter()), memory=memory)
    prediction = online(question="q")
    for _ in range(3):
        online.feedback(prediction.rollout_id, score=0.0, text="no", id="f1")

    assert len(memory.feedback_history(prediction.rollout_id)) == 1
    assert sum(WRITER in text for text in lm.texts()) == 1


def test_retracted_feedback_leaves_the_memory(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    prediction = online(question="Capital of France?")
    online.feedback(prediction.rollout_id, score=0.0)
    online.retract(prediction.rollout_id)

    assert memory.count() == 0
    assert online(question="Capital of France?").answer == "paris"


def test_feedback_for_an_unknown_rollout_is_an_error(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    with pytest.raises(UnknownRollout, match="no-such-id"):
        online.feedback("no-such-id", score=1.0)


@pytest.mark.parametrize("score", [7, -0.1, "good", float("inf"), [1]])
def test_scores_out_of_range_are_named(lm: Any, memory: Any, score: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    prediction = online(question="q")

    with pytest.raises(ValueError, match="score"):
        online.feedback(prediction.rollout_id, score=score)
    assert memory.feedback(prediction.rollout_id) is None


@pytest.mark.parametrize(
    ("score", "correct"), [(True, 1), (False, 0), (1, 1), (0, 0), (0.5, 1), (0.49, 0)]
)
def test_bool_binary_and_graded_scores(lm: Any, memory: Any, score: Any, correct: int) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.feedback(online(question="q").rollout_id, score=score)

    assert memory.count("correct") == correct
    assert memory.count() == 1


def test_nan_is_recorded_and_teaches_nothing(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    prediction = online(question="q")
    online.feedback(prediction.rollout_id, score=math.nan)

    assert memory.count() == 0
    standing = memory.feedback(prediction.rollout_id)
    assert standing is not None
    assert not standing.judged


def test_a_program_that_raises_is_recorded_and_raises(lm: Any, memory: Any) -> None:
    class Broken(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            self.predict(question=question)
            raise RuntimeError("the database is gone")

    online = OnlinePolicyOptimizer(Broken(), ZeroShot(), memory=memory)
    with pytest.raises(RuntimeError, match="database is gone"):
        online(question="q")

    rollout = memory.rollout(online.last_rollout_id)
    assert rollout.failed
    assert rollout.error == "RuntimeError: the database is gone"
    assert [call.route for call in rollout.trace] == ["predict"]
    online.feedback(rollout.id, score=0.0)
    assert memory.count() == 0


def test_a_dead_policy_writer_does_not_take_the_answer_down(memory: Any) -> None:
    def dead(messages: list[dict[str, str]]) -> str:
        if WRITER in messages[0]["content"]:
            raise ConnectionError("writer is down")
        return fields(answer="paris")

    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    with dspy.context(lm=ScriptedLM(dead)):
        online.feedback(online(question="one").rollout_id, score=0.0)
        prediction = online(question="two")

        assert prediction.answer == "paris"
        assert memory.rollout(prediction.rollout_id).guidance.counts == {"propose_failed": 1}
        assert online.predict_one({"question": "three"}).failed


def test_a_verdict_is_kept_when_learning_from_it_fails(memory: Any) -> None:
    def dead(messages: list[dict[str, str]]) -> str:
        if WRITER in messages[0]["content"]:
            raise ConnectionError("writer is down")
        return fields(answer="paris")

    online = OnlinePolicyOptimizer(qa(), DRPG(k=2, writer=CaseWriter()), memory=memory)
    with dspy.context(lm=ScriptedLM(dead)):
        prediction = online(question="one")
        online.feedback(prediction.rollout_id, score=0.0)

    standing = memory.feedback(prediction.rollout_id)
    assert standing.score == 0.0
    assert "writer is down" in standing.error
    assert memory.count("wrong") == 1
    assert online.unlearned == 1


def test_a_verdict_on_a_call_without_an_answer_is_kept_and_counted(memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    with dspy.context(lm=ScriptedLM(lambda messages: "")):
        rollout = online.predict_one({"question": "one"})
    online.feedback(rollout.id, score=0.0)

    assert rollout.unreadable
    assert memory.feedback(rollout.id).score == 0.0
    assert (memory.count(), online.unlearned) == (0, 1)


async def test_async_calls_learn_and_answer(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)
    first = await online.acall(question="Capital of France?", labels={"answer": "PARIS"})
    second = await online.acall(question="The capital of France?")

    assert (first.answer, second.answer) == ("paris", "PARIS")
    assert first.rollout_id != second.rollout_id


async def test_async_calls_of_a_program_that_is_sync_only(lm: Any, memory: Any) -> None:
    class SyncOnly(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            return self.predict(question=question)

    online = OnlinePolicyOptimizer(SyncOnly(), ZeroShot(), memory=memory)

    assert (await online.acall(question="q")).answer == "paris"
    assert [call.route for call in memory.rollout(online.last_rollout_id).trace] == ["predict"]


async def test_many_async_calls_each_have_their_own_rollout(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    predictions = await asyncio.gather(*(online.acall(question=f"q{i}") for i in range(20)))

    asked = {memory.rollout(p.rollout_id).inputs["question"] for p in predictions}
    assert asked == {f"q{i}" for i in range(20)}


async def test_streamify_reaches_the_program(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    stream = dspy.streamify(online)
    items = [item async for item in stream(question="q")]

    assert items[-1].answer == "paris"
    assert memory.rollout(items[-1].rollout_id).inputs == {"question": "q"}


def test_threads_parallel_batch_and_evaluate(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    online.feedback(online(question="Capital of France?").rollout_id, score=0.0)
    examples = [
        dspy.Example(question=f"q{i}", answer="PARIS").with_inputs("question") for i in range(6)
    ]

    batch = online.batch(examples, num_threads=3)
    parallel = dspy.Parallel(num_threads=3)([(online, ex.inputs()) for ex in examples])
    evaluated = dspy.Evaluate(devset=examples, metric=exact, num_threads=3)(online)

    assert {p.answer for p in batch} == {p.answer for p in parallel} == {"PARIS"}
    assert evaluated.score == 100.0
    assert len({p.rollout_id for p in [*batch, *parallel]}) == 12


def test_plain_threads_get_their_own_rollout_ids(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    def ask(i: int) -> tuple[str, str]:
        with dspy.context(lm=lm):
            online(question=f"q{i}")
        return f"q{i}", memory.rollout(online.last_rollout_id).inputs["question"]

    with ThreadPoolExecutor(8) as pool:
        assert all(asked == stored for asked, stored in pool.map(ask, range(40)))


def test_feedback_from_many_threads_is_not_lost(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2, writer=CaseWriter()), memory=memory)
    ids = [online(question=f"q{i}").rollout_id for i in range(24)]

    def send(rollout_id: str) -> None:
        with dspy.context(lm=lm):
            online.feedback(rollout_id, score=0.0)

    threads = [threading.Thread(target=send, args=(i,)) for i in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert memory.count("wrong") == 24


def test_programs_without_forward_lend_their_methods(lm: Any, memory: Any) -> None:
    class Router(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")
            self.greeting = "hello"

        def route(self, question: str, loud: bool = False) -> str:
            return str(self.predict(question=question).answer)

    online = OnlinePolicyOptimizer(Router(), DRPG(k=2), memory=memory)
    assert online.greeting == "hello"
    assert online.route("Capital of France?") == "paris"
    online.feedback(online.last_rollout_id, score=0.0)

    assert online.route("Capital of France?", loud=True) == "PARIS"
    rollout = memory.rollout(online.last_rollout_id)
    assert rollout.inputs == {"question": "Capital of France?", "loud": True}
    assert rollout.answer == "PARIS"


@pytest.mark.parametrize("value", [3, ["a", "b"], None, {"k": 1}])
def test_returns_that_are_no_prediction(lm: Any, memory: Any, value: Any) -> None:
    class Plain(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            self.predict(question=question)
            return value

    online = OnlinePolicyOptimizer(Plain(), ZeroShot(), memory=memory)

    assert online(question="q") == value
    assert memory.rollout(online.last_rollout_id).answer == value


def test_positional_arguments_are_recorded_by_name(lm: Any, memory: Any) -> None:
    class Positional(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            return self.predict(question=question)

    online = OnlinePolicyOptimizer(Positional(), ZeroShot(), memory=memory)
    online("Capital of France?")

    assert memory.rollout(online.last_rollout_id).inputs == {"question": "Capital of France?"}


def test_compile_returns_a_plain_program_that_learned(lm: Any, memory: Any) -> None:
    trainset = [
        dspy.Example(question=f"Capital {i}?", answer="PARIS").with_inputs("question")
        for i in range(5)
    ]
    student = qa()
    optimizer = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)
    compiled = optimizer.compile(student, trainset=trainset)

    assert type(compiled) is dspy.Predict
    assert "Answer in capital letters." in compiled.signature.instructions
    assert compiled(question="Capital of Spain?").answer == "paris"  # it looks at the last message
    assert "capital letters" in lm.texts()[-1]
    assert "Rules learned" not in student.signature.instructions
    assert memory.count() == 0


def test_a_compiled_program_loads_where_this_package_does_not_exist(
    lm: Any, memory: Any, tmp_path: Path
) -> None:
    trainset = [dspy.Example(question="q", answer="PARIS").with_inputs("question")] * 3
    optimizer = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)
    compiled = optimizer.compile(qa(), trainset=trainset)
    compiled.save(tmp_path / "whole", save_program=True)
    compiled.save(tmp_path / "state.json")
    code = f"""
        import sys, importlib.abc
        class Block(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split('.')[0] == 'drpg_dspy': raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Block())
        import dspy
        whole = dspy.load({str(tmp_path / "whole")!r}, allow_pickle=True)
        state = dspy.Predict('question -> answer'); state.load({str(tmp_path / "state.json")!r})
        for p in (whole, state): assert 'capital letters' in p.signature.instructions, p
        print('loaded')
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )

    assert "loaded" in done.stdout, done.stderr


def test_compile_keeps_the_student_when_the_valset_says_so(lm: Any, memory: Any) -> None:
    train = [dspy.Example(question="q", answer="PARIS").with_inputs("question")] * 3
    valid = [dspy.Example(question="v", answer="paris").with_inputs("question")]
    optimizer = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)

    compiled = optimizer.compile(qa(), trainset=train, valset=valid)

    assert "capital letters" not in compiled.signature.instructions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"trainset": []}, "at least one"), ({"trainset": [1], "teacher": 1}, "teacher")],
)
def test_compile_names_what_is_wrong(memory: Any, arguments: Any, message: str) -> None:
    optimizer = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)

    with pytest.raises(ValueError, match=message):
        optimizer.compile(qa(), **arguments)


def test_a_learner_is_saved_and_goes_on_elsewhere(lm: Any, memory: Any, tmp_path: Path) -> None:
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory)
    first = online(question="Capital of France?")
    online.feedback(first.rollout_id, score=0.0)
    online.save(tmp_path / "learner")

    other = OnlinePolicyOptimizer(
        qa(), DRPG(k=2), memory=SQLiteMemory(tmp_path / "new.sqlite", HashingEmbedder())
    )
    other.load(tmp_path / "learner")

    assert other(question="Capital of France?").answer == "PARIS"
    other.feedback(first.rollout_id, score=1.0)


def test_saving_to_a_file_points_to_the_program(memory: Any, tmp_path: Path) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    with pytest.raises(ValueError, match=r"online\.program\.save"):
        online.save(tmp_path / "x.json")


def test_feedback_from_another_process_is_seen(lm: Any, tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=SQLiteMemory(path, HashingEmbedder()))
    prediction = online(question="Capital of France?")
    code = f"""
        import dspy
        from drpg_dspy import DRPG, OnlinePolicyOptimizer
        from drpg_dspy.memory import SQLiteMemory
        from drpg_dspy.retrieval import HashingEmbedder
        online = OnlinePolicyOptimizer(dspy.Predict("question -> answer"), DRPG(k=2),
                                       memory=SQLiteMemory({str(path)!r}, HashingEmbedder()))
        online.feedback({prediction.rollout_id!r}, score=0.0, text="shout")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)

    assert online(question="Capital of France?").answer == "PARIS"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((lambda q: q, ZeroShot()), "must be a dspy.Module"),
        ((dspy.Predict("q -> a"), DRPG), "an instance"),
        ((dspy.Predict("q -> a"), "drpg"), "optimizer must be"),
        ((dspy.Module(), ZeroShot()), "predictor"),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OnlinePolicyOptimizer(*arguments)


def test_an_optimizers_examples_reach_the_prompt(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), SelfStreamICL(k=2), memory=memory)
    online.learn_one(online.predict_one({"question": "Capital of Chad?"}), Feedback(1.0))
    online(question="Capital of Mali?")

    assert "Capital of Chad?" in lm.texts()[-1]


@pytest.mark.parametrize("name", ["../x", "a/b", "", " ", ".hidden", "x" * 200, "con\0x", 5])
def test_names_that_are_no_file_names_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="name must be"):
        OnlinePolicyOptimizer(qa(), ZeroShot(), name=name)


def test_a_tracker_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="tracker must be a Tracker"):
        OnlinePolicyOptimizer(qa(), ZeroShot(), tracker="mlflow")  # type: ignore[arg-type]


def test_an_answer_that_cannot_be_recorded_is_given_all_the_same(
    lm: Any, memory: Any, caplog: Any
) -> None:
    class WithConnection(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str, connection: Any = None) -> Any:
            return self.predict(question=question)

    online = OnlinePolicyOptimizer(WithConnection(), ZeroShot(), memory=memory)
    prediction = online(question="q", connection=object())

    assert prediction.answer == "paris"
    assert prediction.rollout_id is None
    assert online.unrecorded == 1
    assert "could not be recorded" in caplog.text
    assert len(lm.prompts) == 1


def test_a_closed_learner_still_answers(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.close()

    assert online(question="q").answer == "paris"
    assert online.unrecorded == 1


def test_feedback_takes_the_prediction_itself(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.feedback(online(question="q"), score=1.0)

    assert memory.count("correct") == 1


@pytest.mark.parametrize("rollout", [None, 3, ["x"]])
def test_what_names_no_rollout_is_refused(lm: Any, memory: Any, rollout: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    with pytest.raises(ValueError, match="named by its id"):
        online.feedback(rollout, score=1.0)


def test_loading_over_a_memory_that_is_not_empty_has_to_be_asked_for(
    lm: Any, memory: Any, tmp_path: Path
) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.save(tmp_path / "empty")
    prediction = online(question="q")

    with pytest.raises(ValueError, match="overwrite=True"):
        online.load(tmp_path / "empty")
    assert memory.rollout(prediction.rollout_id).outputs == {"answer": "paris"}

    online.load(tmp_path / "empty", overwrite=True)
    assert memory.events() == []


def test_a_damaged_copy_changes_nothing(lm: Any, memory: Any, tmp_path: Path) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    online.save(tmp_path / "saved")
    (tmp_path / "saved" / "memory.sqlite").write_bytes(b"not a database" * 100)
    online.program.demos = [{"question": "mine", "answer": "kept"}]

    with pytest.raises(StorageError):
        online.load(tmp_path / "saved")
    assert online.program.demos == [{"question": "mine", "answer": "kept"}]

    (tmp_path / "saved" / "program.json").write_text("{")
    with pytest.raises(StorageError, match=r"program\.json is damaged"):
        online.load(tmp_path / "saved")


def test_a_deep_copy_has_its_own_program_and_the_same_memory(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)
    twin = copy.deepcopy(online)
    prediction = twin(question="q")

    assert twin.program is not online.program
    assert online.memory.rollout(prediction.rollout_id).outputs == {"answer": "paris"}


class Strange(dspy.Module):
    def __init__(self, field: str) -> None:
        super().__init__()
        self.predict = dspy.Predict("question -> answer")
        self.field = field

    def forward(self, question: str) -> dspy.Prediction:
        answer = self.predict(question=question).answer
        return dspy.Prediction(answer=answer, **{self.field: "mine"})


@pytest.mark.parametrize(
    ("signature", "name"), [("labels -> answer", "labels"), ("q -> rollout_id", "rollout_id")]
)
def test_names_that_the_learner_needs_are_refused(signature: str, name: str, memory: Any) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        OnlinePolicyOptimizer(dspy.Predict(signature), ZeroShot(), memory=memory)


def test_a_rollout_id_of_the_programs_own_is_left_as_it_is(
    lm: Any, memory: Any, caplog: Any
) -> None:
    online = OnlinePolicyOptimizer(Strange("rollout_id"), ZeroShot(), memory=memory)

    prediction = online(question="Capital of France?")

    assert prediction.rollout_id == "mine"
    assert "online.last_rollout_id" in caplog.text
    assert memory.rollout(online.last_rollout_id).outputs["rollout_id"] == "mine"


@pytest.mark.parametrize("verdict", ["good", None, 7, {"no": "score"}])
def test_an_answer_is_given_although_the_metric_returns_no_score(
    lm: Any, memory: Any, verdict: Any
) -> None:
    online = OnlinePolicyOptimizer(
        qa(), ZeroShot(), memory=memory, metric=lambda example, prediction: verdict
    )

    prediction = online(question="Capital of France?", labels={"answer": "PARIS"})

    assert prediction.answer == "paris"
    assert online.unlearned == 1
    assert memory.feedback(prediction.rollout_id) is None
    with pytest.raises(ValueError, match="score"):
        online.feedback(prediction.rollout_id, labels={"answer": "PARIS"})


def test_labels_without_a_metric_cost_no_call(lm: Any, memory: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory)

    with pytest.raises(ValueError, match="no metric"):
        online(question="Capital of France?", labels={"answer": "PARIS"})
    assert not lm.texts()


def test_compile_says_when_nothing_could_be_answered(memory: Any) -> None:
    def dead(messages: Any) -> str:
        raise ConnectionError("no route to the model")

    trainset = [dspy.Example(question="q", answer="a").with_inputs("question")] * 2
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)

    with (
        dspy.context(lm=ScriptedLM(dead)),
        pytest.raises(CompileFailed, match=r"all 2 examples.*no route"),
    ):
        online.compile(qa(), trainset=trainset)


def test_compile_says_when_nothing_could_be_judged(lm: Any, memory: Any) -> None:
    trainset = [dspy.Example(question="q").with_inputs("question")] * 2
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)

    with pytest.raises(CompileFailed, match=r"judged none of 2.*answer"):
        online.compile(qa(), trainset=trainset)


def test_compile_says_when_nothing_is_kept(lm: Any, memory: Any, caplog: Any) -> None:
    trainset = [dspy.Example(question="q", answer="never").with_inputs("question")] * 2
    online = OnlinePolicyOptimizer(qa(), DRPG(k=2), memory=memory, metric=exact)

    compiled = online.compile(qa(), trainset=trainset)

    assert "did more good than harm" in caplog.text
    assert compiled.signature.instructions == qa().signature.instructions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"student": 5, "trainset": [1]}, "student must be a dspy.Module"),
        ({"trainset": [1]}, r"trainset\[0\] must be a dspy.Example"),
        ({"trainset": 5}, "trainset must be a list"),
        ({"trainset": [dspy.Example(question="q")]}, "with_inputs"),
        ({"trainset": [dspy.Example(q=1).with_inputs("q")], "valset": ["v"]}, r"valset\[0\]"),
    ],
)
def test_compile_names_what_is_no_example(memory: Any, arguments: Any, message: str) -> None:
    optimizer = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, metric=exact)

    with pytest.raises(ValueError, match=message):
        optimizer.compile(**{"student": qa(), **arguments})


def test_a_thaw_while_a_held_call_is_made_leaves_it_its_policy(lm: Any, memory: Any) -> None:
    class Thawing(DRPG):
        people: Governance | None = None

        def propose_plain(self, inputs: Any, memory: Any) -> Any:
            if self.people is not None:
                self.people.thaw(author="ada")
            return super().propose_plain(inputs, memory)

    optimizer = Thawing(k=4)
    online = OnlinePolicyOptimizer(qa(), optimizer, memory=memory)
    online.feedback(online(question="one").rollout_id, score=0.0)
    learned = memory.rollout(online(question="two").rollout_id).guidance.policies
    assert learned
    optimizer.people = Governance(memory, list(learned))
    optimizer.people.freeze(author="ada")

    served = memory.rollout(online(question="three").rollout_id).guidance.policies

    assert {route: p.text for route, p in served.items()} == {
        route: p.text for route, p in learned.items()
    }
