from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpg_dspy.memory import SQLiteMemory, vector_cache
from drpg_dspy.memory.vector_cache import VectorCache
from drpg_dspy.retrieval.embedder import HashingEmbedder
from drpg_dspy.types import Feedback, Rollout


@settings(max_examples=100, deadline=None)
@given(capacity=st.integers(1, 6), numbers=st.lists(st.integers(0, 12), max_size=60))
def test_the_cache_gives_back_what_was_put_last_under_a_number(
    capacity: int, numbers: list[int]
) -> None:
    cache, last = VectorCache(3, capacity), {}
    for place, number in enumerate(numbers):
        last[number] = np.array([place, number, 1], dtype=np.float32)
        cache.put(number, last[number])

    present = [number for number in last if number in cache]
    assert len(present) == min(capacity, len(last))
    assert cache.missing(list(last)) == [number for number in last if number not in present]
    assert np.array_equal(cache.rows(present), np.array([last[n] for n in present]).reshape(-1, 3))


def learn(memory: SQLiteMemory, id: str, question: str) -> None:
    memory.record(Rollout(id, 0, {"question": question}, {"answer": "x"}, key=question))
    memory.commit(id, Feedback(1.0))


def test_a_small_cache_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "_BYTES", 4 * 512 * 3)  # three vectors
    questions = [f"How many {noun} are there?" for noun in "abcdefghijklmnop"]
    small = SQLiteMemory(tmp_path / "small.sqlite", HashingEmbedder(512))
    monkeypatch.undo()
    large = SQLiteMemory(tmp_path / "large.sqlite", HashingEmbedder(512))
    for memory in (small, large):
        for i, question in enumerate(questions):
            learn(memory, f"r{i}", question)
            memory.search(question, 5)

    for question in questions:
        found, expected = small.search(question, 7), large.search(question, 7)
        assert [(h.experience.id, h.similarity) for h in found] == [
            (h.experience.id, h.similarity) for h in expected
        ]


def test_vectors_of_a_replaced_file_are_not_those_of_the_old(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    mine = SQLiteMemory(tmp_path / "mine.sqlite", embedder)
    other = SQLiteMemory(tmp_path / "other.sqlite", embedder)
    learn(mine, "old", "singers by country")
    assert mine.search("singers by country", 1)[0].similarity == pytest.approx(1.0)
    learn(other, "new", "orders of last month")
    elsewhere = SQLiteMemory(tmp_path / "mine.sqlite", embedder)
    other.copy_to(tmp_path / "copy.sqlite")
    elsewhere.copy_from(tmp_path / "copy.sqlite")  # another connection replaces everything

    (hit,) = mine.search("orders of last month", 1)

    assert (hit.experience.id, hit.similarity) == ("new", pytest.approx(1.0))
