"""The thread that tells a tracker what the memory's event log says.

The log is the truth and the tracker follows it. All that a stream does is
:meth:`BackgroundWriter.notify`; everything else happens on one daemon thread, in order, at
least once. How far the tracker was told is kept in the memory beside the data
(``tracker:DESTINATION``), so whatever a dead tracker or a killed process missed is sent the next
time a writer is started on that memory.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import TracebackType

from drpg_dspy.arguments import number, whole
from drpg_dspy.memory.base import Memory
from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.lease import Lease
from drpg_dspy.tracking.records import RecordBuilder, replay

__all__ = ["BackgroundWriter"]

_log = logging.getLogger(__name__)

_LONGEST_BACKOFF = 60.0
_EXIT_TIMEOUT = 30.0
_LOOK = 1.0
"""Seconds between looks at a tracker that :meth:`BackgroundWriter.close` waits for."""

_GLANCE = 0.05
"""Seconds between looks of :meth:`BackgroundWriter.catch_up`."""

_SILENT_LOOKS = 2
"""It is given up when it is found unreachable so many times in a row, having taken nothing."""


class BackgroundWriter:
    """Feeds one tracker from one memory, on a thread of its own.

    A tracker that raises is never the stream's problem: the failure is logged once of its kind,
    counted, and the same records are offered again after a growing pause. While the stream
    runs, the thread rests after each delivery for as long as the delivery took, so that it does
    not compete with the program for the interpreter; :meth:`close` sends the rest at full speed.

    Several processes may share a memory, and each may have a writer for the same tracker: the
    one that holds the lease (``tracker:DESTINATION:lease``) writes what all of them did, the others
    stand by and take over when it closes or dies.

    Args:
        memory: Where the run is.
        tracker: Who is told.
        run: What the tracker is told at the start. Its ``resume_token``, ``threshold`` and
            ``history`` are filled in from the memory.
        batch: Records in a delivery, at most.
        interval: Seconds between looks at the log when nobody calls :meth:`notify`, and the
            first pause after a failure.

    Attributes:
        failures: Number of times the tracker or the memory raised on this thread.
        failure_kinds: The same, by ``"PHASE: ERROR CLASS"``.

    Example::

        with BackgroundWriter(memory, JSONLTracker("run.jsonl"), RunInfo("first")) as writer:
            memory.record(rollout)
            writer.notify()
    """

    def __init__(
        self,
        memory: Memory,
        tracker: Tracker,
        run: RunInfo,
        *,
        batch: int = 50,
        interval: float = 1.0,
    ) -> None:
        whole("batch", batch, 1)
        number("interval", interval, 0)
        self.memory = memory
        self.tracker = tracker
        self.run = run
        self.batch = batch
        self.interval = interval
        self.failures = 0
        self.failure_kinds: Counter[str] = Counter()
        self._meta = f"tracker:{tracker.destination}"
        self._lease = Lease(memory, f"{self._meta}:lease")
        self._builder: RecordBuilder | None = None  # None until the tracker has been started
        self._waiting: deque[StepRecord] = deque()
        self._token = ""
        self._cursor = 0
        self._size = batch
        self._phase = "start"
        self._status = "finished"
        self._deadline = float("inf")
        self._complete = False
        self._deliveries = 0
        self._leading = False
        self._given_up = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"drpg-{self._meta}", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def notify(self) -> None:
        """Say that the memory has changed. Costs a microsecond; never blocks or raises."""
        self._wake.set()

    def behind(self) -> int:
        """Return the number of events that the tracker has not been told."""
        cursor, count = self._stored()[0], 0
        while events := self.memory.events(after=cursor, limit=10_000):
            cursor, count = events[-1].seq, count + len(events)
        return count

    def catch_up(self, timeout: float = 60.0) -> bool:
        """Wait until the tracker was told all that stands in the memory now; the run goes on.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether it was. What was not sent in time goes out later, as ever.
        """
        until = time.monotonic() + timeout
        while self.behind():
            if time.monotonic() >= until or not self._thread.is_alive():
                return False
            self.notify()
            self._closing.wait(_GLANCE)
        return True

    def close(self, timeout: float = 300.0, *, status: str = "finished") -> bool:
        """Send what is left, tell the tracker that the run has ended, and stop the thread.

        With a dead tracker one more attempt is made, and one that cannot be reached is not
        waited for. What could not be sent stays marked as unsent, is named in a warning, and
        goes out when the run is resumed. Closing twice is harmless.

        Args:
            timeout: Seconds to wait at most, for a tracker that is reachable.
            status: ``"finished"``, ``"stopped: …"`` or ``"failed: …"``.

        Returns:
            Whether everything was delivered and the run was ended.
        """
        if not self._closing.is_set():
            self._status = status
            self._deadline = time.monotonic() + timeout
            atexit.unregister(self._at_exit)
            self._closing.set()
            self._wake.set()
            self._wait(timeout)
            stuck = self._thread.is_alive()
            if stuck:
                self._given_up = True
                self._attempt(self._release)  # for whoever sends the rest
            if stuck or (self._leading and not self._complete):
                self._attempt(self._say_what_is_left)
        return self._complete and not self._thread.is_alive()

    def _wait(self, timeout: float) -> None:
        """Wait for the thread, as long as the tracker takes something or can be reached."""
        until = time.monotonic() + timeout
        silent = 0
        while self._thread.is_alive() and silent < _SILENT_LOOKS:
            before, left = self._deliveries, until - time.monotonic()
            if left <= 0:
                return
            self._thread.join(min(left, _LOOK))
            moved = self._deliveries != before or not self._thread.is_alive()
            silent = 0 if moved or self.tracker.reachable() else silent + 1

    def _say_what_is_left(self) -> int:
        left = self.behind()
        _log.warning(
            "%s was not told everything: %s left. It stays in the memory and is sent when that is "
            "opened with this tracker again: `drpg resume NAME` for a run; for a learner, "
            "construct it as before and call close().",
            self.tracker.destination,
            f"{left} events are" if left else "the end of the run is",
        )
        return left

    def __enter__(self) -> BackgroundWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, Exception):
            self.close(status=f"failed: {kind.__name__}: {error}")
        else:
            self.close(status=f"stopped: {kind.__name__}")

    def _at_exit(self) -> None:
        self.close(_EXIT_TIMEOUT, status="stopped: the program ended without closing the run")

    # ---- on the thread ---------------------------------------------------------------------

    def _work(self) -> None:
        failed_in_a_row = 0
        while not self._closing.is_set():
            began = time.monotonic()
            delivered = self._attempt(self._deliver)
            if delivered is None:
                failed_in_a_row += 1
                pause = min(_LONGEST_BACKOFF, self.interval * 2 ** min(failed_in_a_row, 10))
                self._closing.wait(pause)
                continue
            failed_in_a_row = 0
            if delivered:
                backlog = delivered >= self.batch
                took = time.monotonic() - began
                self._closing.wait(took if backlog else max(took, self.interval))
            else:
                self._wake.wait(self.interval)
                self._wake.clear()
        self._attempt(self._end)
        self._attempt(self._release)

    def _attempt(self, action: Callable[[], int]) -> int | None:
        """Return what the action returns, or ``None`` when it raised, which is counted."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - a tracker is foreign code: whatever it raises must end neither this thread nor the stream
            self._count(error)
            return None

    def _count(self, error: Exception) -> None:
        if self._given_up:  # said already; the memory may be closed by now
            return
        self.failures += 1
        self._size = 1  # what comes before a record that cannot be sent still gets through
        kind = f"{self._phase}: {type(error).__name__}"
        self.failure_kinds[kind] += 1
        if self.failure_kinds[kind] == 1:
            _log.warning(
                "Tracker %s failed (%s: %s). The run goes on; what is missing is sent later. "
                "Further failures of this kind are only counted.",
                self.tracker.destination,
                kind,
                error,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )

    def _deliver(self) -> int:
        """Send one batch; return its size, 0 when there is nothing to send or not by us."""
        if not self._hold():
            return 0
        builder = self._builder or self._begin()
        if not self._waiting:
            self._phase = "read"
            self._builder = None  # if reading fails half-way, its figures are not to be trusted
            self._read(builder)
            self._builder = builder
        batch = [self._waiting[i] for i in range(min(self._size, len(self._waiting)))]
        if not batch:
            return 0
        self._phase = "write"
        self.tracker.write(batch)
        self._phase = "save"
        if not self._lease.still_held():
            self._let_go()
            return 0
        self._save(batch[-1].seq)
        self._deliveries += 1
        for _ in batch:
            self._waiting.popleft()
        self._size = min(self.batch, self._size * 2)
        return len(batch)

    def _hold(self) -> bool:
        self._phase = "lease"
        self._leading = self._lease.hold()
        if self._leading:
            return True
        self._let_go()
        return False

    def _let_go(self) -> None:
        """Forget where we were; the next delivery starts from what the memory says."""
        self._builder = None
        self._waiting.clear()

    def _begin(self) -> RecordBuilder:
        """Start the tracker, and bring the running figures up to what it was told."""
        self._phase = "start"
        cursor, token = self._stored()
        history = partial(replay, self.memory)
        given = token or self.run.resume_token
        run = replace(
            self.run, resume_token=given, threshold=self.memory.threshold, history=history
        )
        self._token = self.tracker.start(run)
        if self._token != given:
            cursor = 0
        self._save(cursor)
        self._phase = "read"
        builder = RecordBuilder(self.memory)
        builder.skip_to(cursor)
        return builder

    def _read(self, builder: RecordBuilder) -> None:
        limit = self.batch
        while True:
            events = self.memory.events(after=self._cursor, limit=limit)
            records = builder.build(events, complete=len(events) < limit)
            if records or len(events) < limit:
                self._waiting.extend(records)
                return
            limit += self.batch

    def _end(self) -> int:
        """Send the rest and finish. A failure on the way leaves the cursor where it is."""
        while time.monotonic() < self._deadline and not self._given_up and self._deliver():
            pass
        if self._builder is not None and not self._given_up:
            all_sent = not self._waiting and not self.memory.events(self._cursor, 1)
            self._phase = "finish"
            self.tracker.finish(self._status)
            self._complete = all_sent
        return 0

    def _release(self) -> int:
        self._phase = "lease"
        self._lease.release()
        return 0

    def _stored(self) -> tuple[int, str]:
        text = self.memory.get_meta(self._meta)
        if not text:
            return 0, ""
        stored = json.loads(text)
        return int(stored["cursor"]), str(stored["token"])

    def _save(self, cursor: int) -> None:
        self.memory.set_meta(self._meta, json.dumps({"cursor": cursor, "token": self._token}))
        self._cursor = cursor
