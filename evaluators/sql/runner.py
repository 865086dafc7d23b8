"""Runs queries in worker processes that can be killed.

Queries written by a language model may never end, or eat the machine. They run in a small pool
of processes (:mod:`evaluators.sql.worker`); one that exceeds its limits is stopped or killed,
and the next query gets a fresh one. Any number of threads may call :meth:`SqlRunner.run`: as
many queries run at once as there are workers, the others wait their turn.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["Limits", "Outcome", "SqlRunner"]

Failure = Literal[
    "", "sql", "forbidden", "no result", "timeout", "rows", "memory", "crash", "database", "stalled"
]
_WORKER = Path(__file__).with_name("worker.py")
_MAX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    Attributes:
        seconds: CPU time. Wall time is limited too, to four times that and five seconds more: it
            only ends a query that gets too little CPU, so that a busy machine changes no verdict.
        rows: Rows of the result.
        memory: Bytes that SQLite may allocate.
    """

    seconds: float = 30.0
    rows: int = 100_000
    memory: int = 512 << 20

    @property
    def wall_seconds(self) -> float:
        """When a query that gets too little CPU time is given up."""
        return 4 * self.seconds + 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one query.

    Attributes:
        columns: Names of the result's columns.
        rows: The result, in order.
        failure: ``""`` for a result. ``"database"`` and ``"stalled"`` are not the query's fault.
        message: What failed, in SQLite's or our words.
        tables: Tables and views that were read.
        functions: SQL functions that were used, in lower case.
        size: Rough number of bytes of the rows.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    failure: Failure = ""
    message: str = ""
    tables: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    size: int = 0


class SqlRunner:
    """Runs SQL read-only, in processes of its own.

    Args:
        limits: What one query may use.
        workers: How many queries run at once.
    """

    def __init__(self, limits: Limits, workers: int) -> None:
        self.limits = limits
        self.workers = workers
        self._start_over()

    def run(self, database: Path, sql: str, *, seconds: float | None = None) -> Outcome:
        """Run one query and return its result or its failure; never raises for a bad query.

        Args:
            database: A SQLite file.
            sql: One statement.
            seconds: CPU time, if less than the limit.
        """
        if self._pid != os.getpid():
            # A forked child must not talk through its parent's pipes.
            self._start_over()
        limits = self.limits
        request = {
            "database": str(database.absolute()),
            "sql": sql,
            "seconds": min(limits.seconds, seconds or limits.seconds),
            "rows": limits.rows,
            "bytes": _MAX_BYTES,
        }
        with self._slots:
            outcome = self._attempt(request)
            if outcome.failure in ("crash", "stalled"):
                outcome = self._attempt(request)  # it may have been the machine's doing
        return outcome

    def close(self) -> None:
        """End the workers. The runner starts new ones if it is used again."""
        _end_all(self._idle, os.getpid())

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(self.workers)
        self._idle: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _end_all, self._idle, self._pid)

    def _attempt(self, request: dict[str, Any]) -> Outcome:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self.limits.memory)
        try:
            outcome = worker.ask(request, self.limits.wall_seconds)
        except BaseException:
            worker.end()
            raise
        if worker.alive and outcome.failure != "memory":
            self._idle.append(worker)
        else:
            worker.end()
        return outcome


class _Worker:
    """One process and its pipes; used by one thread at a time."""

    def __init__(self, memory: int) -> None:
        # "-I -S": nothing of the caller's environment or site-packages is loaded.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: dict[str, Any], wall_seconds: float) -> Outcome:
        stalled = threading.Event()

        def give_up() -> None:
            stalled.set()
            self.process.kill()

        timer = threading.Timer(wall_seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(json.dumps(request).encode("ascii") + b"\n")
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return _outcome(json.loads(line))
        return self._died(request, stalled.is_set(), wall_seconds)

    def _exchange(self, line: bytes) -> bytes:
        to, back = self.process.stdin, self.process.stdout
        if to is None or back is None:  # only for the type checker: both are pipes
            return b""
        try:
            to.write(line)
            to.flush()
            return back.readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""

    def _died(self, request: dict[str, Any], stalled: bool, wall_seconds: float) -> Outcome:
        code = self.process.wait()
        if stalled:
            return Outcome(failure="stalled", message=f"no answer within {wall_seconds:g} s")
        if code == -getattr(signal, "SIGXCPU", 0):
            return Outcome(
                failure="timeout",
                message=f"still running after {request['seconds']:g} s of CPU time",
            )
        return Outcome(failure="crash", message=f"the SQLite process ended with code {code}")

    def end(self) -> None:
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()


def _end_all(workers: list[_Worker], owner: int) -> None:
    while workers and owner == os.getpid():
        workers.pop().end()


def _outcome(reply: dict[str, Any]) -> Outcome:
    if "error" in reply:
        return Outcome(failure=reply["error"], message=reply["message"])
    return Outcome(
        columns=tuple(reply["columns"]),
        rows=tuple(tuple(map(_value, row)) for row in reply["rows"]),
        tables=frozenset(reply["tables"]),
        functions=frozenset(reply["functions"]),
        size=reply["size"],
    )


def _value(cell: Any) -> Any:
    return base64.b64decode(cell["blob"]) if isinstance(cell, dict) else cell
