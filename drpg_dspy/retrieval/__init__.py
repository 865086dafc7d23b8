"""Which experiences are looked at, and passages of a corpus for programs that need some."""

from __future__ import annotations

from drpg_dspy.retrieval.bm25 import BM25Retriever
from drpg_dspy.retrieval.choice import default_embedder, resolve_embedder
from drpg_dspy.retrieval.contrastive import Contrast, Contrastive, ContrastiveHits
from drpg_dspy.retrieval.dense import DenseRetriever
from drpg_dspy.retrieval.embedder import (
    CallableEmbedder,
    HashingEmbedder,
    PackagedMiniLM,
    SentenceTransformerEmbedder,
)
from drpg_dspy.retrieval.key import default_key
from drpg_dspy.retrieval.passages import Retriever, passages_of

__all__ = [
    "BM25Retriever",
    "CallableEmbedder",
    "Contrast",
    "Contrastive",
    "ContrastiveHits",
    "DenseRetriever",
    "HashingEmbedder",
    "PackagedMiniLM",
    "Retriever",
    "SentenceTransformerEmbedder",
    "default_embedder",
    "default_key",
    "passages_of",
    "resolve_embedder",
]
