"""Passages that share words with a query: BM25, through the library bm25s."""

from __future__ import annotations

import functools
import importlib
import os
import re
import shutil
import tempfile
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drpg_dspy.arguments import checked_path, whole
from drpg_dspy.exceptions import missing_extra
from drpg_dspy.retrieval.passages import best, check_query, checked_passages, digest_of, found

__all__ = ["BM25Retriever"]

_VERSION = "1"
"""Of the words below; another one makes cached indices obsolete."""

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    "a an and are as at be by for from had has have he her his in is it its of on or she that "
    "the their they this to was were which who whom whose will with".split()
)
_STEMMING = threading.Lock()  # a stemmer of PyStemmer must not be used by two threads at once


class BM25Retriever:
    """Find the passages whose rare words a query shares.

    Words are compared without case and accents, by their English stems; common function words
    do not count. Scripts other than Latin are compared as written. Passages that share no word
    with the query are not returned, so there may be fewer than k, or none.

    Equal scores stand in the order of the passages: the same query, the same answer. A copy
    shares the index, so that DSPy's optimizers may copy a program that holds one.

    Args:
        passages: Texts, at least one.
        k: How many are returned at most.
        cache: A folder in which the index is kept under the hash of its passages; ``None`` = it
            is built each time (about a second for a thousand long ones).

    Raises:
        ImportError: bm25s or PyStemmer is not installed (extra ``retrieval``).
        ValueError: A passage is no text, there is none, or k is no whole number above 0.

    Source: Robertson and Zaragoza 2009; Lù 2024, "BM25S" (k1 = 1.5, b = 0.75, Lucene's form).

    >>> search = BM25Retriever(["Moon | It is far.", "Lyon | A town in France."], k=1)
    >>> search("Which towns are in France?").passages
    ['Lyon | A town in France.']
    >>> search("elephants").passages
    []
    """

    def __init__(
        self,
        passages: Sequence[str],
        k: int = 5,
        *,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.passages = checked_passages(passages)
        self.k = whole("k", k, 1)
        folder = None if cache is None else checked_path("cache", cache)
        library = _library("bm25s")
        _library("Stemmer")  # before the work begins
        self._index = _cached(library, self.passages, folder)
        self._numbers: dict[str, int] = self._index.vocab_dict

    def __call__(self, query: str, k: int | None = None) -> Any:
        """Return a ``dspy.Prediction`` with ``passages``, ``indices`` and ``scores``.

        Args:
            query: Any text.
            k: Another number for this call.
        """
        k = self.k if k is None else whole("k", k, 1)
        check_query(query)
        known = [self._numbers[stem] for stem in _stems(query) if stem in self._numbers]
        if not known:
            return found(self.passages, (), ())
        scores = self._index.get_scores_from_ids(known)
        places = [place for place in best(scores, k) if scores[place] > 0.0]
        return found(self.passages, places, scores[places])

    def forward(self, query: str, k: int | None = None) -> Any:
        """Do what a call does, under the name that DSPy's retrievers have."""
        return self(query, k)

    def __deepcopy__(self, memo: Any) -> BM25Retriever:
        return self

    def __repr__(self) -> str:
        return f"BM25Retriever({len(self.passages)} passages, k={self.k})"


def _cached(library: Any, passages: tuple[str, ...], folder: Path | None) -> Any:
    if folder is None:
        return _built(library, passages)
    place = folder / f"bm25-{digest_of(f'bm25 {_VERSION} {library.__version__}', passages)}"
    if place.is_dir():
        try:
            index = library.BM25.load(place)
            if index.scores["num_docs"] == len(passages):
                return index
        except (OSError, ValueError, KeyError, EOFError):
            pass  # cut off or damaged: it is made from the passages again
        shutil.rmtree(place, ignore_errors=True)
    index = _built(library, passages)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".bm25-") as draft:
        index.save(Path(draft, "index"))
        try:
            os.rename(Path(draft, "index"), place)
        except OSError:  # another process was first
            if not place.is_dir():
                raise
    return index


def _built(library: Any, passages: Sequence[str]) -> Any:
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(stem, len(numbers)) for stem in _stems(text)] for text in passages]
    if not numbers:  # nothing but punctuation; bm25s has no empty index
        numbers[""] = 0
        rows[0] = [0]
    index = library.BM25(k1=1.5, b=0.75, method="lucene")
    index.index((rows, numbers), create_empty_token=False, show_progress=False)
    return index


def _stems(text: str) -> Iterator[str]:
    return (stem for stem in map(_stem, _words(text)) if stem)


def _words(text: str) -> list[str]:
    text = text.lower()
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(part for part in parts if not unicodedata.combining(part))
    return _WORD.findall(text)


@functools.lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    """Return the stem of a word; ``""`` for one that does not count."""
    if word in _COMMON:
        return ""
    with _STEMMING:
        return str(_stemmer().stemWord(word))


@functools.cache
def _stemmer() -> Any:
    return _library("Stemmer").Stemmer("english")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = {"Stemmer": "PyStemmer"}.get(name, name)
        raise missing_extra("BM25Retriever", "retrieval", package) from error
