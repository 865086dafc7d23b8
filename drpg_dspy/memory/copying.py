"""A whole memory, written to another file or read from one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import schema
from drpg_dspy.memory.embeddings import Embeddings
from drpg_dspy.memory.store import Store

__all__ = ["copy_from", "copy_to"]

_TABLES = (*schema.TABLES, "sqlite_sequence")


def copy_to(store: Store, path: Path) -> None:
    """Write a consistent copy; a memory that is there already is replaced in one transaction."""
    if path.exists():
        if path.samefile(store.path):
            raise ValueError(f"A memory cannot be copied onto itself: {path}.")
        target = Store(path, read_only=False, timeout=store.timeout)
        try:
            copy_from(target, None, store.path)
        finally:
            target.close()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.copy")
    draft.unlink(missing_ok=True)
    try:
        with store.reading() as db, closing(sqlite3.connect(draft)) as copy:
            db.backup(copy)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def copy_from(store: Store, embeddings: Embeddings | None, path: Path) -> None:
    """Replace everything in one transaction; other processes notice by the epoch.

    Raises:
        EmbedderMismatch: The copy's vectors came from another embedder than the one in use.
        StorageError: The copy is missing, damaged or no memory.
    """
    source = Store(path, read_only=True, timeout=store.timeout)
    try:
        if embeddings is not None:
            with source.reading() as db:
                embeddings.check(db)
    finally:
        source.close()
    with store.outside_transactions() as db:
        db.execute("ATTACH ? AS source", (f"{path.resolve().as_uri()}?mode=ro",))
        try:
            _replace_all(db)
        except sqlite3.Error as error:
            raise StorageError(f"{path} could not be read into {store.path}: {error}.") from error
        finally:
            db.execute("DETACH source")


def _replace_all(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        before = _epoch(db, "main")
        for table in _TABLES:
            db.execute(f"DELETE FROM main.{table}")
            db.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}")
        epoch = max(before, _epoch(db, "source")) + 1
        db.execute("INSERT OR REPLACE INTO main.about VALUES ('epoch', ?)", (epoch,))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _epoch(db: sqlite3.Connection, name: str) -> int:
    row = db.execute(f"SELECT value FROM {name}.about WHERE name = 'epoch'").fetchone()
    return 0 if row is None else int(row[0])
