"""Where experiences are kept."""

from __future__ import annotations

from drpg_dspy.memory.base import (
    Claim,
    Embedder,
    Event,
    EventKind,
    Hit,
    Memory,
    MemoryView,
    StepFigures,
)
from drpg_dspy.memory.sqlite import SQLiteMemory

__all__ = [
    "Claim",
    "Embedder",
    "Event",
    "EventKind",
    "Hit",
    "Memory",
    "MemoryView",
    "SQLiteMemory",
    "StepFigures",
]
