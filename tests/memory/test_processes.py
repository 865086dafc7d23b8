"""Many threads and processes on one file, forks, and processes that are killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval.embedder import HashingEmbedder
from drpg_dspy.testing.memory_toys import ids, plain_rollout
from drpg_dspy.types import Feedback, Guidance, Policy, Rule

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def child(work: Callable[[], None], seconds: int = 60) -> int:
    """Fork, do the work, and leave with 0; with 1 when it raised, killed when it hung."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        work()
    except BaseException:  # noqa: BLE001 - a child must never return into pytest
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def statuses(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def learn(memory: SQLiteMemory, name: str, key: str, score: float = 1.0) -> None:
    policy = Policy("p", (Rule(f"rule of {name}"),))
    guidance = Guidance(policies={"p": policy}, memo={name: key})
    memory.record(replace(plain_rollout(name, key), guidance=guidance))
    memory.commit(name, Feedback(score))


def test_fifty_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "m.sqlite"

    def work() -> None:
        with closing(SQLiteMemory(path, HashingEmbedder(16))) as memory:
            assert memory.count() == 0

    assert statuses([child(work) for _ in range(50)]) == [0] * 50
    assert sorted(p.name for p in path.parent.iterdir()) == ["m.sqlite", "m.sqlite.lock"]


def test_fifty_processes_read_an_existing_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with closing(SQLiteMemory(path, HashingEmbedder(16))) as memory:
        for number in range(5):
            learn(memory, f"r{number}", f"text {number}")
    before = path.stat().st_mtime_ns

    def work() -> None:
        with closing(SQLiteMemory(path, HashingEmbedder(16))) as memory:
            assert ids(memory.search("text 3", 1)) == ["r3"]

    assert statuses([child(work) for _ in range(50)]) == [0] * 50
    assert path.stat().st_mtime_ns == before


def test_processes_that_write_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    memory = SQLiteMemory(path, HashingEmbedder(16))

    def work(who: int) -> None:
        mine = memory if who % 2 else SQLiteMemory(path, HashingEmbedder(16))
        for number in range(40):
            found = mine.search(f"text {number}", 3)  # reads, then writes
            assert all(hit.experience.rollout.key.startswith("text") for hit in found)
            learn(mine, f"{who}-{number}", f"text {number}", score=float(number % 2))

    pids = [child(lambda who=who: work(who)) for who in range(4)]
    assert statuses(pids) == [0] * 4

    seqs = [event.seq for event in memory.events(limit=10_000)]
    assert seqs == list(range(1, 4 * 40 * 3 + 1))  # a policy, a rollout, a verdict each
    assert (memory.count("correct"), memory.count("wrong")) == (80, 80)
    assert [p.version for p in memory.policies("p")] == list(range(1, 161))
    assert len(memory.search("text 1", 1000)) == 160


def test_a_writer_waits_for_another_that_read_first(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", timeout=20.0)
    other = sqlite3.connect(tmp_path / "m.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("SELECT count(*) FROM rollouts").fetchone()
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()

    memory.record(plain_rollout("r"))

    assert memory.rollout("r").id == "r"
    other.close()


def test_readers_do_not_wait_for_another_processs_write_lock(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder(16), timeout=0.1)
    learn(memory, "r", "text")
    with closing(sqlite3.connect(tmp_path / "m.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        assert ids(memory.search("text", 1)) == ["r"]
        with pytest.raises(Exception, match=r"held the write lock.*0\.1 s"):
            memory.set_meta("a", "b")


def test_one_writer_and_eight_readers_never_see_anything_but_stored_texts() -> None:
    memory = SQLiteMemory(":memory:", HashingEmbedder(32))
    learn(memory, "0", "text 0")
    stop, failures, searches = threading.Event(), [], [0] * 8

    def read(who: int) -> None:
        try:
            while not stop.is_set():
                verdict = ("correct", "wrong", None)[searches[who] % 3]
                for hit in memory.search(f"text {searches[who] % 97}", 5, verdict):
                    assert hit.experience.rollout.key == f"text {int(hit.experience.id) % 97}"
                    assert -1.0 <= hit.similarity <= 1.0
                searches[who] += 1
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=read, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 1.5
    number = 1
    while time.monotonic() < ends or number < 60:
        learn(memory, str(number), f"text {number % 97}", float(number % 3 > 0))
        if number % 5 == 0:
            memory.retract(str(number - 1))
            memory.commit(str(number - 2), Feedback(float(number % 2)))
        number += 1
    stop.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert min(searches) > 0


def test_a_child_forked_while_threads_search_and_write_works_and_never_hangs() -> None:
    memory = SQLiteMemory(":memory:", HashingEmbedder(32))
    for number in range(50):
        learn(memory, str(number), f"text {number}")
    stop = threading.Event()

    def busy(who: int) -> None:
        number = 0
        while not stop.is_set():
            memory.search(f"text {number % 50}", 3)
            if who == 0:
                learn(memory, f"busy {number}", f"busy {number}")
            number += 1

    threads = [threading.Thread(target=busy, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()

    def work() -> None:
        assert ids(memory.search("text 7", 1)) == ["7"]
        learn(memory, f"child {os.getpid()}", "written by a child")

    try:
        assert statuses([child(work, seconds=30) for _ in range(8)]) == [0] * 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(memory.search("written by a child", 8)) == 8
    assert {h.experience.rollout.key for h in memory.search("written by a child", 8)} == {
        "written by a child"
    }


def test_two_threads_may_fork_at_once() -> None:
    memory = SQLiteMemory(":memory:", HashingEmbedder(16))
    learn(memory, "r", "text")
    codes: list[int] = []

    def fork() -> None:
        for _ in range(5):
            codes.extend(statuses([child(lambda: memory.search("text", 1), seconds=20)]))

    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codes == [0] * 10
    assert memory.count() == 1


def test_a_process_killed_at_any_moment_leaves_whole_steps(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with closing(SQLiteMemory(path, HashingEmbedder(16))) as memory:
        learn(memory, "first", "first")

    def write() -> None:
        memory = SQLiteMemory(path, HashingEmbedder(16))
        start = len(list(memory.rollouts()))
        for number in range(start, 100_000):
            memory.remember(f"memo {number}", "x")
            name = f"r{number}"
            learn(memory, name, name)
            _, version = memory.state()
            memory.commit(name, Feedback(0.0), state={"n": number}, if_state_version=version)

    for attempt in range(6):
        pid = child(write)
        time.sleep(0.15 + 0.07 * attempt)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

        with closing(SQLiteMemory(path, HashingEmbedder(16))) as memory:
            events = memory.events(limit=10**6)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            rollouts = list(memory.rollouts())
            recorded = [event.ref for event in events if event.kind == "rollout"]
            assert [rollout.id for rollout, _ in rollouts] == recorded
            waiting = [rollout.id for rollout, feedback in rollouts if feedback is None]
            assert len(waiting) <= attempt + 1  # at most the step under way at each kill
            assert all(memory.recall(rollout.id) == rollout.key for rollout, _ in rollouts)
            state, version = memory.state()
            judged_twice = sum(
                len(memory.feedback_history(rollout.id)) == 2 for rollout, _ in rollouts
            )
            assert version == judged_twice
            assert not state or state["n"] >= version
            last = rollouts[-1][0]
            assert last.guidance.policies["p"].version == len(memory.policies("p"))
            assert len(memory.search("r1", 10**6)) == memory.count()
    assert len(rollouts) > 6
