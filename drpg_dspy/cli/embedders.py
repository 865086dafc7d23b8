"""What is said of the embedder where it is not the papers'."""

from __future__ import annotations

import os

from drpg_dspy import weights
from drpg_dspy.retrieval.choice import ENVIRONMENT
from drpg_dspy.retrieval.embedder import BGE

__all__ = ["expected_embedder", "other_embedder"]


def expected_embedder() -> str:
    """Return the spec of the embedder that a run with the default would get, without loading it.

    What a cache holds is believed: a damaged file there is only found out by loading it.
    """
    if (named := os.environ.get(ENVIRONMENT, "").strip()) and named != "default":
        return named
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return "minilm"
    here = isinstance(try_to_load_from_cache(BGE, "config.json"), str)
    return BGE if here or not weights.hub_refusal(BGE) else "minilm"


def other_embedder(used: str) -> str:
    """Say that the default embedder is not the papers' here, and why."""
    named = os.environ.get(ENVIRONMENT, "").strip()
    if named and named != "default":
        return f"embedder: {named}, because {ENVIRONMENT} says so; else the default is {BGE}."
    return (
        f"embedder: {used}, because {BGE}, the default, is not on this machine and the hub does "
        "not answer. It is not the papers' setting; --embedder chooses another."
    )
