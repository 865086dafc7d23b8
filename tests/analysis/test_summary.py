from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.analysis import RunSummary, rolling_scores, steps_table, summarise
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    memory = SQLiteMemory(tmp_path / "memory.sqlite", HashingEmbedder())
    yield memory
    memory.close()


def add(
    memory: SQLiteMemory, name: str, feedback: Feedback | None = None, **changes: Any
) -> Rollout:
    rollout = Rollout(
        id=name,
        step=int(name.partition(".")[0]),
        inputs={"question": f"question {name}"},
        outputs={"answer": "42"},
        key=f"question {name}",
        usage=Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=0.25, seconds=0.5),
        guidance=Guidance(
            policies={"predict": Policy("predict", (Rule("Count once."),))},
            usage=Usage(calls=1, prompt_tokens=30, completion_tokens=5),
            counts={"policy_memo_hits": 1},
        ),
        seconds=2.0,
    )
    rollout = memory.record(dataclasses.replace(rollout, **changes))
    if feedback is not None:
        memory.commit(rollout.id, feedback)
    return rollout


def test_an_empty_memory_has_a_summary(memory: SQLiteMemory) -> None:
    summary = summarise(memory)

    assert summary.n == 0
    assert math.isnan(summary.score)
    assert summary.as_dict()["score"] is None
    assert "0 steps, no score yet" in str(summary)
    assert steps_table(memory) == rolling_scores(memory) == []


def test_every_step_met_counts_once_in_the_score(memory: SQLiteMemory) -> None:
    add(memory, "00001", Feedback(1.0))
    add(memory, "00002", Feedback(0.25))
    add(memory, "00003", Feedback(math.nan, text="no database"))
    add(memory, "00004", outputs=None, error="LMTimeoutError: slow")
    add(memory, "00005", Feedback(1.0, informative=False))
    add(memory, "00006")

    summary = summarise(memory)

    assert summary.n == 6
    assert (summary.judged, summary.correct, summary.uninformative) == (3, 2, 1)
    assert (summary.not_judged, summary.failed, summary.waiting) == (1, 1, 1)
    assert summary.score == pytest.approx(2.25 / 5)
    assert summary.rolling_score == pytest.approx(2.25 / 3)
    for named in ("1 not judged", "1 failed", "1 waiting", "1 judged without proof"):
        assert named in str(summary)


def test_costs_of_answering_writing_and_learning_are_kept_apart(memory: SQLiteMemory) -> None:
    learning = Usage(calls=2, prompt_tokens=7, completion_tokens=3)
    add(memory, "00001", Feedback(1.0, usage=learning))
    add(memory, "00002", Feedback(0.0, error="ConnectionError: down"))

    summary = summarise(memory)

    assert summary.answering.prompt_tokens == 200
    assert summary.policy_writing.prompt_tokens == 60
    assert summary.learning == learning
    assert summary.learn_failed == 1
    assert summary.usage.calls == 6
    assert summary.usage.cost == 0.5
    assert summary.seconds == 4.0
    assert summary.per_step["prompt_tokens"] == pytest.approx(267 / 2)
    assert summary.per_step["seconds"] == 2.0
    assert summary.counts == {"policy_memo_hits": 2}


def test_a_step_that_was_tried_again_stands_once_as_it_ended_and_is_paid_twice(
    memory: SQLiteMemory,
) -> None:
    add(memory, "00001", outputs=None, error="LMTimeoutError: slow")
    add(memory, "00002", outputs=None, error="LMTimeoutError: slow")
    add(memory, "00001.2", Feedback(1.0))

    summary = summarise(memory)
    table = steps_table(memory)

    assert (summary.n, summary.failed, summary.judged, summary.score) == (2, 1, 1, 0.5)
    assert summary.answering.calls == 3
    assert [(row["id"], row["error"]) for row in table] == [
        ("00001", ""),
        ("00002", "LMTimeoutError: slow"),
    ]


def test_the_status_left_by_the_runner_tells_why_a_run_is_not_finished(
    memory: SQLiteMemory,
) -> None:
    add(memory, "00001", Feedback(1.0))
    assert summarise(memory).finished

    memory.set_meta(
        "stream:status", json.dumps({"state": "stopped", "reason": "enough", "seconds": 9.0})
    )

    summary = summarise(memory)
    assert summary.stopped == "enough"
    assert summary.seconds == 9.0
    assert "stopped: enough" in str(summary)


@pytest.mark.parametrize(("threads", "seconds"), [(1, 4.0), (4, 1.5)])
def test_answers_made_side_by_side_take_the_time_of_the_clock(
    memory: SQLiteMemory, threads: int, seconds: float
) -> None:
    add(memory, "00001", Feedback(1.0))
    add(memory, "00002", Feedback(1.0))  # two seconds each
    status = {"state": "finished", "seconds": 1.5, "threads": threads}
    memory.set_meta("stream:status", json.dumps(status))

    assert summarise(memory).seconds == seconds


def test_the_learning_curve_is_the_mean_of_a_window_over_judged_steps(
    memory: SQLiteMemory,
) -> None:
    for step, score in enumerate([1.0, 0.0, math.nan, 0.0, 1.0], start=1):
        add(memory, f"{step:05d}", Feedback(score))

    assert rolling_scores(memory, window=2) == [(1, 1.0), (2, 0.5), (4, 0.0), (5, 0.5)]
    with pytest.raises(ValueError, match="window"):
        rolling_scores(memory, window=0)


def test_the_table_holds_what_happened_and_nothing_of_the_clock(memory: SQLiteMemory) -> None:
    add(memory, "00001", Feedback(math.nan, text="?"), created_at=1.0)
    other = SQLiteMemory(memory.path.with_name("other.sqlite"), HashingEmbedder())
    slow = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost=0.25, seconds=99.0)
    add(other, "00001", Feedback(math.nan, text="?"), created_at=5.0, seconds=60.0, usage=slow)

    (row,) = steps_table(memory)

    assert [row] == steps_table(other)
    assert row["policy_texts"] == {"predict": "- Count once."}
    assert row["policies"]["predict"]["version"] == 1
    assert row["feedback"]["text"] == "?"
    other.close()


def test_a_summary_is_plain_json() -> None:
    summary = RunSummary(n=3, judged=2, score=0.5, answering=Usage(calls=3), stopped="enough")

    read = json.loads(json.dumps(summary.as_dict(), allow_nan=False))

    assert read["score"] == 0.5
    assert read["rolling_score"] is None
    assert read["answering"]["lm_calls"] == read["lm_calls"] == 3
    assert not summary.finished


def test_a_score_and_the_numbers_beside_it_have_one_denominator() -> None:
    run = RunSummary(n=8, judged=4, correct=3, score=0.5, not_judged=1, failed=1, waiting=2)

    said = str(run)

    assert run.settled == 6
    assert "score 50.0%: 3 correct of 6" in said
    assert "1 not judged (counts as wrong), 1 failed (counts as wrong)" in said
    assert "2 waiting for feedback (counts not yet)" in said
