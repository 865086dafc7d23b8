"""The tables of a memory file, and how a file is created, recognised and brought up to date.

===============  =======================================================================
table            one row is
===============  =======================================================================
``texts``        a distinct key text with its vector: embedded once, shared by rollouts
``rollouts``     a prediction: what is looked up, counted and changed by feedback
``bodies``       the rest of a prediction: written once, never changed
``guidances``    what the prediction was given: the largest part, seldom read again
``feedback``     one verdict or retraction; the history is kept
``policies``     a distinct policy text of a route, numbered from 1
``in_force``     the version that a route used last
``events``       a change, numbered without reuse; trackers and other processes follow it
``memo``         a reply of the policy writer, by the evidence it was written for
``state``        the optimizer's state (one row)
``meta``         a setting of a user of the memory (a tracker's cursor, a run's config)
``about``        a setting of the memory itself: the embedder's identity and dimension
``reindexing``   a vector of a reindex under way
===============  =======================================================================

``rollouts.verdict`` repeats the last row of ``feedback`` and ``bodies.key`` the text of its
rollout, so that a retrieved experience costs two look-ups, not four.

Text that UTF-8 cannot hold (a lone surrogate) is kept as bytes, see :mod:`.rows`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock, Timeout

from drpg_dspy.exceptions import StorageError

__all__ = [
    "APPLICATION_ID",
    "SCHEMA_VERSION",
    "TABLES",
    "check",
    "create",
    "creation_lock",
    "migrate",
]

APPLICATION_ID = 0x44525047
"""Marks a SQLite file as a memory: the letters ``DRPG``."""

SCHEMA_VERSION = 1
"""Version of the tables below; a file of a newer one is refused."""

MIGRATIONS: dict[int, str] = {}
"""From a version to the next: the SQL that brings a file forward."""

TABLES = (
    "texts",
    "rollouts",
    "bodies",
    "guidances",
    "feedback",
    "policies",
    "in_force",
    "events",
    "memo",
    "state",
    "meta",
    "about",
    "reindexing",
)

_HEADER_BYTES = 100
_SQLITE_MAGIC = b"SQLite format 3\x00"

_TABLES = """
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    text NOT NULL,
    vector BLOB
);
CREATE TABLE rollouts (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id NOT NULL UNIQUE,
    step INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    text INTEGER REFERENCES texts(id),
    verdict TEXT,                -- the feedback that stands
    score REAL,                  -- its score, if something may be learned from it
    learned INTEGER              -- its number in the event log, likewise
);
CREATE INDEX rollouts_by_step ON rollouts(step);
CREATE INDEX rollouts_learned ON rollouts(learned, score) WHERE learned IS NOT NULL;
CREATE TABLE bodies (
    seq INTEGER PRIMARY KEY REFERENCES rollouts(seq),
    created_at REAL NOT NULL,
    seconds REAL NOT NULL,
    error NOT NULL,
    usage TEXT NOT NULL,         -- of answering, then of writing the guidance
    key NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT,
    trace TEXT NOT NULL
);
CREATE TABLE guidances (
    seq INTEGER PRIMARY KEY REFERENCES rollouts(seq),
    policies TEXT NOT NULL,      -- route to version
    parts TEXT NOT NULL          -- shots, ids retrieved, counts, memo
);
CREATE TABLE feedback (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    rollout INTEGER NOT NULL REFERENCES rollouts(seq),
    at REAL NOT NULL,
    id NOT NULL,
    verdict TEXT                 -- NULL: retracted
);
CREATE INDEX feedback_by_rollout ON feedback(rollout);
CREATE TABLE policies (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    route NOT NULL,
    version INTEGER NOT NULL,
    digest BLOB NOT NULL,
    text NOT NULL,
    rules TEXT NOT NULL,
    parent INTEGER NOT NULL,
    author NOT NULL,
    step INTEGER NOT NULL,
    message NOT NULL,
    at REAL NOT NULL,
    UNIQUE (route, version),
    UNIQUE (route, digest)
);
CREATE TABLE in_force (route PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    ref NOT NULL,
    rollout INTEGER,
    at REAL NOT NULL
);
CREATE TABLE memo (key PRIMARY KEY, text NOT NULL) WITHOUT ROWID;
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER, value TEXT);
CREATE TABLE meta (key PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE about (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE reindexing (text INTEGER PRIMARY KEY, vector BLOB NOT NULL);
"""


def create(path: Path, *, timeout: float) -> None:
    """Create the file unless it exists; any number of processes may try at once.

    The file is made under another name and renamed when it is whole, so that none ever sees
    half a memory.

    Raises:
        StorageError: The creation lock is held for longer than ``timeout`` seconds, or the
            file is gone but its write-ahead log is still there.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(creation_lock(path), timeout=timeout):
            if not path.exists():
                _create_whole(path)
    except Timeout as error:
        raise StorageError(
            f"{path} could not be created: another process has held {creation_lock(path)} for "
            f"{timeout:g} s."
        ) from error
    except OSError as error:
        raise StorageError(f"{path} could not be created: {error}.") from error


def creation_lock(path: Path) -> Path:
    """Return the small file that is locked while a memory is made; it stays behind."""
    return path.with_name(f"{path.name}.lock")


def check(path: Path) -> None:
    """Refuse a file that is no memory, or not a whole one, without opening it as a database.

    Raises:
        StorageError: It is missing, empty, not SQLite, not a memory, cut off, or written by a
            newer version of this library.
    """
    pending = _pending(path)  # then the newest header may be in the write-ahead log
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise StorageError(f"There is no readable memory at {path}: {error}.") from error
    if len(header) < _HEADER_BYTES or not header.startswith(_SQLITE_MAGIC):
        raise StorageError(
            f"{path} ({size} bytes) is not a memory file, or was cut off. Restore it from a "
            "copy, or give another path to start a new memory."
        )
    if not pending and not _pending(path):
        _check_header(path, header, size)


def migrate(db: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    """Bring an open file to :data:`SCHEMA_VERSION`; does not write when it is there already.

    Raises:
        StorageError: The file is no memory, newer than this library, or older and read-only.
    """
    application = db.execute("PRAGMA application_id").fetchone()[0]
    _check_kind(path, application, _version(db))
    if _version(db) == SCHEMA_VERSION:
        return
    if read_only:
        raise StorageError(
            f"{path} has the tables of version {_version(db)}; open it once for writing to bring "
            f"it to version {SCHEMA_VERSION}."
        )
    db.execute("BEGIN IMMEDIATE")
    try:
        while (version := _version(db)) < SCHEMA_VERSION:
            for statement in MIGRATIONS[version].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {version + 1}")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _create_whole(path: Path) -> None:
    if _pending(path):
        raise StorageError(
            f"{path} is gone but its write-ahead log {path}-wal is still there. Restore the "
            "file, or delete the log to start a new memory."
        )
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(draft)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _pending(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:  # the last process to close the file removes it
        return False


def _check_header(path: Path, header: bytes, size: int) -> None:
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if size < page * pages:
        raise StorageError(
            f"{path} is cut off: it has {size} bytes and should have {page * pages}. Restore it "
            "from a copy; what is left can be read with: sqlite3 FILE .recover"
        )
    _check_kind(path, int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big"))


def _check_kind(path: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise StorageError(
            f"{path} is a SQLite database but not a memory of this library. Give another path."
        )
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} has the tables of version {version}; this drpg-dspy knows versions up to "
            f"{SCHEMA_VERSION}. Upgrade it: pip install --upgrade drpg-dspy"
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
