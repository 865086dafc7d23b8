"""Which experiences are looked at."""

from __future__ import annotations

from drpg_dspy.retrieval.contrastive import Contrast, Contrastive, ContrastiveHits
from drpg_dspy.retrieval.embedder import (
    CallableEmbedder,
    HashingEmbedder,
    PackagedMiniLM,
    SentenceTransformerEmbedder,
    default_embedder,
    resolve_embedder,
)
from drpg_dspy.retrieval.key import default_key

__all__ = [
    "CallableEmbedder",
    "Contrast",
    "Contrastive",
    "ContrastiveHits",
    "HashingEmbedder",
    "PackagedMiniLM",
    "SentenceTransformerEmbedder",
    "default_embedder",
    "default_key",
    "resolve_embedder",
]
