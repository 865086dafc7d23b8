"""Embedding every stored text anew, with another embedder."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drpg_dspy.memory.base import Embedder
from drpg_dspy.memory.embeddings import embed, set_identity
from drpg_dspy.memory.rows import decode_text, encode_text
from drpg_dspy.memory.store import Store

__all__ = ["reindex"]


def reindex(
    store: Store,
    embedder: Embedder,
    batch_size: int,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Embed all texts in batches beside the old vectors, then change over at once.

    Until the last transaction the old vectors stand and others may go on recording. A call
    that was interrupted is taken up where it stopped, if the embedder is the same.

    Returns:
        How many texts the memory has.
    """
    done, total = _begin(store, embedder)
    while True:
        with store.reading() as db:
            rows = _waiting(db, batch_size)
        if not rows:
            return _change_over(store, embedder, batch_size)
        vectors = embed(embedder, [decode_text(text) for _, text in rows])
        with store.writing() as db:
            _insert(db, rows, vectors)
        done += len(rows)
        if progress is not None:
            progress(done, max(done, total))


def _begin(store: Store, embedder: Embedder) -> tuple[int, int]:
    name = encode_text(f"{embedder.identity} ({embedder.dimension})")
    with store.writing() as db:
        under_way = db.execute("SELECT value FROM about WHERE name = 'reindexing'").fetchone()
        if under_way != (name,):
            db.execute("DELETE FROM reindexing")
            db.execute("INSERT OR REPLACE INTO about VALUES ('reindexing', ?)", (name,))
        done = db.execute("SELECT count(*) FROM reindexing").fetchone()[0]
        total = db.execute("SELECT count(*) FROM texts").fetchone()[0]
    return int(done), int(total)


def _change_over(store: Store, embedder: Embedder, batch_size: int) -> int:
    with store.writing() as db:
        while rows := _waiting(db, batch_size):  # recorded a moment ago
            _insert(db, rows, embed(embedder, [decode_text(text) for _, text in rows]))
        db.execute(
            "UPDATE texts SET vector = (SELECT vector FROM reindexing WHERE text = texts.id)"
        )
        db.execute("DELETE FROM reindexing")
        db.execute("DELETE FROM about WHERE name = 'reindexing'")
        set_identity(db, embedder)
        return int(db.execute("SELECT count(*) FROM texts").fetchone()[0])


def _waiting(db: sqlite3.Connection, limit: int) -> list[tuple[int, Any]]:
    # Texts are never deleted and are taken in order, so those done are a prefix.
    return db.execute(
        "SELECT id, text FROM texts WHERE id > (SELECT coalesce(max(text), 0) FROM reindexing) "
        "ORDER BY id LIMIT ?",
        (limit,),
    ).fetchall()


def _insert(db: sqlite3.Connection, rows: Sequence[tuple[int, Any]], vectors: np.ndarray) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO reindexing VALUES (?, ?)",
        [(row[0], vector.tobytes()) for row, vector in zip(rows, vectors, strict=True)],
    )
