"""What one process knows of the experiences in a file, kept up to date from its event log.

Only labels (one byte for each rollout) and, once something is searched, the index: no Python
object for each experience. All methods run under the store's read lock.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from drpg_dspy.memory.base import Hit
from drpg_dspy.memory.embeddings import Embeddings, epoch
from drpg_dspy.memory.faiss_index import FaissIndex, Labels
from drpg_dspy.memory.reading import EXPERIENCES
from drpg_dspy.memory.rows import ROLLOUT_NUMBER, SIZED, GuidanceLoader, decode_experience
from drpg_dspy.types import Experience, Verdict

__all__ = ["Ledger"]

_KEPT_SIZE = 32_000_000
"""Bytes of the experiences kept decoded, those used last."""

_OBJECTS = 2_200
"""What the objects of one take beside its texts (measured)."""

_RANKINGS_KEPT = 32
_LOAD_BATCH = 512

Ranking = list[tuple[int, float]]


class Ledger:
    """Labels and vectors of the experiences.

    Args:
        embeddings: Where the vectors are.
        threshold: The least score of a correct experience.
    """

    def __init__(self, embeddings: Embeddings, threshold: float) -> None:
        self._embeddings = embeddings
        self._threshold = threshold
        self.forget()

    def forget(self) -> None:
        """Drop everything: it is read anew from the file."""
        self._generation = self._embeddings.store.generation
        self._data_version = -1
        self._applied = -1
        self._epoch: Any = None
        self._embeddings.begin(None)
        self._labels = Labels()
        self._index: FaissIndex | None = None
        self._texts = array("q")
        self._waiting: dict[int, int] = {}
        self._kept: OrderedDict[int, tuple[Experience, int]] = OrderedDict()
        self._kept_size = 0
        self._rankings: dict[tuple[bytes, Verdict | None], tuple[int, Ranking]] = {}

    def follow(self, db: sqlite3.Connection) -> None:
        """Take up what was committed since the last call, by whomever."""
        if self._generation != self._embeddings.store.generation:
            self.forget()
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version == self._data_version:
            return
        current = epoch(db)
        if current != self._epoch:
            self.forget()
            self._epoch = current
            self._embeddings.begin(current)
        if self._applied < 0:
            self._load_labels(db)
        else:
            self._follow_events(db)
        self._data_version = version

    def count(self, verdict: Verdict | None) -> int:
        """Return how many experiences there are."""
        return self._labels.count(verdict)

    def index(self, db: sqlite3.Connection) -> list[int]:
        """Bring the index up to date; return the texts whose vectors are missing or damaged.

        Experiences with those texts are found after :meth:`.Embeddings.mend` and another call.
        """
        if self._index is None:
            self._embeddings.check(db)
            self._build(db)
        elif self._waiting:
            self._place(db, list(self._waiting))
        return self.missing()

    def missing(self) -> list[int]:
        """Return the texts whose vectors are missing or damaged."""
        return list(set(self._waiting.values()))

    def rank(
        self, db: sqlite3.Connection, vector: np.ndarray, k: int, verdict: Verdict | None
    ) -> Ranking:
        """Return numbers and similarities of the ``k`` experiences nearest to a vector."""
        if self._index is None:
            return []
        name = (vector.tobytes(), verdict)
        known = self._rankings.get(name)
        if known is None or known[0] < k:
            ranking = self._index.search(
                vector, k, verdict, lambda ids: self._similarities(db, ids, vector)
            )
            if self._waiting:  # not a result to keep: a vector was found damaged
                return ranking
            if len(self._rankings) >= _RANKINGS_KEPT:
                self._rankings.clear()
            self._rankings[name] = known = (k, ranking)
        return known[1][:k]

    def hits(self, db: sqlite3.Connection, ranking: Ranking, guidance: GuidanceLoader) -> list[Hit]:
        """Return the experiences of a ranking."""
        missing = [seq for seq, _ in ranking if seq not in self._kept]
        if missing:
            marks = ",".join("?" * len(missing))
            for row in db.execute(f"{EXPERIENCES} AND h.seq IN ({marks})", missing):
                experience = decode_experience(row, guidance, self._threshold, deferred=True)
                size = _OBJECTS + sum(len(text) for text in row[SIZED] if text is not None)
                self._kept[row[ROLLOUT_NUMBER]] = experience, size
                self._kept_size += size
        found = []
        for seq, similarity in ranking:
            found.append(Hit(self._kept[seq][0], similarity))
            self._kept.move_to_end(seq)
        while self._kept_size > _KEPT_SIZE:
            _, (_, size) = self._kept.popitem(last=False)
            self._kept_size -= size
        return found

    def _load_labels(self, db: sqlite3.Connection) -> None:
        # Read before the rows: an event that comes between is applied again, which is harmless.
        self._applied = _last_event(db)
        for seq, score in db.execute("SELECT seq, score FROM rollouts WHERE learned IS NOT NULL"):
            self._labels.put(seq, self._verdict(score))

    def _follow_events(self, db: sqlite3.Connection) -> None:
        events = db.execute(
            "SELECT e.seq, e.kind, e.rollout, h.score, h.learned, h.text FROM events e "
            "LEFT JOIN rollouts h ON h.seq = e.rollout WHERE e.seq > ? ORDER BY e.seq",
            (self._applied,),
        ).fetchall()
        changed: dict[int, int | None] = {}
        for number, kind, seq, score, learned, text in events:
            self._applied = number
            if kind in ("feedback", "retraction"):
                self._labels.put(seq, None if learned is None else self._verdict(score))
                changed[seq] = text
        if not changed:
            return
        self._rankings.clear()
        for seq in changed:
            if seq in self._kept:
                self._kept_size -= self._kept.pop(seq)[1]
        if self._index is not None:
            self._index.remove(list(changed))
            self._set_texts((seq, text) for seq, text in changed.items() if text is not None)
            self._place(db, [seq for seq, text in changed.items() if text is not None])

    def _build(self, db: sqlite3.Connection) -> None:
        embedder = self._embeddings.embedder
        if embedder is None:
            return
        self._index = FaissIndex(embedder.dimension)
        self._waiting.clear()
        self._rankings.clear()
        after = 0
        while rows := db.execute(
            "SELECT seq, text FROM rollouts "
            "WHERE learned IS NOT NULL AND text IS NOT NULL AND seq > ? ORDER BY seq LIMIT ?",
            (after, _LOAD_BATCH),
        ).fetchall():
            self._set_texts(rows)
            self._place(db, [seq for seq, _ in rows])
            after = rows[-1][0]

    def _place(self, db: sqlite3.Connection, seqs: Sequence[int]) -> None:
        """Put experiences into the index, or note that their vectors are missing."""
        if self._index is None:
            return
        texts, vectors = self._embeddings.read(db, [self._texts[seq] for seq in seqs])
        places = {text: place for place, text in enumerate(texts)}
        zero = (~np.any(vectors, axis=1)).tolist()  # like no other: not put into the index
        like_none = {text for text, alone in zip(texts, zero, strict=True) if alone}
        chosen: dict[Verdict, list[int]] = {"correct": [], "wrong": []}
        for seq in seqs:
            self._waiting.pop(seq, None)
            verdict, text = self._labels.get(seq), self._texts[seq]
            if verdict is None or text in like_none:
                continue
            if text in places:
                chosen[verdict].append(seq)
            else:
                self._waiting[seq] = text
        for verdict, members in chosen.items():
            if members:
                rows = [places[self._texts[seq]] for seq in members]
                self._index.add(members, vectors[rows], verdict)

    def _similarities(
        self, db: sqlite3.Connection, seqs: np.ndarray, vector: np.ndarray
    ) -> np.ndarray:
        """Return exact inner products: in double precision, row by row, so equals are equal."""
        wanted = [self._texts[seq] for seq in seqs.tolist()]
        texts, vectors = self._embeddings.read(db, wanted)
        products = (vectors.astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
        if texts == wanted:
            return np.asarray(products.clip(-1.0, 1.0))
        similarity = dict(zip(texts, products.clip(-1.0, 1.0).tolist(), strict=True))
        for seq, text in zip(seqs.tolist(), wanted, strict=True):
            if text not in similarity:  # damaged since it was indexed
                self._waiting[seq] = text
        return np.array([similarity.get(text, -1.0) for text in wanted])

    def _set_texts(self, pairs: Any) -> None:
        for seq, text in pairs:
            if seq >= len(self._texts):
                self._texts.frombytes(bytes(8 * (seq + 1 - len(self._texts))))
            self._texts[seq] = text

    def _verdict(self, score: float) -> Verdict:
        return "correct" if score >= self._threshold else "wrong"


def _last_event(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])
