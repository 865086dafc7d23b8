"""One process at a time."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drpg_dspy.exceptions import RunInUse

if sys.platform != "win32":
    import fcntl

__all__ = ["is_locked", "lock_for", "was_locked"]


@dataclass(slots=True)
class _Held:
    thread: int
    descriptor: int
    depth: int = 1


_held: dict[Path, _Held] = {}
_guard = threading.Lock()


@contextmanager
def lock_for(memory: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold a memory file against a second runner for the length of the block.

    The lock is the operating system's, on a small file beside the memory: it goes with its
    process however that ends, so what a killed process leaves behind stops nobody, and a child
    that outlives its parent does not keep it. A thread that holds it may take it again.

    Args:
        memory: The memory file; it need not exist yet, its folder must.
        remove: Leave no file behind. A run keeps its own: it tells a lost run from one that was
            never begun (:func:`was_locked`).

    Raises:
        RunInUse: Another live process, or another thread of this one, holds it.
    """
    path = _lock_path(memory)
    me = threading.get_ident()
    with _guard:
        held = _held.get(path)
        if held is not None and held.thread == me:
            held.depth += 1
        elif held is not None:
            raise RunInUse(f"Another thread of this process is running {memory}.")
        else:
            _held[path] = held = _Held(me, _acquire(path, memory))
    try:
        yield
    finally:
        with _guard:
            held.depth -= 1
            if not held.depth:
                del _held[path]
                if remove:  # before it is let go: afterwards it may be another's
                    path.unlink(missing_ok=True)
                os.close(held.descriptor)


def is_locked(memory: Path) -> bool:
    """Return whether a live process is running this memory. Writes nothing."""
    path = _lock_path(memory)
    with _guard:
        if path in _held:
            return True
        try:
            # Opened and closed only while we hold nothing on it: closing any descriptor of a
            # file drops all of a process's locks on it.
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            return not _try_lock(descriptor)
        finally:
            os.close(descriptor)


def was_locked(memory: Path) -> bool:
    """Return whether anybody ever ran this memory: the lock's file stays behind."""
    return _lock_path(memory).exists()


def _lock_path(memory: Path) -> Path:
    return memory.absolute().with_name(f"{memory.name}.running")


def _acquire(path: Path, memory: Path) -> int:
    while (descriptor := _try_acquire(path, memory)) is None:
        pass  # who held it removed it after we had opened it
    return descriptor


def _try_acquire(path: Path, memory: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try_lock(descriptor):
            raise RunInUse(
                f"{memory} is being run by {_owner(descriptor)}. Wait for it or stop it; one "
                "process at a time may continue a run."
            )
        if not _is_there(path, descriptor):
            os.close(descriptor)
            return None
        owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(descriptor, 0)
        os.write(descriptor, owner)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    if sys.platform == "win32":  # no such locks: the memory still refuses the same step twice
        return True
    try:
        # lockf, not flock: a forked judge that outlives a killed run must not keep its lock.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _owner(descriptor: int) -> str:
    with contextlib.suppress(ValueError, KeyError):
        owner = json.loads(os.read(descriptor, 1000))
        return f"process {owner['pid']} on {owner['host']}"
    return "another process"
