"""What the memory contract's tests are made of."""

from __future__ import annotations

import datetime as dt
import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drpg_dspy.memory.base import Embedder, Memory
from drpg_dspy.types import Call, Feedback, Guidance, Policy, Rollout, Rule, Usage

__all__ = ["AWKWARD", "MemoryCase", "PlaneEmbedder", "full_rollout", "ids", "plain_rollout"]

AWKWARD: dict[str, Any] = {
    "surrogate": "\ud800 alone",
    "nan": math.nan,
    "nul": "a\x00b",
    "when": dt.datetime(2026, 1, 2, 3, 4, 5),
    "bytes": b"\x00\xff",
    "set": {"a", "b"},
    "nested": [{"$set": [1]}, {"deep": {"er": [None, True, 1.5]}}],
}


class PlaneEmbedder:
    """Vectors in the plane: a text ``"12"`` is the angle of 12 degrees. Counts its calls."""

    identity = "plane-v1"
    dimension = 2

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        angles = np.radians([float(text.split()[0]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def plain_rollout(id: str, key: str = "", step: int = 0, **values: Any) -> Rollout:
    """Return a rollout with nothing in it but a question and an answer."""
    return Rollout(id, step, {"question": key}, {"answer": id}, key=key, **values)


def full_rollout(id: str) -> Rollout:
    """Return a rollout in which no field has its default."""
    policy = Policy("first", (Rule("Say {why} \\1", sources=("a",), pinned=True),), message="why")
    return Rollout(
        id=id,
        step=7,
        inputs={"question": "10", "context": AWKWARD["surrogate"]},
        outputs={"answer": "x"},
        key="10",
        trace=(
            Call("first", {"question": "10", "context": AWKWARD["surrogate"]}, {"answer": "x"}),
            Call("second", {"draft": [1]}, None, "ValueError: no"),
        ),
        guidance=Guidance(
            policies={"first": policy},
            shots={"first": ({"question": "q", "answer": "a"}, {"question": "r", "answer": "b"})},
            retrieved={"shots": ("a", "b"), "wrong": ()},
            usage=Usage(1, 20, 3, 4, 0.5, 0.25),
            counts={"policy_unparsable": 1},
            memo={"evidence": "reply"},
        ),
        usage=Usage(2, 30, 4, 5, 0.75, 1.25),
        error="kept \ud800",
        created_at=1234.5,
        seconds=2.5,
    )


def ids(hits: Sequence[Any]) -> list[str]:
    """Return the ids of hits or experiences."""
    return [getattr(hit, "experience", hit).id for hit in hits]


class MemoryCase:
    """A test class about memories that :meth:`open` opens."""

    @abstractmethod
    def open(self, folder: Path, embedder: Embedder | None, threshold: float = 0.5) -> Memory:
        """Return the memory that lives in ``folder``, made on the first call."""

    def filled(self, folder: Path, scores: dict[str, float]) -> Memory:
        """Return a memory with an experience for each angle and its score."""
        memory = self.open(folder, PlaneEmbedder())
        for key, score in scores.items():
            memory.record(plain_rollout(f"r{key}", key))
            memory.commit(f"r{key}", Feedback(score))
        return memory
