from __future__ import annotations

from pathlib import Path

from drpg_dspy.memory import Embedder, Memory, SQLiteMemory
from drpg_dspy.testing.memory_contract import MemoryContract


class TestSQLiteMemory(MemoryContract):
    def open(self, folder: Path, embedder: Embedder | None, threshold: float = 0.5) -> Memory:
        return SQLiteMemory(folder / "memory.sqlite", embedder, threshold=threshold)
