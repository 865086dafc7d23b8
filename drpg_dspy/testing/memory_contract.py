"""The promises of a memory, as a test class to subclass.

::

    class TestMine(MemoryContract):
        def open(self, folder, embedder, threshold=0.5):
            return MyMemory(folder / "mine", embedder, threshold=threshold)

Every promise of :mod:`drpg_dspy.memory.base` is a test or a part of one. ``open`` may be called
several times for one folder and must then give the same memory. pytest is needed to run them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drpg_dspy.exceptions import ResumeMismatch, StorageError, UnknownRollout
from drpg_dspy.memory.base import Memory
from drpg_dspy.testing.memory_amend_contract import MemoryAmendContract
from drpg_dspy.testing.memory_feedback_contract import MemoryFeedbackContract
from drpg_dspy.testing.memory_search_contract import MemorySearchContract
from drpg_dspy.testing.memory_toys import (
    AWKWARD,
    PlaneEmbedder,
    full_rollout,
    ids,
    plain_rollout,
)
from drpg_dspy.types import Feedback, Guidance, Policy, Rule, Usage

__all__ = ["MemoryContract", "PlaneEmbedder", "full_rollout", "plain_rollout"]


class MemoryContract(MemorySearchContract, MemoryFeedbackContract, MemoryAmendContract):
    """Subclass and implement :meth:`open`; pytest collects the rest."""

    # -- predictions

    def test_a_rollout_comes_back_whole(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())
        sent = full_rollout("r")

        stored = memory.record(sent)

        assert memory.rollout("r") == stored
        first = replace(sent.guidance.policies["first"], version=1, step=7)
        assert stored == replace(sent, guidance=replace(sent.guidance, policies={"first": first}))

    def test_a_step_of_0_becomes_the_number_of_the_rollout(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)

        assert [memory.record(plain_rollout(name)).step for name in "abc"] == [1, 2, 3]

    def test_rollouts_are_counted_judged_or_not_and_refused_ones_are_not(
        self, tmp_path: Path
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1, "1": 0})
        memory.record(plain_rollout("waiting", step=40))
        memory.record(replace(plain_rollout("failed"), outputs=None, error="LM: dead"))
        with pytest.raises(ValueError, match="waiting"):
            memory.record(plain_rollout("waiting"))

        assert (memory.count_rollouts(), memory.count()) == (4, 2)
        memory.close()
        assert self.open(tmp_path, PlaneEmbedder()).count_rollouts() == 4

    def test_a_claim_is_decided_on_with_the_record_or_not_at_all(self, tmp_path: Path) -> None:
        one, two = (self.open(tmp_path, None) for _ in range(2))
        seen: list[str | None] = []

        def decide(stood: str | None) -> str:
            seen.append(stood)
            if stood == "refuse":
                raise ResumeMismatch("it is taken")
            return f"{stood or ''}+"

        one.record(plain_rollout("a"), claim=("owner", decide))
        two.record(plain_rollout("b"), claim=("owner", decide))
        with pytest.raises(ValueError, match="'b'"):
            one.record(plain_rollout("b"), claim=("owner", decide))
        assert (seen, one.get_meta("owner")) == ([None, "+", "++"], "++")
        assert one.place == two.place
        one.set_meta("owner", "refuse")
        with pytest.raises(ResumeMismatch, match="taken"):
            two.record(plain_rollout("c"), claim=("owner", decide))
        assert (two.count_rollouts(), two.get_meta("owner")) == (2, "refuse")

    def test_the_same_id_twice_is_refused(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        memory.record(plain_rollout("r"))

        with pytest.raises(ValueError, match="'r'"):
            memory.record(plain_rollout("r"))

        assert len(list(memory.rollouts())) == 1

    @pytest.mark.parametrize("name", AWKWARD)
    def test_awkward_values_come_back_as_they_were(self, tmp_path: Path, name: str) -> None:
        value = AWKWARD[name]
        memory = self.open(tmp_path, None)
        memory.record(replace(plain_rollout("r"), inputs={"x": value}, outputs={"y": [value]}))
        memory.close()

        back = self.open(tmp_path, None).rollout("r")

        assert repr((back.inputs, back.outputs)) == repr(({"x": value}, {"y": [value]}))

    @pytest.mark.parametrize("field", ["inputs", "outputs"])
    def test_what_cannot_be_kept_is_refused_when_it_is_recorded(
        self, tmp_path: Path, field: str
    ) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())
        handle = {"handle": object()}
        good = plain_rollout("r", "1")
        bad = replace(good, inputs=handle) if field == "inputs" else replace(good, outputs=handle)

        with pytest.raises(StorageError, match=rf"{field}\['handle'\]"):
            memory.record(bad)

        assert list(memory.rollouts()) == []
        assert memory.events() == []

    def test_rollouts_come_by_step_with_the_feedback_that_stands(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        for step in (5, 1, 3):
            memory.record(plain_rollout(f"s{step}", step=step))
        memory.commit("s3", Feedback(0.25))

        seen = [(r.id, f and f.score) for r, f in memory.rollouts(after_step=1)]

        assert seen == [("s3", 0.25), ("s5", None)]

    def test_the_figures_of_rollouts_are_those_that_the_rollouts_hold(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        for step, name in ((7, "whole"), (2, "plain"), (4, "other")):
            rollout = replace(full_rollout(name), step=step)
            memory.record(plain_rollout(name, step=step) if name == "plain" else rollout)
        memory.record(replace(plain_rollout("raised", step=9), outputs=None, error="Broken: down"))
        memory.commit("whole", Feedback(0.25, text="no", usage=Usage(calls=2, cost=0.5)))

        figures = list(memory.figures())

        assert [f.id for f in figures] == ["plain", "other", "whole", "raised"]
        assert figures == list(Memory.figures(memory))

    def test_an_unknown_rollout_is_an_error_everywhere(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        for ask in (
            memory.rollout,
            memory.retract,
            memory.feedback,
            memory.feedback_history,
            lambda id: memory.commit(id, Feedback(1.0)),
        ):
            with pytest.raises(UnknownRollout, match="nobody"):
                ask("nobody")

        assert memory.experience("nobody") is None

    # -- policies, state, memo, events

    def test_versions_count_the_distinct_texts_of_a_route(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        texts = ["one", "two", "one", "three"]
        for number, text in enumerate(texts):
            policy = Policy("p", (Rule(text, sources=(f"r{number}",)),), message=f"m{number}")
            memory.record(
                replace(plain_rollout(f"r{number}"), guidance=Guidance(policies={"p": policy}))
            )
        memory.record(
            replace(
                plain_rollout("other"),
                guidance=Guidance(policies={"q": Policy("q", (Rule("one"),))}),
            )
        )

        stored = memory.policies("p")

        assert [(p.version, p.parent, p.step, p.message) for p in stored] == [
            (1, 0, 1, "m0"),
            (2, 1, 2, "m1"),
            (3, 1, 4, "m3"),  # written while the first was in force again
        ]
        assert memory.rollout("r2").guidance.policies["p"] == stored[0]
        assert memory.in_force("p") == stored[2]
        assert memory.in_force("nowhere") is None
        assert [p.route for p in memory.policies()] == ["p", "p", "p", "q"]
        assert memory.policy("p", 2).rules[0].sources == ("r1",)
        with pytest.raises(ValueError, match="1 to 3"):
            memory.policy("p", 9)

    def test_a_policy_is_announced_before_what_brought_it(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        used = Guidance(policies={"p": Policy("p", (Rule("one"),))})
        memory.record(replace(plain_rollout("r"), guidance=used))
        memory.commit("r", Feedback(1.0), policies=[Policy("p", (Rule("two"),))])
        memory.commit("r", Feedback(0.0), policies=[Policy("p", (Rule("two"),))])
        memory.retract("r")

        assert memory.in_force("p") == memory.policy("p", 2)
        events = memory.events()

        assert [(event.kind, event.ref) for event in events] == [
            ("policy", "p@1"),
            ("rollout", "r"),
            ("policy", "p@2"),
            ("feedback", "r"),
            ("feedback", "r"),
            ("retraction", "r"),
        ]
        assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
        assert memory.events(after=2, limit=2) == events[2:4]

    def test_state_is_written_only_over_the_version_it_was_read_at(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1, "1": 1})
        assert memory.state() == ({}, 0)
        assert memory.commit("r0", Feedback(0.0), state={"n": 1}, if_state_version=0)

        written = memory.commit("r1", Feedback(0.0), state={"n": 2}, if_state_version=0)

        assert not written
        assert (memory.state(), memory.feedback("r1")) == (({"n": 1}, 1), Feedback(1.0))
        assert memory.commit("r1", Feedback(0.0), state={"n": 2}, if_state_version=1)
        assert memory.state() == ({"n": 2}, 2)

    def test_what_is_remembered_is_written_by_the_commit_or_not_at_all(
        self, tmp_path: Path
    ) -> None:
        memory = self.filled(tmp_path, {"0": 1})
        other = self.open(tmp_path, PlaneEmbedder())
        memory.remember("dropped", "x")
        memory.discard()
        memory.remember("kept", "y")

        assert (memory.recall("dropped"), memory.recall("kept")) == (None, "y")
        assert other.recall("kept") is None
        memory.commit("r0", Feedback(0.0))
        assert other.recall("kept") == "y"

    def test_a_memo_of_the_guidance_is_recalled(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, PlaneEmbedder())

        memory.record(full_rollout("r"))

        assert memory.recall("evidence") == "reply"

    def test_settings_are_kept(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        memory.set_meta("cursor", "1")
        memory.set_meta("cursor", "2")
        memory.close()

        again = self.open(tmp_path, None)

        assert (again.get_meta("cursor"), again.get_meta("none")) == ("2", None)

    # -- more than one

    def test_what_another_commits_is_seen_by_the_next_call(self, tmp_path: Path) -> None:
        one = self.filled(tmp_path, {"0": 1})
        two = self.open(tmp_path, PlaneEmbedder())
        assert (ids(two.search("5", 9)), two.count()) == (["r0"], 1)

        one.record(plain_rollout("new", "5"))
        assert two.count() == 1
        one.commit("new", Feedback(0.0))
        assert (ids(two.search("5", 9)), two.count("wrong")) == (["new", "r0"], 1)
        two.commit("new", Feedback(1.0))
        assert ids(one.search("5", 9, "correct")) == ["new", "r0"]
        one.retract("r0")
        assert ids(two.search("5", 9)) == ["new"]

    def test_a_copy_has_everything_and_goes_its_own_way(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path / "a", {"0": 1, "9": 0})
        memory.commit("r0", Feedback(0.5), state={"n": 1})
        memory.copy_to(tmp_path / "copy")
        memory.commit("r0", Feedback(0.0))
        elsewhere = self.filled(tmp_path / "b", {"45": 1})
        assert ids(elsewhere.search("0", 9)) == ["r45"]

        elsewhere.copy_from(tmp_path / "copy")

        assert ids(elsewhere.search("0", 9)) == ["r0", "r9"]
        assert (elsewhere.feedback("r0"), elsewhere.state()) == (Feedback(0.5), ({"n": 1}, 1))
        assert elsewhere.events() == memory.events()[:-1]

    def test_closing_twice_is_harmless(self, tmp_path: Path) -> None:
        memory = self.filled(tmp_path, {"0": 1})

        memory.close()
        memory.close()

        assert self.open(tmp_path, PlaneEmbedder()).count() == 1

    def test_without_an_embedder_history_is_read_and_search_says_what_is_missing(
        self, tmp_path: Path
    ) -> None:
        self.filled(tmp_path, {"0": 1}).close()
        memory = self.open(tmp_path, None)

        assert (ids(memory.recent(1)), memory.count()) == (["r0"], 1)
        with pytest.raises(ValueError, match="embedder"):
            memory.search("0", 1)
