"""One SQLite file, safe among threads, processes and forks.

A process holds two connections to a file, each under its own lock: one reads, so that no
reader waits for another process's write lock; one writes, and every transaction on it starts
with ``BEGIN IMMEDIATE``, so that it never reads first and finds out later that it may not write.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import schema

__all__ = ["Store", "temporary_file"]

_STATEMENTS = 256
"""Prepared statements kept by each connection."""


class _Process:
    """What belongs to one process: locks, in the order in which they are taken; connections."""

    def __init__(self) -> None:
        self.embedding = threading.RLock()
        self.write = threading.RLock()
        self.read = threading.RLock()
        self.reader: sqlite3.Connection | None = None
        self.writer: sqlite3.Connection | None = None


class Store:
    """Connections to one memory file.

    Args:
        path: The file; created when it is missing.
        read_only: Never create, never write.
        timeout: Seconds to wait for another process's lock.

    Attributes:
        generation: Grows when a forked child takes over: caches of the parent are void.

    Raises:
        StorageError: The file cannot be created or opened, or is not a whole memory.
    """

    def __init__(self, path: Path, *, read_only: bool, timeout: float) -> None:
        self.path = path
        self.read_only = read_only
        self.timeout = timeout
        self.generation = 0
        self.closed = False
        self._own = _Process()
        if not read_only:
            schema.create(path, timeout=max(timeout, 60.0))
        schema.check(path)
        self._file = _identity(path)
        with self.reading() as db:
            db.execute("SELECT count(*) FROM about").fetchone()
        _STORES.add(self)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend the reading connection; each statement sees what is committed by then."""
        with self._own.read:
            try:
                if self._own.reader is None:
                    self._own.reader = self._connect(write=False)
                yield self._own.reader
            except sqlite3.DatabaseError as error:
                raise self._explained(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend the reading connection; all statements see the same state."""
        with self.reading() as db:
            if db.in_transaction:  # this thread is in a snapshot already
                yield db
                return
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection for one transaction: committed whole or not at all."""
        with self.outside_transactions() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def outside_transactions(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection without a transaction, for what allows none."""
        if self.read_only:
            raise StorageError(f"{self.path} was opened with read_only=True; nothing is written.")
        with self._own.write:
            try:
                if self._own.writer is None:
                    self._own.writer = self._connect(write=True)
                self._check_file()
                yield self._own.writer
            except sqlite3.DatabaseError as error:
                raise self._explained(error) from error

    @property
    def embedding_lock(self) -> AbstractContextManager[Any]:
        """Held while a text is embedded. A thread takes it before it reads or writes."""
        return self._own.embedding

    def locked(self) -> AbstractContextManager[Any]:
        """Hold what readers hold, without a connection."""
        return self._own.read

    def close(self) -> None:
        """Close both connections."""
        with self._own.write, self._own.read:
            self.closed = True
            for connection in (self._own.writer, self._own.reader):
                if connection is not None:
                    connection.close()
            self._own.writer = self._own.reader = None

    def _check_file(self) -> None:
        # What is written through a connection to a deleted file is lost when the last process
        # closes it, and SQLite does not say so.
        found = _identity(self.path)
        if found != self._file:
            raise StorageError(
                f"{self.path} was {'deleted' if found is None else 'replaced'} while it was open, "
                "so nothing is written to it any more. What it held can still be read through "
                "this object: keep it with copy_to(another path). Then close the learner or "
                "memory and open it anew."
            )

    def _connect(self, *, write: bool) -> sqlite3.Connection:
        if self.closed:
            raise StorageError(f"The memory at {self.path} was closed; open it again.")
        self._check_file()
        mode = "rw" if write or not self.read_only else "ro"
        try:
            db = self._open(mode)
        except sqlite3.OperationalError:
            # A folder that cannot be written has no place for the log's index. Without a log
            # the file alone is the whole truth.
            if mode == "rw" or self.path.with_name(f"{self.path.name}-wal").exists():
                raise
            db = self._open("ro&immutable=1")
        if not write:
            db.execute("PRAGMA query_only = 1")
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    def _open(self, mode: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        try:
            schema.migrate(db, self.path, read_only=self.read_only)
        except BaseException:
            db.close()
            raise
        return db

    def _explained(self, error: sqlite3.DatabaseError) -> StorageError:
        """Say what an error of SQLite means here, and the remedy."""
        if not isinstance(error, sqlite3.OperationalError):
            return StorageError(
                f"{self.path} is damaged: {error}. Restore it from a copy; what is left can be "
                "read with: sqlite3 FILE .recover"
            )
        if "locked" in str(error):
            return StorageError(
                f"Another process has held the write lock of {self.path} for "
                f"{self.timeout:g} s. Wait for it, or open the memory with a longer timeout."
            )
        remedy = (
            " Give this user the right to write it and its folder (chmod, chown)."
            if "readonly" in str(error)
            else ""
        )
        return StorageError(f"{self.path} could not be used: {error}.{remedy}")

    # A fork copies locks in whatever state they are, and connections that must not be used
    # twice. So a fork waits until no thread is inside a store, and the child starts afresh.

    def acquire(self) -> None:
        """Take all locks, in the one order in which threads take them."""
        for lock in (self._own.embedding, self._own.write, self._own.read):
            lock.acquire()

    def release(self) -> None:
        """Give back all locks."""
        for lock in (self._own.read, self._own.write, self._own.embedding):
            lock.release()

    def start_afresh(self) -> None:
        """Forget, in a forked child, what belongs to the parent."""
        _INHERITED.append(self._own)
        self._own = _Process()
        self.generation += 1


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what stays the same while a path names the same file; ``None`` = there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def temporary_file(owner: object) -> Path:
    """Return a place for a file that goes when ``owner`` does."""
    folder = tempfile.mkdtemp(prefix="drpg-memory-")
    weakref.finalize(owner, _remove, folder, os.getpid())
    return Path(folder) / "memory.sqlite"


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves its parent's file alone
        shutil.rmtree(folder, ignore_errors=True)


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_HELD: list[Store] = []
_INHERITED: list[_Process] = []
"""Of the parent. Never freed: to close its connections in a child would drop its log."""


_FORKING = threading.Lock()


def _before_fork() -> None:
    _FORKING.acquire()
    _HELD[:] = sorted(_STORES, key=id)
    for store in _HELD:
        store.acquire()


def _after_in_parent() -> None:
    for store in reversed(_HELD):
        store.release()
    _HELD.clear()
    _FORKING.release()


def _after_in_child() -> None:
    for store in _HELD:
        store.start_afresh()
    _HELD.clear()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_in_parent,
        after_in_child=_after_in_child,
    )
