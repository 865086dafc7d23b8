"""Several items worked on at once, where none of them waits for what another teaches."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["abreast"]

Item = TypeVar("Item")
Made = TypeVar("Made")

_AHEAD = 8
"""Times the threads: so many items may be begun or done while an earlier one takes its time."""


def abreast(
    items: Iterable[Item], work: Callable[[Item], Made], threads: int = 1
) -> Iterator[tuple[Item, Made]]:
    """Yield each item with what was made of it, in the order of the items.

    Each is worked on in a copy of the caller's context (``dspy.context`` and all that travels
    with it). Items are taken in the caller's thread, one when a thread is free for it, so an
    iterator may look at what the earlier ones have spent. When taking or working on one raises,
    those begun before it are still yielded, those begun after it are finished and dropped, and
    then it is raised. An interrupt waits for those under way.

    Args:
        items: What there is to do.
        work: Called with one item; from several threads at once if there are several.
        threads: At most so many at once, at least 1. One is the caller's own thread.

    >>> list(abreast([3, 1, 2], lambda n: n * n, threads=2))
    [(3, 9), (1, 1), (2, 4)]
    """
    if threads == 1:
        for item in items:
            yield item, work(item)
        return
    source = iter(items)
    begun: deque[tuple[Item, Future[Made]]] = deque()
    failure: Exception | None = None
    more = True
    pool = ThreadPoolExecutor(threads, thread_name_prefix="drpg-abreast")
    try:
        while True:
            while more and len(begun) < _AHEAD * threads and _running(begun) < threads:
                try:
                    item = next(source)
                except StopIteration:
                    more = False
                except Exception as raised:  # noqa: BLE001 - raised when its turn comes
                    more, failure = False, raised
                else:
                    run = contextvars.copy_context().run
                    begun.append((item, pool.submit(run, work, item)))
            if not begun:
                break
            if begun[0][1].done():
                item, future = begun.popleft()
                yield item, future.result()
            else:
                wait([future for _, future in begun if not future.done()], None, FIRST_COMPLETED)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if failure is not None:
        raise failure


def _running(begun: Iterable[tuple[object, Future[Made]]]) -> int:
    return sum(not future.done() for _, future in begun)
