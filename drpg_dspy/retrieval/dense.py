"""Passages whose meaning is near a query's: vectors of an embedder, searched by FAISS."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drpg_dspy.arguments import checked_path, whole
from drpg_dspy.memory.base import Embedder
from drpg_dspy.retrieval.choice import default_embedder
from drpg_dspy.retrieval.passages import best, check_query, checked_passages, digest_of, found

__all__ = ["DenseRetriever"]

_FILE = 1024
"""Passages whose vectors stand in one file: what an interrupted run has to embed again."""

_SPARE = 32
"""Neighbours asked for beyond k, among which equal scores are put in order."""


class DenseRetriever:
    """Find the passages whose vectors have the largest inner product with the query's.

    The search is exact. Equal scores stand in the order of the passages. A copy shares the
    vectors, so that DSPy's optimizers may copy a program that holds one.

    Args:
        passages: Texts, at least one.
        embedder: Any of the library's; ``None`` = :func:`~drpg_dspy.retrieval.default_embedder`.
        k: How many are returned at most.
        cache: A folder in which vectors are kept, 1,024 passages a file, under the hash of the
            texts and of the embedder's identity: texts are embedded once, an interrupted run
            goes on where it was, and another model never reads them. ``None`` = not kept.

    Raises:
        ValueError: A passage is no text, there is none, or k is no whole number above 0.
        ModelNotFound: There is no default embedder.

    >>> from drpg_dspy.retrieval import HashingEmbedder
    >>> search = DenseRetriever(["the moon is far", "a town in France"], HashingEmbedder(), k=1)
    >>> search("How far is the moon?").passages
    ['the moon is far']
    """

    def __init__(
        self,
        passages: Sequence[str],
        embedder: Embedder | None = None,
        k: int = 5,
        *,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.passages = checked_passages(passages)
        self.k = whole("k", k, 1)
        self._folder = None if cache is None else checked_path("cache", cache)
        self.embedder = default_embedder() if embedder is None else embedder
        self._vectors = np.concatenate(list(self._all_vectors()))
        self._index = _flat(self._vectors)

    def __call__(self, query: str, k: int | None = None) -> Any:
        """Return a ``dspy.Prediction`` with ``passages``, ``indices`` and ``scores``.

        Args:
            query: Any text.
            k: Another number for this call.
        """
        k = min(self.k if k is None else whole("k", k, 1), len(self.passages))
        check_query(query)
        vector = np.ascontiguousarray(self.embedder([query]), dtype=np.float32)
        wanted = min(k + _SPARE, len(self.passages))
        while True:
            scores, places = self._index.search(vector, wanted)
            if wanted == len(self.passages) or scores[0, -1] < scores[0, k - 1]:
                break
            wanted = min(4 * wanted, len(self.passages))  # equal ones go on beyond the last
        by_place = np.argsort(places[0], kind="stable")
        scores, places = scores[0, by_place], places[0, by_place]
        chosen = best(scores, k)
        return found(self.passages, (int(place) for place in places[chosen]), scores[chosen])

    def forward(self, query: str, k: int | None = None) -> Any:
        """Do what a call does, under the name that DSPy's retrievers have."""
        return self(query, k)

    def __deepcopy__(self, memo: Any) -> DenseRetriever:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index = _flat(self._vectors)

    def __repr__(self) -> str:
        return (
            f"DenseRetriever({len(self.passages)} passages, {self.embedder.identity!r}, k={self.k})"
        )

    def _all_vectors(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.passages), _FILE):
            texts = self.passages[start : start + _FILE]
            if self._folder is None:
                yield self._embedded(texts)
                continue
            path = self._folder / f"vectors-{digest_of(self.embedder.identity, texts)}.npy"
            vectors = _read(path, (len(texts), self.embedder.dimension))
            if vectors is None:
                vectors = self._embedded(texts)
                _write(path, vectors)
            yield vectors

    def _embedded(self, texts: Sequence[str]) -> np.ndarray:
        return np.ascontiguousarray(self.embedder(list(texts)), dtype=np.float32)


def _flat(vectors: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Return kept vectors; ``None`` where there are none, or what is there is damaged."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    good = vectors.shape == shape and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    return vectors if good else None


def _write(path: Path, vectors: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".vectors-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, vectors)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
