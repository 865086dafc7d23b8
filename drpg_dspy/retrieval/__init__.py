"""Which experiences are looked at."""

from __future__ import annotations

from drpg_dspy.retrieval.contrastive import Contrast, Contrastive, ContrastiveHits

__all__ = ["Contrast", "Contrastive", "ContrastiveHits"]
