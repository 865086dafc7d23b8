"""How a value travels with one call of a program: DSPy's own context, and plain threads.

Whatever holds for one call only (the policy in force, the trace being recorded, the meter that
counts) is an entry among DSPy's context overrides. DSPy hands these to its own workers
(``dspy.Parallel``, ``dspy.Evaluate``, ``asyncify``, ``streamify``) and Python hands them to async
tasks. Nobody hands them to a plain ``threading.Thread`` or a ``ThreadPoolExecutor``; a hook on
``Thread.start`` and ``ThreadPoolExecutor.submit``, installed once with the first entry, does. It
does nothing while no entry is set, and it lends only our own entries: the rest of DSPy's context
stays as invisible to such a thread as it is in plain DSPy.

An entry is set without freezing DSPy's other settings, which ``dspy.context`` would do: a
``dspy.configure`` inside the block works as it does outside.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.dsp.utils.settings import thread_local_overrides
from dspy.dsp.utils.utils import dotdict

__all__ = ["Held", "carried", "carry", "follow_threads", "overridden"]

_PREFIX = "drpg_"
_FOLLOWED = "_drpg_followed"


@dataclass(slots=True)
class Held:
    """An entry and the block that set it.

    Attributes:
        value: The entry.
        outer: The entry that this one hides.
        over: The block has ended.
        lent: Seen from a thread that was started inside the block. Such a thread may live on
            and serve other calls, so for it the entry ends with the block; a context copied by
            an async task or a pool's task belongs to that task and keeps it.
    """

    value: Any
    outer: Held | None = None
    over: bool = False
    lent: Held | None = None


def carried(key: str) -> Any:
    """Return the entry of that name in this context, or ``None``."""
    held = dspy.settings.get(key)
    if held is None:
        return None
    if held.lent is not None:
        held = held.lent
        while held is not None and held.over:
            held = held.outer
    return None if held is None else held.value


@contextmanager
def carry(key: str, value: Any) -> Iterator[None]:
    """Set an entry for everything that runs inside the block.

    Args:
        key: Its name; begins with ``drpg_``.
        value: Must not change while it is carried.
    """
    follow_threads()
    outer = thread_local_overrides.get().get(key)
    held = Held(value, outer.lent or outer if outer is not None else None)
    with overridden({key: held}):
        try:
            yield
        finally:
            held.over = True


@contextmanager
def overridden(values: Mapping[str, Any]) -> Iterator[None]:
    """Override some of DSPy's settings inside the block and leave all others as they are."""
    token = thread_local_overrides.set(dotdict({**thread_local_overrides.get(), **values}))
    try:
        yield
    finally:
        thread_local_overrides.reset(token)


def follow_threads() -> None:
    """Install the hook on plain threads, once for the process."""
    if not hasattr(threading.Thread.start, _FOLLOWED):
        threading.Thread.start = _following_start(threading.Thread.start)  # type: ignore[method-assign]
    if not hasattr(ThreadPoolExecutor.submit, _FOLLOWED):
        ThreadPoolExecutor.submit = _following_submit(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _entries() -> dict[str, Held]:
    found = thread_local_overrides.get()
    return {key: held for key, held in found.items() if key.startswith(_PREFIX)}


def _following_start(start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(start)
    def followed(thread: threading.Thread) -> None:
        entries = _entries()
        if not entries:
            return start(thread)
        loan = {key: Held(None, lent=held.lent or held) for key, held in entries.items()}
        # The instance's run, not the class's: a subclass may override run without calling ours.
        before = thread.__dict__.get("run")
        run = thread.run

        def run_with_loan() -> None:
            _restore_run(thread, before)
            with overridden(loan):
                run()

        thread.run = run_with_loan  # type: ignore[method-assign]
        try:
            start(thread)
        except RuntimeError:  # started before, or the system has no more threads
            _restore_run(thread, before)
            raise

    setattr(followed, _FOLLOWED, True)
    return followed


def _restore_run(thread: threading.Thread, before: Any) -> None:
    if before is None:
        thread.__dict__.pop("run", None)
    else:
        thread.run = before  # type: ignore[method-assign]


def _following_submit(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def followed(
        pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        entries = _entries()
        if not entries:
            return submit(pool, fn, *args, **kwargs)

        def task(*args: Any, **kwargs: Any) -> Any:
            with overridden(entries):
                return fn(*args, **kwargs)

        # A pool's worker outlives the task, so it must not be started with a loan of its own.
        with _without(entries):
            return submit(pool, task, *args, **kwargs)

    setattr(followed, _FOLLOWED, True)
    return followed


@contextmanager
def _without(entries: Mapping[str, Any]) -> Iterator[None]:
    rest = {k: v for k, v in thread_local_overrides.get().items() if k not in entries}
    token = thread_local_overrides.set(dotdict(rest))
    try:
        yield
    finally:
        thread_local_overrides.reset(token)
