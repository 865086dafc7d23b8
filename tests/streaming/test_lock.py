from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drpg_dspy.exceptions import RunInUse
from drpg_dspy.streaming.lock import is_locked, lock_for

Hold = Callable[..., int]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.sqlite"


@pytest.fixture
def hold(memory: Path) -> Iterator[Hold]:
    """Start a process that holds the lock until it is killed."""
    started: list[int] = []

    def start(and_then: Callable[[], None] = lambda: None) -> int:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            with lock_for(memory):
                and_then()
                os.write(write, b".")
                time.sleep(600)
        os.close(write)
        assert os.read(read, 1) == b"."
        os.close(read)
        started.append(pid)
        return pid

    yield start
    for pid in started:
        kill(pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # the test did it


def test_a_second_live_process_is_refused_by_name(memory: Path, hold: Hold) -> None:
    pid = hold()

    assert is_locked(memory)
    with pytest.raises(RunInUse, match=f"process {pid} on "):
        with lock_for(memory):
            pass


def test_the_lock_of_a_killed_process_is_taken_over(memory: Path, hold: Hold) -> None:
    kill(hold())

    assert not is_locked(memory)
    with lock_for(memory):
        assert is_locked(memory)


def test_a_forked_child_that_outlives_its_parent_does_not_keep_the_lock(
    memory: Path, hold: Hold, tmp_path: Path
) -> None:
    def leave_a_worker() -> None:
        worker = os.fork()
        if not worker:
            time.sleep(600)
        (tmp_path / "worker").write_text(str(worker))

    kill(hold(leave_a_worker))
    worker = int((tmp_path / "worker").read_text())

    try:
        os.kill(worker, 0)  # it lives
        with lock_for(memory):
            assert is_locked(memory)
    finally:
        os.kill(worker, signal.SIGKILL)


def test_the_thread_that_holds_it_may_take_it_again(memory: Path) -> None:
    with lock_for(memory):
        with lock_for(memory):
            pass
        assert is_locked(memory)
    assert not is_locked(memory)


def test_another_thread_of_the_same_process_is_refused(memory: Path) -> None:
    refused: list[RunInUse] = []

    def second() -> None:
        try:
            with lock_for(memory):
                pass
        except RunInUse as error:
            refused.append(error)

    with lock_for(memory):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    assert len(refused) == 1


def test_asking_writes_nothing(memory: Path, tmp_path: Path) -> None:
    assert not is_locked(memory)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_may_leave_no_file_behind(memory: Path) -> None:
    with lock_for(memory, remove=True), lock_for(memory, remove=True):
        assert is_locked(memory)
    assert list(memory.parent.iterdir()) == []
    assert not is_locked(memory)
    with lock_for(memory):
        pass
    assert [path.name for path in memory.parent.iterdir()] == ["memory.sqlite.running"]


def test_a_file_that_was_removed_meanwhile_is_no_lock(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = memory.with_name("memory.sqlite.running")
    opened = os.open

    def late(path: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        if Path(path) == file:
            monkeypatch.setattr(os, "open", opened)
            file.unlink()  # by its holder, between our opening and locking it
        return descriptor

    monkeypatch.setattr(os, "open", late)
    with lock_for(memory, remove=True):
        assert file.exists()
        assert is_locked(memory)


def test_many_processes_never_hold_a_removed_lock_together(memory: Path) -> None:
    inside = memory.with_name("inside")
    children = []
    for _ in range(4):
        if not (pid := os.fork()):
            ok = True
            for _ in range(200):
                try:
                    with lock_for(memory, remove=True):
                        handle = os.open(inside, os.O_CREAT | os.O_EXCL)  # fails if another is
                        os.close(handle)
                        os.unlink(inside)
                except RunInUse:
                    continue
                except FileExistsError:
                    ok = False
            os._exit(0 if ok else 1)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
