from __future__ import annotations

import json
from pathlib import Path

import pytest

from drpg_dspy.plain import from_plain
from drpg_dspy.testing.tracker_contract import AWKWARD_TEXTS, TrackerContract, sample_records
from drpg_dspy.tracking import JSONLTracker, NullTracker, RunInfo, Tracker


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class TestJSONLTracker(TrackerContract):
    def make(self, folder: Path) -> Tracker:
        return JSONLTracker(folder / "deep" / "run.jsonl")

    def told(self, tracker: Tracker) -> list[int]:
        return [line["seq"] for line in lines(Path(tracker.path))]


class TestNullTracker(TrackerContract):
    def make(self, folder: Path) -> Tracker:
        return NullTracker()

    def told(self, tracker: Tracker) -> None:
        return None


def test_a_line_holds_the_whole_record(tmp_path: Path) -> None:
    tracker = JSONLTracker(tmp_path / "run.jsonl")
    tracker.start(RunInfo("first"))
    records = sample_records(3)
    tracker.write(records)
    line = lines(tmp_path / "run.jsonl")[1]
    feedback = records[1].feedback
    assert line["feedback"]["text"] == feedback.text
    assert from_plain(line["rollout"]["inputs"])["tags"] == {"a", "b"}
    assert line["metrics"]["judged"] == 1
    assert AWKWARD_TEXTS[1] in line["rollout"]["guidance"]["policy_texts"]["predict"]


@pytest.mark.parametrize("keep", [0, 1, 40, -1])
def test_a_torn_last_line_is_cut_and_written_again(tmp_path: Path, keep: int) -> None:
    path, records = tmp_path / "run.jsonl", sample_records(4)
    first = JSONLTracker(path)
    token = first.start(RunInfo("first"))
    first.write(records[:5])
    first.finish("finished")
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:4]) + whole[4][:keep])
    second = JSONLTracker(path)
    assert second.start(RunInfo("first", resume_token=token)) == token
    second.write(records[4:])
    assert [line["seq"] for line in lines(path)] == [record.seq for record in records]


def test_a_file_of_another_run_is_kept_under_another_name(tmp_path: Path) -> None:
    path, records = tmp_path / "run.jsonl", sample_records(1)
    for name in ("first", "second"):
        tracker = JSONLTracker(path)
        tracker.start(RunInfo(name))
        tracker.write(records)
        tracker.finish("finished")
    assert len(lines(path)) == len(lines(tmp_path / "run.1.jsonl")) == len(records)
    assert lines(path)[0]["run"] != lines(tmp_path / "run.1.jsonl")[0]["run"]


def test_a_file_that_is_not_ours_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("my notes\n")
    JSONLTracker(path).start(RunInfo("first"))
    assert (tmp_path / "notes.1.jsonl").read_text() == "my notes\n"


def test_a_removed_file_means_a_new_token(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    tracker = JSONLTracker(path)
    token = tracker.start(RunInfo("first"))
    tracker.write(sample_records(1))
    path.unlink()
    assert JSONLTracker(path).start(RunInfo("first", resume_token=token)) != token


def test_writing_before_the_start_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"call start\(\) first"):
        JSONLTracker(tmp_path / "run.jsonl").write(sample_records(1))
