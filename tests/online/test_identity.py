from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import Holdout
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Rollout


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with dspy.context(lm=ScriptedLM(lambda messages: fields(answer="x", summary="y"))):
        yield


def test_another_program_under_the_same_name_is_refused() -> None:
    with OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot") as one:
        one(question="q")

    with pytest.raises(ResumeMismatch, match=r"'bot'.*question -> answer.*document -> summary"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), name="bot")


def test_a_memory_that_was_only_opened_belongs_to_nobody() -> None:
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot").close()

    other = OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), name="bot")

    assert other(document="d").summary == "y"


def test_a_program_that_has_grown_goes_on_and_says_so(caplog: Any) -> None:
    with OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot") as one:
        one(question="q")

    with caplog.at_level(logging.WARNING):
        grown = OnlinePolicyOptimizer(
            dspy.Predict("question, hint -> answer"), ZeroShot(), name="bot"
        )
    assert "earlier form" in caplog.text
    grown(question="q", hint="h")
    grown.close()

    caplog.clear()
    OnlinePolicyOptimizer(dspy.Predict("question, hint -> answer"), ZeroShot(), name="bot").close()
    assert not caplog.records


def test_the_saved_learner_of_another_program_is_refused_before_anything_changes() -> None:
    one = OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot())
    one(question="q")
    one.save("kept")
    other = OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot())

    with pytest.raises(ResumeMismatch, match="kept"):
        other.load("kept")

    assert other.program.signature.instructions != one.program.signature.instructions
    assert not list(other.memory.rollouts())


def test_one_optimizer_does_not_serve_two_programs() -> None:
    optimizer = ZeroShot()
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), optimizer)

    with pytest.raises(ValueError, match="construct another"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), optimizer)


def test_a_bare_memory_of_another_program_is_refused(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite")
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), memory=memory)(
        question="q"
    )

    with pytest.raises(ResumeMismatch, match="This memory"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), memory=memory)


# -- two learners open one empty memory


def two_programs(path: Path) -> tuple[OnlinePolicyOptimizer, OnlinePolicyOptimizer]:
    """Return an owner that has recorded a call, and a stranger that was opened before it did."""
    one, two = (
        OnlinePolicyOptimizer(dspy.Predict(signature), DRPG(k=2), memory=opened(path))
        for signature in ("question -> answer", "document -> summary")
    )
    one.feedback(one(question="q").rollout_id, score=1.0)
    return one, two


def opened(path: Path) -> SQLiteMemory:
    return SQLiteMemory(path / "m.sqlite", HashingEmbedder())


def test_the_first_to_record_owns_a_memory_and_the_other_only_answers(
    tmp_path: Path, caplog: Any
) -> None:
    one, two = two_programs(tmp_path)
    with caplog.at_level(logging.WARNING):
        answers = [two(document="d"), two(document="e")]

    assert [(a.summary, a.rollout_id) for a in answers] == [("y", None)] * 2
    assert two.unrecorded == 2
    assert "another program" in caplog.text
    assert [r.inputs for r, _ in one.memory.rollouts()] == [{"question": "q"}]
    one.close()
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), DRPG(k=2), memory=opened(tmp_path))


def test_what_the_owner_learned_is_shown_to_no_other_program(tmp_path: Path) -> None:
    _, two = two_programs(tmp_path)
    plain, wrapped = (ScriptedLM(lambda messages: fields(summary="y")) for _ in range(2))
    with dspy.context(lm=plain):
        dspy.Predict("document -> summary")(document="q")
    with dspy.context(lm=wrapped):
        two(document="q")

    assert wrapped.texts() == plain.texts()


def test_a_step_of_the_other_program_fails_and_is_not_recorded(tmp_path: Path) -> None:
    one, two = two_programs(tmp_path)

    with pytest.raises(ResumeMismatch, match="another program"):
        two.predict_one({"document": "d"})
    with pytest.raises(ResumeMismatch, match="another program"):
        two.feedback(one.last_rollout_id, score=0.0)
    assert one.memory.count_rollouts() == 1


def test_of_two_programs_that_record_at_the_same_moment_one_is_refused(tmp_path: Path) -> None:
    class Meeting(SQLiteMemory):
        def record(self, rollout: Rollout, **options: Any) -> Rollout:
            both.wait(30)  # both have proposed, neither has recorded
            return super().record(rollout, **options)

    both = threading.Barrier(2)
    learners = [
        OnlinePolicyOptimizer(
            dspy.Predict(signature), ZeroShot(), memory=Meeting(tmp_path / "m.sqlite")
        )
        for signature in ("question -> answer", "document -> summary")
    ]
    lm = dspy.settings.lm

    def call(learner: OnlinePolicyOptimizer) -> Any:
        with dspy.context(lm=lm):
            return learner(**{learner.card.routes[0].inputs[0]: "x"}).rollout_id

    with ThreadPoolExecutor(2) as pool:
        ids = list(pool.map(call, learners))

    assert sorted(id is None for id in ids) == [False, True]
    assert [learner.unrecorded for learner in learners] == [int(id is None) for id in ids]
    assert learners[0].memory.count_rollouts() == 1


def test_a_first_record_that_fails_claims_nothing() -> None:
    one = OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot")
    one(question=object())
    one.close()

    with OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), name="bot") as two:
        assert two(document="d").rollout_id


# -- one optimizer, two memories


@pytest.mark.parametrize("closed", [False, True])
def test_an_optimizer_with_state_learns_into_one_memory(tmp_path: Path, closed: bool) -> None:
    guard = Holdout(DRPG(k=2))
    first = OnlinePolicyOptimizer(
        dspy.Predict("question -> answer"), guard, memory=SQLiteMemory(tmp_path / "a.sqlite")
    )
    if closed:
        first.close()

    with pytest.raises(ValueError, match=r"Holdout .*a\.sqlite .*b\.sqlite.*fresh\(\)"):
        OnlinePolicyOptimizer(
            dspy.Predict("question -> answer"), guard, memory=SQLiteMemory(tmp_path / "b.sqlite")
        )


def test_the_state_inside_a_guard_counts_as_well(tmp_path: Path) -> None:
    inner = Holdout(ZeroShot())
    inner.learn_into("memory a")

    class Around(Holdout):
        """Guards a method with state."""

    outer = Around(ZeroShot())
    outer.optimizer = inner
    with pytest.raises(ValueError, match="memory a"):
        outer.learn_into("memory b")


def test_an_optimizer_with_state_may_meet_its_own_memory_again(tmp_path: Path) -> None:
    guard = Holdout(DRPG(k=2))
    for _ in range(2):
        memory = SQLiteMemory(tmp_path / "a.sqlite", HashingEmbedder())
        with OnlinePolicyOptimizer(
            dspy.Predict("question -> answer"), guard, memory=memory
        ) as online:
            online.feedback(online(question="q").rollout_id, score=1.0)
            online.deepcopy()


def test_an_optimizer_without_state_serves_any_number_of_memories() -> None:
    optimizer = DRPG(k=2)
    for name in ("one", "two"):
        with OnlinePolicyOptimizer(
            dspy.Predict("question -> answer"), optimizer, name=name
        ) as online:
            assert online(question="q").rollout_id
