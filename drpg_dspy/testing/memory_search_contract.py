"""What a memory promises about search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.testing.memory_toys import MemoryCase, PlaneEmbedder, ids, plain_rollout
from drpg_dspy.types import Feedback, Verdict

__all__ = ["MemorySearchContract"]


class MemorySearchContract(MemoryCase):
    """A part of :class:`~drpg_dspy.testing.memory_contract.MemoryContract`."""

    def test_the_nearest_come_first_and_only_of_the_wanted_verdict(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1, "10": 0, "20": 1, "80": 1, "90": 0})

        assert ids(memory.search("1", 2)) == ["r0", "r10"]
        assert ids(memory.search("1", 3, "correct")) == ["r0", "r20", "r80"]
        assert ids(memory.search("1", 3, "wrong")) == ["r10", "r90"]
        assert ids(memory.search("1", 0)) == []

    def test_similarity_is_the_cosine(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1, "60": 1})

        found = [hit.similarity for hit in memory.search("0 again", 2)]

        assert found == pytest.approx([1.0, 0.5], abs=1e-6)

    def test_equals_come_by_age_also_at_the_edge(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())
        for number in range(9):
            memory.record(plain_rollout(f"r{number}", "30" if number != 4 else "31"))
        for number in (8, 2, 5, 0, 4, 1, 7, 3, 6):  # judged in another order
            memory.commit(f"r{number}", Feedback(float(number % 3 > 0)))

        assert ids(memory.search("30", 4)) == ["r0", "r1", "r2", "r3"]
        assert ids(memory.search("30", 4, "correct")) == ["r1", "r2", "r5", "r7"]
        assert ids(memory.search("30", 99)) == [f"r{n}" for n in (0, 1, 2, 3, 5, 6, 7, 8, 4)]

    def test_an_empty_memory_finds_nothing(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())

        assert (memory.search("1", 5), memory.search("1", 5, "wrong")) == ([], [])
        assert memory.recent(5) == []
        assert (len(memory), memory.count("correct"), memory.recall("x")) == (0, 0, None)

    def test_a_rollout_without_a_key_is_kept_and_never_found(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1})
        memory.record(plain_rollout("silent", ""))
        memory.commit("silent", Feedback(1.0))

        assert ids(memory.search("0", 9)) == ["r0"]
        assert ids(memory.recent(9)) == ["r0", "silent"]
        assert memory.count() == 2

    def test_each_text_is_embedded_once(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1, "90": 0})
        embedder: Any = memory.embedder
        embedder.texts.clear()

        memory.search("45", 3, "correct")
        memory.search("45", 3, "wrong")
        memory.record(plain_rollout("new", "45"))
        memory.commit("new", Feedback(1.0))
        memory.search("45", 1)
        memory.record(plain_rollout("again", "45"))
        memory.search("90", 1)

        assert embedder.texts == ["45"]

    def test_a_text_is_not_embedded_again_after_reopening(self, tmp_path: Path) -> None:
        self.filled(tmp_path, {"0": 1, "90": 0}).close()
        embedder = PlaneEmbedder()

        found = ids(self.open(tmp_path, embedder).search("90", 2))

        assert (found, embedder.texts) == (["r90", "r0"], [])

    @pytest.mark.parametrize(("k", "verdict"), [(-1, None), (1, "right")])
    def test_senseless_arguments_are_refused(
        self, tmp_path: Path, k: int, verdict: Verdict | None
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1})

        with pytest.raises(ValueError, match=str(k) if k < 0 else str(verdict)):
            memory.search("0", k, verdict)
        with pytest.raises(ValueError, match=str(k) if k < 0 else str(verdict)):
            memory.recent(k, verdict)
