"""Texts and their vectors: each text is embedded once, and its vector is kept."""

from __future__ import annotations

import sqlite3
import warnings
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from drpg_dspy.exceptions import EmbedderMismatch
from drpg_dspy.memory.base import Embedder
from drpg_dspy.memory.rows import decode_text, encode_text, is_whole, text_hash
from drpg_dspy.memory.store import Store
from drpg_dspy.memory.vector_cache import VectorCache

__all__ = ["Embeddings", "embed", "epoch", "identity", "set_identity"]

_KEPT = 256
"""Vectors of texts kept in the process until they are written with a rollout."""

_BATCH = 64
_READ_AT_ONCE = 256
"""More vectors than this are not those of a search."""

_VARIABLES = 500
"""Values in one ``IN (...)``."""


class Embeddings:
    """The ``texts`` table of one store, and the embedder that fills it.

    Args:
        store: The file.
        embedder: ``None`` reads and writes history without vectors.

    Attributes:
        embedded: How many texts were sent to the embedder.

    Raises:
        EmbedderMismatch: The file's vectors came from another embedder.
    """

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self.store = store
        self.embedder = embedder
        self.embedded = 0
        self._kept: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._mended: dict[int, np.ndarray] = {}  # of a file that may not be written
        self._cache = VectorCache(0 if embedder is None else embedder.dimension)
        self._epoch: Any = None
        with store.reading() as db:
            self.check(db)

    def adopt(self, embedder: Embedder) -> None:
        """Go on with another embedder, after the file was reindexed with it."""
        with self.store.embedding_lock:
            self.embedder = embedder
            self._kept.clear()
            self._mended.clear()
        with self.store.locked():
            self._cache = VectorCache(embedder.dimension)
            self._epoch = None

    def begin(self, epoch: Any) -> None:
        """Forget vectors kept by number: in another epoch of the file they are others."""
        self._cache.clear()
        self._epoch = epoch

    def keep(self, text: int, vector: np.ndarray, epoch: Any) -> None:
        """Have a vector at hand whose text was committed in an epoch."""
        with self.store.locked():
            if epoch == self._epoch:
                self._cache.put(text, vector)

    def check(self, db: sqlite3.Connection) -> bool:
        """Refuse an embedder that did not make the file's vectors.

        Returns:
            Whether the file has any, and an embedder to compare them with.

        Raises:
            EmbedderMismatch: Names both, and the remedy.
        """
        given = self.embedder
        stored = None if given is None else identity(db)
        if given is None or stored is None:
            return False
        if stored != (given.identity, given.dimension):
            raise EmbedderMismatch(
                f"The vectors in {self.store.path} were made by {stored[0]!r} ({stored[1]} "
                f"dimensions); the embedder given is {given.identity!r} ({given.dimension} "
                "dimensions). Open the memory with the first, or embed its texts anew with: "
                f"drpg memory reindex {self.store.path}"
            )
        return True

    def vector(self, text: str) -> np.ndarray:
        """Return the vector of a text: from the process, the file, or the embedder.

        Raises:
            ValueError: There is no embedder, or it returned something else than unit vectors.
        """
        key = text_hash(text)
        with self.store.embedding_lock:
            vector = self._kept.get(key)
            if vector is None:
                vector = self._stored(key)
            if vector is None:
                vector = self._embed([text])[0]
            self._kept[key] = vector
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return vector

    def put(self, db: sqlite3.Connection, text: str, vector: np.ndarray | None) -> int:
        """Return the number of a text, written with its vector if it is new.

        Args:
            db: Inside a write transaction.
            text: Not empty.
            vector: Its vector; ``None`` without an embedder.
        """
        key = text_hash(text)
        blob = None if vector is None else vector.tobytes()
        if blob is not None:
            self._claim(db)
        found = db.execute("SELECT id, length(vector) FROM texts WHERE hash = ?", (key,)).fetchone()
        if found is None:
            new = db.execute(
                "INSERT INTO texts (hash, text, vector) VALUES (?, ?, ?)",
                (key, encode_text(text), blob),
            )
            return int(new.lastrowid or 0)
        if blob is not None and found[1] != len(blob):
            db.execute("UPDATE texts SET vector = ? WHERE id = ?", (blob, found[0]))
        return int(found[0])

    def read(self, db: sqlite3.Connection, texts: Sequence[int]) -> tuple[list[int], np.ndarray]:
        """Return those of the given text numbers whose vectors are whole, and the vectors."""
        missing = self._cache.missing(texts)
        if not missing:
            return list(texts), self._cache.rows(texts)
        if len(missing) > _READ_AT_ONCE:  # an index is built: nothing to keep
            return self._load(db, set(texts))
        ids, vectors = self._load(db, set(missing))
        present = [text for text in texts if text in self._cache]
        known = self._cache.rows(present)
        for id, vector in zip(ids, vectors, strict=True):
            self._cache.put(id, vector)
        return [*present, *ids], np.concatenate([known, vectors])

    def mend(self, texts: Collection[int]) -> None:
        """Embed stored texts whose vectors are missing or damaged, and keep the vectors."""
        with self.store.embedding_lock:
            with self.store.reading() as db:
                rows = _select(db, "SELECT id, text, vector FROM texts WHERE id IN", texts)
            damaged = sum(row[2] is not None for row in rows)
            if damaged:
                warnings.warn(
                    f"{damaged} vector(s) in {self.store.path} were damaged; they are computed "
                    "anew from their texts.",
                    RuntimeWarning,
                    stacklevel=4,
                )
            for start in range(0, len(rows), _BATCH):
                batch = rows[start : start + _BATCH]
                vectors = self._embed([decode_text(row[1]) for row in batch])
                self._keep_mended([row[0] for row in batch], vectors)

    def _load(self, db: sqlite3.Connection, texts: Collection[int]) -> tuple[list[int], np.ndarray]:
        dimension = 0 if self.embedder is None else self.embedder.dimension
        ids: list[int] = []
        blobs: list[bytes] = []
        for id, blob in _select(db, "SELECT id, vector FROM texts WHERE id IN", texts):
            if id in self._mended:
                blob = self._mended[id].tobytes()
            if blob is not None and len(blob) == 4 * dimension:
                ids.append(id)
                blobs.append(blob)
        vectors = np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(ids), dimension)
        whole = is_whole(vectors)
        if not whole.all():
            ids = [id for id, good in zip(ids, whole.tolist(), strict=True) if good]
            vectors = vectors[whole]
        return ids, vectors

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        if self.embedder is None:
            raise ValueError(
                f"The memory at {self.store.path} was opened without an embedder, so it cannot "
                "be searched. Give one: SQLiteMemory(path, embedder=default_embedder())"
            )
        self.embedded += len(texts)
        return embed(self.embedder, texts)

    def _claim(self, db: sqlite3.Connection) -> None:
        if not self.check(db) and self.embedder is not None:
            set_identity(db, self.embedder)

    def _stored(self, key: bytes) -> np.ndarray | None:
        if self.embedder is None:
            return None
        with self.store.reading() as db:
            row = db.execute("SELECT vector FROM texts WHERE hash = ?", (key,)).fetchone()
            if row is None:
                return None
            self.check(db)
        if row[0] is None or len(row[0]) != 4 * self.embedder.dimension:
            return None
        vector = np.frombuffer(row[0], dtype=np.float32)
        return vector if is_whole(vector[None]).all() else None

    def _keep_mended(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        if self.store.read_only:
            self._mended.update(zip(ids, vectors, strict=True))
            return
        with self.store.writing() as db:
            self._claim(db)
            db.executemany(
                "UPDATE texts SET vector = ? WHERE id = ?",
                [(vector.tobytes(), id) for id, vector in zip(ids, vectors, strict=True)],
            )


def embed(embedder: Embedder, texts: Sequence[str]) -> np.ndarray:
    """Return the embedder's vectors, having checked that they are what it promises.

    A zero vector passes: it stands for a text that is like no other.

    Raises:
        ValueError: Wrong shape, NaN, or not of unit length.
    """
    vectors = np.ascontiguousarray(embedder(texts), dtype=np.float32)
    expected = (len(texts), embedder.dimension)
    if vectors.shape != expected:
        raise ValueError(
            f"The embedder {embedder.identity!r} returned shape {vectors.shape} for {len(texts)} "
            f"text(s) where {expected} is expected."
        )
    whole = is_whole(vectors)
    if not whole.all():
        at = int(np.flatnonzero(~whole)[0])
        raise ValueError(
            f"The embedder {embedder.identity!r} returned a vector of squared length "
            f"{float(vectors[at] @ vectors[at])!r} for {texts[at][:80]!r}, but must return "
            "unit vectors. CallableEmbedder normalises any function's vectors."
        )
    return vectors


def epoch(db: sqlite3.Connection) -> Any:
    """Return what changes when the numbers of a file get another meaning."""
    row = db.execute("SELECT value FROM about WHERE name = 'epoch'").fetchone()
    return None if row is None else row[0]


def identity(db: sqlite3.Connection) -> tuple[str, int] | None:
    """Return the identity and dimension of the file's vectors, if it has any."""
    found = dict(
        db.execute("SELECT name, value FROM about WHERE name IN ('embedder', 'dimension')")
    )
    return (decode_text(found["embedder"]), int(found["dimension"])) if found else None


def set_identity(db: sqlite3.Connection, embedder: Embedder) -> None:
    """Record whose vectors the file has, and begin a new epoch: what processes know is void."""
    db.executemany(
        "INSERT OR REPLACE INTO about VALUES (?, ?)",
        [("embedder", encode_text(embedder.identity)), ("dimension", embedder.dimension)],
    )
    db.execute(
        "INSERT INTO about VALUES ('epoch', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1"
    )


def _select(db: sqlite3.Connection, sql: str, ids: Collection[int]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    wanted = list(ids)
    for start in range(0, len(wanted), _VARIABLES):
        part = wanted[start : start + _VARIABLES]
        rows.extend(db.execute(f"{sql} ({','.join('?' * len(part))})", part))
    return rows
