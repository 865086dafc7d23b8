"""Who holds a learner's memory open, and how a learner moves elsewhere."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import Holdout
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.tracking import JSONLTracker


@pytest.fixture(autouse=True)
def lm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DRPG_EMBEDDER", "hashing")
    with dspy.context(lm=ScriptedLM(lambda messages: fields(answer="x"))):
        yield


def qa() -> dspy.Module:
    return dspy.Predict("question -> answer")


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda online: online.deepcopy()])
def test_closing_a_copy_leaves_the_original_at_work(copied: Any) -> None:
    online = OnlinePolicyOptimizer(qa(), Holdout(DRPG(k=2)))
    twin = copied(online)
    twin(question="q")
    twin.close()
    twin.close()

    prediction = online(question="q")
    online.feedback(prediction.rollout_id, score=1.0)

    assert (online.unrecorded, online.memory.count_rollouts()) == (0, 2)


def test_closing_the_original_leaves_its_copies_at_work() -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot())
    twin = online.deepcopy()
    online.close()

    assert twin(question="q").rollout_id


def test_a_memory_given_to_two_learners_is_closed_with_the_last_of_them(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    one, two = (OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory) for _ in range(2))
    one.close()
    assert two(question="q").rollout_id
    two.close()

    with pytest.raises(StorageError, match="was closed"):
        memory.count()


def test_a_copy_that_was_forgotten_holds_nothing_open() -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot())
    online.deepcopy()
    gc.collect()
    online.close()

    with pytest.raises(StorageError, match="was closed"):
        online.memory.count()


def test_a_temporary_memory_outlives_the_learner_that_made_it_and_goes_with_the_last() -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot())
    path = online.memory.path
    twin = online.deepcopy()
    del online
    gc.collect()
    assert twin(question="q").rollout_id

    del twin
    gc.collect()
    assert not path.exists()


def test_a_tracker_tells_of_one_memory_at_a_time(tmp_path: Path) -> None:
    tracker = JSONLTracker(tmp_path / "run.jsonl")
    one, two, three = (
        SQLiteMemory(tmp_path / f"{name}.sqlite", HashingEmbedder()) for name in "abc"
    )
    first = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=one, tracker=tracker)
    with pytest.raises(ValueError, match=r"JSONLTracker.*a\.sqlite.*b\.sqlite.*another tracker"):
        OnlinePolicyOptimizer(qa(), ZeroShot(), memory=two, tracker=tracker)

    OnlinePolicyOptimizer(qa(), ZeroShot(), memory=one, tracker=tracker).close()
    first.close()
    OnlinePolicyOptimizer(qa(), ZeroShot(), memory=three, tracker=tracker).close()


def test_a_tracker_can_be_brought_up_to_date_while_the_learner_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=memory, tracker=JSONLTracker(path))
    for question in ("one", "two"):
        online(question=question)

        assert online.tell_tracker()
        assert question in path.read_text()

    online.close()
    with pytest.raises(ValueError, match="This learner is closed"):
        online.tell_tracker()


def test_a_learner_without_a_tracker_has_nobody_to_tell() -> None:
    assert OnlinePolicyOptimizer(qa(), ZeroShot()).tell_tracker()


def test_pickling_a_learner_says_how_to_move_it() -> None:
    online = OnlinePolicyOptimizer(qa(), ZeroShot())

    with pytest.raises(TypeError, match=r"online\.save\(folder\).*load\(folder\)"):
        pickle.dumps(online)


def test_a_deleted_memory_can_be_put_back_from_the_learner_that_has_it_open(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.sqlite"
    online = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=SQLiteMemory(path, HashingEmbedder()))
    prediction = online(question="q")
    path.unlink()
    with pytest.raises(StorageError, match=r"deleted.*copy_to"):
        online.feedback(prediction.rollout_id, score=1.0)

    online.memory.copy_to(path)
    online.close()
    again = OnlinePolicyOptimizer(qa(), ZeroShot(), memory=SQLiteMemory(path, HashingEmbedder()))
    again.feedback(prediction.rollout_id, score=1.0)

    assert again.memory.count("correct") == 1
