from __future__ import annotations

import threading
from collections.abc import Iterator

import dspy
import pytest

from drpg_dspy.streaming.abreast import abreast
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.usage import meter


def drained(results: Iterator[tuple[int, int]]) -> tuple[list[int], Exception | None]:
    """Return the items that came, and what ended them."""
    found: list[int] = []
    try:
        for item, _ in results:
            found.append(item)
    except (RuntimeError, ValueError) as failure:
        return found, failure
    return found, None


@pytest.mark.parametrize("threads", [1, 3])
def test_items_come_back_in_their_order_with_what_was_made_of_them(threads: int) -> None:
    slow_first = {0: threading.Event()} if threads > 1 else {}

    def work(n: int) -> int:
        if n in slow_first:
            slow_first[n].wait(5)
        if n == 1 and slow_first:
            slow_first[0].set()
        return n * n

    assert list(abreast(range(10), work, threads)) == [(n, n * n) for n in range(10)]


def test_as_many_are_under_way_as_there_are_threads_and_no_more() -> None:
    here = threading.Barrier(3, timeout=10)
    lock = threading.Lock()
    now = most = 0

    def work(n: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        here.wait()  # passes only where three are here at once
        with lock:
            now -= 1

    assert len(list(abreast(range(9), work, 3))) == 9
    assert most == 3


def test_an_item_is_taken_when_a_thread_is_free_for_it() -> None:
    taken: list[int] = []
    go_on, others = threading.Event(), threading.Semaphore(0)

    def items() -> Iterator[int]:
        for n in range(4):
            if n >= 2:
                assert others.acquire(timeout=10)  # only after another was finished
            taken.append(n)
            yield n

    def work(n: int) -> int:
        if n == 0:
            go_on.wait(10)  # takes its time: the others go on past it
        else:
            others.release()
        if n == 3:
            go_on.set()
        return n

    assert [n for n, _ in abreast(items(), work, 2)] == [0, 1, 2, 3]
    assert taken == [0, 1, 2, 3]


def test_results_that_wait_for_an_earlier_one_are_bounded() -> None:
    taken: list[int] = []
    go_on = threading.Event()

    def items() -> Iterator[int]:
        for n in range(1000):
            taken.append(n)
            yield n

    def work(n: int) -> int:
        if n == 0:
            go_on.wait(10)
        if n == 15:
            go_on.set()  # the last that is begun before the first is done
        return n

    results = abreast(items(), work, 2)
    assert next(results) == (0, 0)
    assert taken == list(range(16))
    results.close()


@pytest.mark.parametrize("threads", [1, 4])
def test_what_was_begun_before_taking_failed_is_still_given(threads: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise RuntimeError("nothing left to pay with")

    found, failure = drained(abreast(items(), lambda n: n, threads))

    assert (found, str(failure)) == ([0, 1, 2], "nothing left to pay with")


@pytest.mark.parametrize("threads", [1, 4])
def test_an_item_that_fails_comes_after_those_before_it(threads: int) -> None:
    def work(n: int) -> int:
        if n == 2:
            raise ValueError("no")
        return n

    found, failure = drained(abreast(range(6), work, threads))

    assert (found, str(failure)) == ([0, 1], "no")


def test_each_is_worked_on_in_the_callers_context_and_metered_apart() -> None:
    lm = ScriptedLM(lambda messages: fields(answer="yes"))
    program = dspy.Predict("question -> answer")

    def work(n: int) -> int:
        with meter() as used:
            for _ in range(n):
                program(question=f"{n}?")
        return int(used.total().calls)

    with dspy.context(lm=lm), meter() as used:
        found = dict(abreast([1, 2, 3], work, 3))

    assert found == {1: 1, 2: 2, 3: 3}
    assert used.total().calls == 6
