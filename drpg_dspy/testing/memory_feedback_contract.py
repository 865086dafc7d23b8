"""What a memory promises about feedback: late, repeated, revised, taken back."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from drpg_dspy.testing.memory_toys import (
    MemoryCase,
    PlaneEmbedder,
    ids,
    plain_rollout,
)
from drpg_dspy.types import Feedback, Guidance, Policy, Rule

__all__ = ["MemoryFeedbackContract"]


class MemoryFeedbackContract(MemoryCase):
    """A part of :class:`~drpg_dspy.testing.memory_contract.MemoryContract`."""

    def test_recent_gives_the_last_learned_oldest_first(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1, "1": 0, "2": 1, "3": 0})

        assert ids(memory.recent(3)) == ["r1", "r2", "r3"]
        assert ids(memory.recent(3, "correct")) == ["r0", "r2"]

    @pytest.mark.parametrize(
        "feedback", [Feedback(math.nan, "silent judge"), Feedback(1.0, informative=False)]
    )
    def test_feedback_that_does_not_teach_is_kept_and_takes_the_experience_away(
        self, tmp_path: Path, feedback: Feedback
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1})

        memory.commit("r0", feedback)

        assert repr(memory.feedback("r0")) == repr(feedback)
        assert (memory.count(), memory.search("0", 1), memory.recent(1)) == (0, [], [])
        assert memory.experience("r0") is None

    def test_a_failed_rollout_keeps_feedback_and_is_no_experience(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())
        memory.record(replace(plain_rollout("r", "0"), outputs=None, error="LM: dead"))

        memory.commit("r", Feedback(0.0))

        assert memory.feedback("r") == Feedback(0.0)
        assert (memory.count(), memory.search("0", 1)) == (0, [])

    def test_a_revision_replaces_what_stood_and_keeps_the_history(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 0, "5": 1})
        assert ids(memory.search("0", 9, "wrong")) == ["r0"]

        memory.commit("r0", Feedback(1.0, "after all"))

        assert ids(memory.search("0", 9, "correct")) == ["r0", "r5"]
        assert memory.search("0", 9, "wrong") == []
        assert memory.search("0", 1)[0].experience.feedback.text == "after all"
        history = [feedback for _, feedback in memory.feedback_history("r0")]
        assert history == [Feedback(0.0), Feedback(1.0, "after all")]

    def test_a_retraction_takes_the_experience_away_until_new_feedback(
        self, tmp_path: Path
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1, "5": 1})

        memory.retract("r0")
        memory.retract("r0")

        assert (ids(memory.search("0", 9)), memory.feedback("r0")) == (["r5"], None)
        assert [f for _, f in memory.feedback_history("r0")] == [Feedback(1.0), None]
        memory.commit("r0", Feedback(1.0))
        assert ids(memory.search("0", 9)) == ["r0", "r5"]

    def test_the_same_feedback_three_times_counts_once(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1})
        thumb = Feedback(0.0, "no", id="f1", author="person:ada")
        for _ in range(3):
            assert memory.commit("r0", thumb, state={"seen": 1})

        assert [event.kind for event in memory.events()].count("feedback") == 2
        assert memory.state() == ({"seen": 1}, 1)
        memory.commit("r0", replace(thumb, score=1.0))  # the same id again: a changed mind
        assert memory.feedback("r0") == replace(thumb, score=1.0)

    def test_a_message_delivered_late_and_twice_does_not_undo_a_newer_one(
        self, tmp_path: Path
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1})
        first, second = Feedback(0.0, id="f1"), Feedback(1.0, id="f2")
        memory.commit("r0", first)
        memory.commit("r0", second)

        memory.commit("r0", first)

        assert memory.feedback("r0") == second

    def test_late_feedback_finds_the_policy_that_was_in_force(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())
        for number in range(4):
            policy = Policy("p", (Rule(f"rule {number}"),))
            guidance = Guidance(policies={"p": policy})
            memory.record(replace(plain_rollout(f"r{number}", str(number)), guidance=guidance))

        memory.commit("r0", Feedback(0.0, id="f2"))

        hit = memory.search("0", 1)[0].experience
        assert hit.rollout.guidance.policies["p"].text == "- rule 0"
        assert hit.rollout.guidance.policies["p"].version == 1

    def test_the_threshold_says_what_is_correct_anew_on_every_opening(self, tmp_path: Path) -> None:
        self.filled(tmp_path, {"0": 0.5, "1": 0.6, "2": 0.2}).close()

        strict = self.open(tmp_path, PlaneEmbedder(), 0.6)

        assert ids(strict.search("0", 9, "correct")) == ["r1"]
        assert (strict.count("correct"), strict.count("wrong")) == (1, 2)
        assert [e.correct for e in strict.recent(3)] == [False, True, False]
