from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from drpg_dspy.tracking import BackgroundWriter, RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.lease import Lease
from drpg_dspy.tracking.records import replay


class Listener(Tracker):
    """Remembers what it was told; raises what it is asked to."""

    name = "listener"

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.runs: list[RunInfo] = []
        self.ended: list[str] = []
        self.token = "token"
        self.fail: Callable[[list[StepRecord]], None] = lambda records: None

    def start(self, run: RunInfo) -> str:
        self.runs.append(run)
        return self.token

    def write(self, records) -> None:
        self.fail(records)
        self.records.extend(records)

    def finish(self, status: str) -> None:
        self.ended.append(status)


def writer(memory, tracker: Tracker, **changes) -> BackgroundWriter:
    return BackgroundWriter(memory, tracker, RunInfo("first"), interval=0.01, **changes)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def dead(records: list[StepRecord]) -> None:
    raise ConnectionError("no route to host")


def test_a_closed_writer_has_told_everything_in_order(memory, play) -> None:
    tracker = Listener()
    with writer(memory, tracker, batch=7) as told:
        for n in range(1, 40):
            play(memory, n)
            told.notify()
    assert tracker.records == list(replay(memory))
    assert tracker.ended == ["finished"]
    assert told.behind() == 0


def test_a_record_arrives_without_anybody_closing(memory, play) -> None:
    tracker = Listener()
    told = writer(memory, tracker)
    play(memory, 1)
    told.notify()
    wait_for(lambda: len(tracker.records) == 2)
    assert told.close()


def test_a_writer_that_caught_up_has_told_everything_and_goes_on(memory, play) -> None:
    tracker = Listener()
    told = writer(memory, tracker)
    play(memory, 1)

    assert told.catch_up(20)
    assert tracker.records == list(replay(memory))
    assert tracker.ended == []
    play(memory, 2)
    assert told.close()
    assert tracker.records == list(replay(memory))


def test_catching_up_gives_up_on_a_dead_tracker_and_loses_nothing(memory, play) -> None:
    tracker = Listener()
    tracker.fail = dead
    told = writer(memory, tracker)
    play(memory, 1)

    assert not told.catch_up(0.2)
    tracker.fail = lambda records: None
    assert told.close()
    assert tracker.records == list(replay(memory))


def test_what_another_process_wrote_is_seen_without_a_notice(memory, play) -> None:
    tracker = Listener()
    told = writer(memory, tracker)
    play(memory, 1)
    wait_for(lambda: len(tracker.records) == 2)
    told.close()


def test_a_dead_tracker_costs_the_stream_nothing_and_is_logged_once(memory, play, caplog) -> None:
    tracker = Listener()
    tracker.fail = dead
    with caplog.at_level(logging.WARNING, logger="drpg_dspy.tracking.writer"):
        told = writer(memory, tracker)
        for n in range(1, 4):
            play(memory, n)
            told.notify()
        wait_for(lambda: told.failures >= 2)
        assert not told.close()
    assert told.failure_kinds.keys() == {"write: ConnectionError"}
    assert told.behind() == len(memory.events())
    assert tracker.ended == []
    assert len([r for r in caplog.records if "no route to host" in r.getMessage()]) == 1


def test_what_a_dead_tracker_missed_is_sent_on_resume(memory, play) -> None:
    play(memory, 1)
    deaf = Listener()
    deaf.fail = dead
    writer(memory, deaf).close()
    play(memory, 2)
    tracker = Listener()
    assert writer(memory, tracker).close()
    assert tracker.records == list(replay(memory))
    assert tracker.runs[0].resume_token == "token"


def test_a_tracker_that_comes_back_gets_everything(memory, play) -> None:
    tracker = Listener()
    tracker.fail = dead
    told = writer(memory, tracker)
    for n in range(1, 10):
        play(memory, n)
    wait_for(lambda: told.failures >= 1)
    tracker.fail = lambda records: None
    assert told.close()
    assert tracker.records == list(replay(memory))


def test_a_resumed_run_continues_behind_what_was_told(memory, play) -> None:
    first, second = Listener(), Listener()
    for n in range(1, 60):
        play(memory, n)
    writer(memory, first).close(status="stopped: budget")
    for n in range(60, 70):
        play(memory, n)
    memory.retract("r0005")
    writer(memory, second).close()
    assert first.ended == ["stopped: budget"]
    assert first.records + second.records == list(replay(memory))


def test_a_new_token_means_that_all_is_told_again(memory, play) -> None:
    play(memory, 1)
    writer(memory, Listener()).close()
    elsewhere = Listener()
    elsewhere.token = "another"
    writer(memory, elsewhere).close()
    assert elsewhere.records == list(replay(memory))


def test_records_before_one_that_cannot_be_sent_still_arrive(memory, play) -> None:
    def refuse(records: list[StepRecord]) -> None:
        if any(record.rollout.id == "r0005" for record in records):
            raise ValueError("cannot show this")

    tracker = Listener()
    tracker.fail = refuse
    for n in range(1, 9):
        play(memory, n)
    told = writer(memory, tracker)
    wait_for(lambda: len(tracker.records) == 8)
    told.close()
    assert [record.rollout.step for record in tracker.records] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_delivery_whose_cursor_was_not_saved_is_offered_again(memory, play) -> None:
    play(memory, 1)
    save, refused = memory.set_meta, []

    def refuse_once(key: str, value: str) -> None:
        if '"cursor": 3' in value and not refused:
            refused.append(value)
            raise OSError("disk full")
        save(key, value)

    memory.set_meta = refuse_once
    tracker = Listener()
    told = writer(memory, tracker)
    wait_for(lambda: told.behind() == 0)
    assert told.close()
    assert told.failure_kinds == {"save: OSError": 1}
    assert [record.seq for record in tracker.records] == [2, 3, 2, 3]


def test_figures_stay_right_when_reading_failed_half_way(memory, play) -> None:
    for n in range(1, 6):
        play(memory, n)
    whole, read, calls = list(replay(memory)), memory.rollout, []

    def fail_once(id: str):
        calls.append(id)
        if len(calls) == 7:
            raise OSError("locked")
        return read(id)

    memory.rollout = fail_once
    tracker = Listener()
    told = writer(memory, tracker)
    wait_for(lambda: len(tracker.records) == len(whole))
    told.close()
    assert tracker.records == whole


def test_close_gives_up_on_a_tracker_that_hangs(memory, play) -> None:
    release = threading.Event()
    tracker = Listener()
    tracker.fail = lambda records: release.wait(20)
    play(memory, 1)
    told = writer(memory, tracker)
    assert not told.close(timeout=0.05)
    release.set()


def test_close_does_not_wait_for_a_tracker_that_nobody_can_reach(memory, play, caplog) -> None:
    release = threading.Event()
    tracker = Listener()
    tracker.fail = lambda records: release.wait(60)
    tracker.reachable = lambda: False
    play(memory, 1)
    told = writer(memory, tracker)
    with caplog.at_level(logging.WARNING, logger="drpg_dspy.tracking.writer"):
        assert not told.close(timeout=3600)  # it would not end if it waited for that long
    release.set()

    assert "listener was not told everything: 3 events are left" in caplog.text
    assert "drpg resume" in caplog.text
    second = Listener()
    assert writer(memory, second).close(), "the lease was given back"
    assert [record.kind for record in second.records] == ["rollout", "feedback"]


def test_close_waits_for_a_tracker_that_takes_records_although_it_seems_unreachable(
    memory, play, monkeypatch
) -> None:
    monkeypatch.setattr("drpg_dspy.tracking.writer._LOOK", 0.02)
    tracker = Listener()
    tracker.fail = lambda records: time.sleep(0.01)
    tracker.reachable = lambda: False
    told = writer(memory, tracker, batch=1)
    for n in range(1, 6):
        play(memory, n)
    monkeypatch.setattr("drpg_dspy.tracking.writer._SILENT_LOOKS", 1000)
    assert told.close()
    assert tracker.records == list(replay(memory))


def test_what_is_left_is_said_also_of_a_tracker_that_fails_at_once(memory, play, caplog) -> None:
    tracker = Listener()
    tracker.fail = dead
    play(memory, 1)
    with caplog.at_level(logging.WARNING, logger="drpg_dspy.tracking.writer"):
        assert not writer(memory, tracker).close()

    assert "3 events are left" in caplog.text


def test_a_writer_that_was_given_up_says_nothing_after_the_memory_is_closed(
    memory, play, caplog
) -> None:
    release = threading.Event()
    tracker = Listener()
    tracker.fail = lambda records: release.wait(60)
    play(memory, 1)
    told = writer(memory, tracker)
    told.close(timeout=0.05)
    memory.close()
    with caplog.at_level(logging.WARNING, logger="drpg_dspy.tracking.writer"):
        caplog.clear()
        release.set()
        told._thread.join(20)

    assert not told._thread.is_alive()
    assert not caplog.records


def test_an_error_in_the_program_ends_the_run_as_failed(memory) -> None:
    tracker = Listener()
    with pytest.raises(RuntimeError), writer(memory, tracker):
        raise RuntimeError("boom")
    assert tracker.ended == ["failed: RuntimeError: boom"]


def test_an_interrupt_ends_the_run_as_stopped(memory) -> None:
    tracker = Listener()
    with pytest.raises(KeyboardInterrupt), writer(memory, tracker):
        raise KeyboardInterrupt
    assert tracker.ended == ["stopped: KeyboardInterrupt"]


def test_the_history_replays_the_whole_run_also_after_a_resume(memory, play) -> None:
    play(memory, 1)
    writer(memory, Listener()).close()
    play(memory, 2)
    tracker = Listener()
    writer(memory, tracker).close()
    assert list(tracker.runs[0].history()) == list(replay(memory))
    assert tracker.runs[0].threshold == memory.threshold


def test_closing_twice_and_notifying_after_that_is_harmless(memory, play) -> None:
    tracker = Listener()
    told = writer(memory, tracker)
    assert told.close()
    told.notify()
    assert told.close()
    assert tracker.ended == ["finished"]


@pytest.mark.parametrize(("name", "value"), [("batch", 0), ("interval", 0)])
def test_a_wrong_argument_is_named(memory, name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        BackgroundWriter(memory, Listener(), RunInfo("first"), **{name: value})


def test_of_two_writers_one_writes_and_the_other_takes_over(memory, play) -> None:
    first, second = Listener(), Listener()
    owner = writer(memory, first)
    play(memory, 1)
    wait_for(lambda: len(first.records) == 2)
    stand_by = writer(memory, second)
    play(memory, 2)
    wait_for(lambda: len(first.records) == 4)
    assert second.runs == []
    owner.close()
    play(memory, 3)
    wait_for(lambda: len(second.records) == 2)
    assert stand_by.close()
    assert first.records + second.records == list(replay(memory))


def test_a_writer_that_only_stood_by_does_not_end_the_run(memory) -> None:
    tracker = Listener()
    owner = writer(memory, Listener())
    wait_for(lambda: len(owner.tracker.runs) == 1)
    assert not writer(memory, tracker).close()
    assert tracker.ended == []
    owner.close()


def test_the_lease_of_a_dead_process_is_free_at_once(memory) -> None:
    Lease(memory, "lease").hold()
    claim = json.loads(memory.get_meta("lease"))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    memory.set_meta("lease", json.dumps({**claim, "pid": gone.pid}))
    assert Lease(memory, "lease").hold()


def test_the_lease_of_a_live_process_is_respected_until_it_expires(memory) -> None:
    Lease(memory, "lease").hold()
    claim = json.loads(memory.get_meta("lease"))
    elsewhere = {**claim, "host": "another-machine", "id": "x"}
    memory.set_meta("lease", json.dumps(elsewhere))
    assert not Lease(memory, "lease").hold()
    memory.set_meta("lease", json.dumps({**elsewhere, "expires": time.time() - 1}))
    assert Lease(memory, "lease").hold()


def test_a_predecessor_with_our_process_number_does_not_block_us(memory) -> None:
    Lease(memory, "lease").hold()
    claim = json.loads(memory.get_meta("lease"))
    memory.set_meta("lease", json.dumps({**claim, "id": "from an earlier container"}))
    assert Lease(memory, "lease").hold()


def test_a_program_that_forgets_to_close_still_tells_everything(tmp_path) -> None:
    script = f"""
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.tracking import BackgroundWriter, JSONLTracker, RunInfo
from drpg_dspy.types import Rollout
memory = SQLiteMemory({str(tmp_path / "m.db")!r})
writer = BackgroundWriter(memory, JSONLTracker({str(tmp_path / "run.jsonl")!r}), RunInfo("first"))
for n in range(1, 21):
    memory.record(Rollout(f"r{{n}}", n, {{"q": n}}, {{"a": n}}))
    writer.notify()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["rollout"]["step"] for line in lines] == list(range(1, 21))
