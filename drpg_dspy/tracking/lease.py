"""Which process tells a tracker, when several share one memory."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid

from drpg_dspy.memory.base import Memory

__all__ = ["Lease"]

_alive: set[str] = set()  # leases of this process that were not released

_SETTLE = 0.05
"""Seconds between claiming a lease and believing it: longer than a competing claim takes."""


class Lease:
    """A claim, kept beside the data, to be the one who writes.

    A claim holds for ``seconds`` and is renewed by :meth:`hold`. It is free again when it was
    released, when it has expired, or at once when its process on this machine is gone, so a run
    resumed after a crash does not wait.

    Two processes that claim in the same instant can in theory both win for one renewal period;
    trackers take records more than once without harm, so nothing is doubled.

    Args:
        memory: The memory that all of them share.
        key: Name of the setting that holds the claim.
        seconds: How long a claim holds without renewal.
    """

    def __init__(self, memory: Memory, key: str, seconds: float = 60.0) -> None:
        self.memory = memory
        self.key = key
        self.seconds = seconds
        self.id = uuid.uuid4().hex
        self._renew_at = 0.0

    def hold(self) -> bool:
        """Claim or renew; return whether the lease is ours now."""
        now = time.monotonic()
        if now < self._renew_at:
            return True
        claim = self._read()
        if claim.get("id") != self.id:
            self._renew_at = 0.0
            if not _free(claim):
                return False
            self._write()
            time.sleep(_SETTLE)
            if self._read().get("id") != self.id:
                return False
        else:
            self._write()
        _alive.add(self.id)
        self._renew_at = now + self.seconds / 3
        return True

    def still_held(self) -> bool:
        """Return whether nobody has taken the lease over meanwhile."""
        return self._read().get("id") == self.id

    def release(self) -> None:
        """Give the lease back, if it is ours."""
        _alive.discard(self.id)
        self._renew_at = 0.0
        if self.still_held():
            self.memory.set_meta(self.key, "")

    def _read(self) -> dict[str, object]:
        text = self.memory.get_meta(self.key)
        claim: dict[str, object] = json.loads(text) if text else {}
        return claim

    def _write(self) -> None:
        claim = {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "expires": time.time() + self.seconds,
        }
        self.memory.set_meta(self.key, json.dumps(claim))


def _free(claim: dict[str, object]) -> bool:
    if not claim or float(str(claim["expires"])) < time.time():
        return True
    if claim["host"] != socket.gethostname():
        return False
    pid = int(str(claim["pid"]))
    if pid == os.getpid():
        # In a container a process often has the number of the one it replaces.
        return claim["id"] not in _alive
    return not _running(pid)


def _running(pid: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 would end the process there; the claim expires by itself
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
