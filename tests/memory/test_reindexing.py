from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from drpg_dspy.exceptions import EmbedderMismatch
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.testing.memory_toys import PlaneEmbedder, ids, plain_rollout
from drpg_dspy.types import Feedback

KEYS = [str(angle) for angle in range(0, 100, 10)]


class Mirrored(PlaneEmbedder):
    """Another model of the same dimension: what was near is far."""

    identity = "mirrored-v1"

    def __init__(self, fail_after: int = 10**9) -> None:
        super().__init__()
        self.fail_after = fail_after

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        if len(self.texts) + len(texts) > self.fail_after:
            raise ConnectionError("the embedding server is gone")
        return super().__call__(texts) * np.array([1, -1], dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(SQLiteMemory(tmp_path / "m.sqlite", PlaneEmbedder())) as memory:
        for key in KEYS:
            memory.record(plain_rollout(f"r{key}", key))
            memory.commit(f"r{key}", Feedback(1.0))
    return tmp_path / "m.sqlite"


def test_every_text_is_embedded_anew_and_the_new_embedder_is_the_files(path: Path) -> None:
    embedder, seen = Mirrored(), []
    with closing(SQLiteMemory(path)) as memory:
        count = memory.reindex(
            embedder, batch_size=4, progress=lambda done, total: seen.append((done, total))
        )
        assert (count, memory.vectors) == (10, ("mirrored-v1", 2))
        assert ids(memory.search("-30 degrees", 1)) == ["r0"]

    assert embedder.texts == [*KEYS, "-30 degrees"]
    assert seen == [(4, 10), (8, 10), (10, 10)]
    with pytest.raises(EmbedderMismatch, match="mirrored-v1"):
        SQLiteMemory(path, PlaneEmbedder())
    assert ids(SQLiteMemory(path, Mirrored()).search("52", 1)) == ["r50"]


def test_until_it_is_done_the_old_vectors_stand_and_it_goes_on_where_it_stopped(
    path: Path,
) -> None:
    first = Mirrored(fail_after=7)
    with closing(SQLiteMemory(path)) as memory, pytest.raises(ConnectionError):
        memory.reindex(first, batch_size=3)
    with closing(SQLiteMemory(path, PlaneEmbedder())) as memory:
        assert ids(memory.search("52", 1)) == ["r50"]
        memory.record(plain_rollout("late", "95"))
        memory.commit("late", Feedback(1.0))

    second = Mirrored()
    with closing(SQLiteMemory(path)) as memory:
        assert memory.reindex(second, batch_size=3) == 11

    assert first.texts + second.texts == [*KEYS, "95"]


def test_a_reindex_begun_with_another_embedder_is_begun_again(path: Path) -> None:
    with closing(SQLiteMemory(path)) as memory:
        with pytest.raises(ConnectionError):
            memory.reindex(Mirrored(fail_after=7), batch_size=3)
        plane = PlaneEmbedder()
        memory.reindex(plane)

    assert plane.texts == KEYS


def test_a_process_that_goes_on_with_the_old_embedder_is_told(path: Path) -> None:
    old = SQLiteMemory(path, PlaneEmbedder())
    assert ids(old.search("52", 1)) == ["r50"]
    with closing(SQLiteMemory(path)) as memory:
        memory.reindex(Mirrored())

    with pytest.raises(EmbedderMismatch):
        old.search("52 again", 1)
    with pytest.raises(EmbedderMismatch):
        old.record(plain_rollout("new", "53"))
    assert [rollout.id for rollout, _ in old.rollouts()] == [f"r{key}" for key in KEYS]


def test_an_empty_memory_takes_the_new_embedder(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite", PlaneEmbedder())

    assert memory.reindex(Mirrored()) == 0
    assert memory.vectors == ("mirrored-v1", 2)
