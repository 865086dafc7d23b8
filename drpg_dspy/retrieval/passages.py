"""Passages of a corpus, found for a query by any retriever that DSPy programs use.

A retriever is a callable that takes a query: :class:`~drpg_dspy.retrieval.bm25.BM25Retriever`
and :class:`~drpg_dspy.retrieval.dense.DenseRetriever` here, ``dspy.Embeddings``,
``dspy.Retrieve``, a ColBERT client, a function. They return different things;
:func:`passages_of` reads all of them, so that a program need not know which one it was given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import dspy
import numpy as np

__all__ = ["Retriever", "best", "check_query", "digest_of", "found", "passages_of"]


class Retriever(Protocol):
    """Finds passages: ``retriever(query)`` returns what :func:`passages_of` can read."""

    def __call__(self, query: str) -> Any:
        """Return the passages that fit the query, the best first."""


def check_query(query: Any) -> None:
    """Refuse what is no text: "None" would be searched for, and found.

    Raises:
        ValueError: It is none.

    >>> check_query(None)
    Traceback (most recent call last):
    ValueError: A query must be a text, got None.
    """
    if not isinstance(query, str):
        raise ValueError(f"A query must be a text, got {query!r}.")


def passages_of(result: Any) -> list[str]:
    """Return the texts that a retriever found, the best first.

    Read are a ``dspy.Prediction`` with ``passages``, and a sequence of texts or of things with
    a ``long_text`` or ``text`` (attribute or key), as ColBERT clients return them.

    Raises:
        ValueError: It is none of these; the message shows it.

    >>> passages_of(dspy.Prediction(passages=["Moon | It is far."]))
    ['Moon | It is far.']
    >>> passages_of([{"long_text": "Moon | It is far.", "score": 3.5}])
    ['Moon | It is far.']
    >>> passages_of("Moon")
    Traceback (most recent call last):
    ValueError: A retriever must return a dspy.Prediction with passages or a list of texts; it
    returned 'Moon' (str).
    """
    items = getattr(result, "passages", result)
    if isinstance(items, Sequence) and not isinstance(items, (str, bytes)):
        texts = [_text(item) for item in items]
        if all(isinstance(text, str) for text in texts):
            return [str(text) for text in texts]
    raise ValueError(
        "A retriever must return a dspy.Prediction with passages or a list of texts; it returned "
        f"{str(result)[:200]!r} ({type(result).__name__})."
    )


def best(scores: np.ndarray, k: int) -> list[int]:
    """Return the places of the k highest scores, equal ones in the order of their places.

    >>> best(np.array([0.5, 2.0, 0.5, 0.5]), 3)
    [1, 0, 2]
    """
    if k < len(scores):
        least = np.partition(scores, -k)[-k]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))
    return [int(place) for place in places[order][:k]]


def found(passages: Sequence[str], places: Iterable[int], scores: Iterable[float]) -> Any:
    """Return a retriever's answer in DSPy's form.

    Returns:
        A ``dspy.Prediction`` with ``passages``, and beside them their places in the corpus
        (``indices``, as ``dspy.Embeddings`` has them) and their ``scores``.
    """
    indices = list(places)
    return dspy.Prediction(
        passages=[passages[place] for place in indices],
        indices=indices,
        scores=[float(score) for score in scores],
    )


def checked_passages(passages: Any) -> tuple[str, ...]:
    """Return passages as a tuple.

    Raises:
        ValueError: They are no texts, or there is none.
    """
    if isinstance(passages, (str, bytes)) or not isinstance(passages, Iterable):
        raise ValueError(f"passages must be a list of texts, got {str(passages)[:80]!r}.")
    texts = tuple(passages)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"passages must be texts, got {text!r}.")
    if not texts:
        raise ValueError("A retriever needs at least one passage, got none.")
    return texts


def digest_of(name: str, texts: Iterable[str]) -> str:
    """Return a name for texts under a method or model: another text, another name."""
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass"))
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        mark.update(len(raw).to_bytes(8, "big"))
        mark.update(raw)
    return mark.hexdigest()[:32]


def _text(item: Any) -> Any:
    if isinstance(item, Mapping):
        return item.get("long_text", item.get("text"))
    if isinstance(item, str):
        return item
    return getattr(item, "long_text", getattr(item, "text", None))
