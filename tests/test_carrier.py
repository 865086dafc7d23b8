from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest

from drpg_dspy.carrier import carried, carry, follow_threads, overridden

KEY = "drpg_test"


def in_thread(task) -> list:
    got: list = []
    thread = threading.Thread(target=lambda: got.append(task()))
    thread.start()
    thread.join()
    return got


def test_an_entry_holds_inside_its_block_and_nests() -> None:
    assert carried(KEY) is None
    with carry(KEY, 1):
        with carry(KEY, 2):
            assert carried(KEY) == 2
        assert carried(KEY) == 1
    assert carried(KEY) is None


def test_other_settings_are_not_frozen() -> None:
    from dspy.dsp.utils.settings import main_thread_config

    with carry(KEY, 1):
        main_thread_config["drpg_free"] = "new"
        try:
            assert dspy.settings.get("drpg_free") == "new"
        finally:
            del main_thread_config["drpg_free"]


def test_overrides_are_taken_back() -> None:
    with overridden({"num_threads": 77}):
        assert dspy.settings.num_threads == 77
    assert dspy.settings.num_threads != 77


def test_a_thread_started_inside_has_the_entry_but_not_dspys_context() -> None:
    with dspy.context(max_errors=123), carry(KEY, 1):
        assert in_thread(lambda: (carried(KEY), dspy.settings.max_errors == 123)) == [(1, False)]


def test_a_thread_outside_has_none() -> None:
    follow_threads()
    assert in_thread(lambda: carried(KEY)) == [None]


def test_a_thread_that_outlives_the_block_loses_the_entry_and_falls_back_to_the_outer_one() -> None:
    asked, told = queue.Queue(), queue.Queue()

    def worker() -> None:
        while asked.get():
            told.put(carried(KEY))

    def ask() -> object:
        asked.put(True)
        return told.get(timeout=10)

    thread = threading.Thread(target=worker)
    with carry(KEY, "outer"):
        with carry(KEY, "inner"):
            thread.start()
            assert ask() == "inner"
        assert ask() == "outer"
    assert ask() is None
    asked.put(False)
    thread.join()


def test_a_thread_of_a_thread_has_the_entry_too() -> None:
    with carry(KEY, 1):
        assert in_thread(lambda: in_thread(lambda: carried(KEY))) == [[1]]


def test_a_pools_task_keeps_the_entry_it_was_submitted_with_and_its_worker_has_none() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with carry(KEY, "first"):
            first = pool.submit(lambda: (gate.wait(10), carried(KEY))[1])
        with carry(KEY, "second"):
            second = pool.submit(carried, KEY)
        third = pool.submit(carried, KEY)
        gate.set()
        assert [f.result() for f in (first, second, third)] == ["first", "second", None]


def test_starting_a_thread_twice_fails_as_ever_and_leaves_it_clean() -> None:
    thread = threading.Thread(target=lambda: None)
    with carry(KEY, 1):
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="once"):
            thread.start()
    assert "run" not in thread.__dict__


def test_the_hook_is_installed_once() -> None:
    follow_threads()
    before = threading.Thread.start, ThreadPoolExecutor.submit
    follow_threads()
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before
