from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.arguments import LONGEST_RULE
from drpg_dspy.exceptions import OutdatedCandidate
from drpg_dspy.governance import Applier, Governance, case_of
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule

ADA = "person:ada"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    with closing(SQLiteMemory(tmp_path / "memory.sqlite")) as memory:
        yield memory


class Play:
    """Calls of a program whose optimizer proposes what it is told to."""

    def __init__(self, memory: SQLiteMemory) -> None:
        self.memory = memory
        self.governance = Governance(memory, ["predict"])
        self.applier = Applier(memory)
        self.step = 0

    def __call__(self, *texts: str, score: float = 1.0, sources: tuple[str, ...] = ()) -> str:
        """Make one call; return the policy text that it was given."""
        self.step += 1
        rules = tuple(Rule(text, sources=sources) for text in texts)
        proposed = {"predict": Policy("predict", rules)} if rules else {}
        guidance = self.applier.apply(Guidance(proposed), ["predict"])
        id = f"r{self.step}"
        rollout = Rollout(id, self.step, {"q": id}, {"a": id}, f"question {self.step}")
        self.memory.record(
            Rollout(
                rollout.id, rollout.step, rollout.inputs, rollout.outputs, rollout.key,
                guidance=guidance,
            )
        )  # fmt: skip
        self.memory.commit(id, Feedback(score, f"said {self.step}"))
        policy = guidance.policies.get("predict")
        return policy.text if policy is not None else ""


@pytest.fixture
def play(memory: SQLiteMemory) -> Play:
    return Play(memory)


def test_without_decisions_a_guidance_passes_as_it_is(play: Play) -> None:
    guidance = Guidance({"predict": Policy("predict", (Rule("A"),))})

    assert play.applier.apply(guidance, ["predict"]) is guidance


def test_a_pinned_rule_comes_first_in_whatever_is_proposed(play: Play) -> None:
    play("A")
    play.governance.pin("predict", "Stay polite.", author=ADA, reason="style")

    assert play("B", "C") == "- Stay polite.\n- B\n- C"
    assert play() == "- Stay polite."
    assert play("Stay polite.", "D") == "- Stay polite.\n- D"


def test_a_learned_rule_is_pinned_by_its_id_and_keeps_its_sources(play: Play) -> None:
    play("A", "B", sources=("r0",))
    id = play.governance.show("predict").rules[1].id

    made = play.governance.pin("predict", id, author=ADA)

    (rule,) = play.governance.state().route("predict").pinned
    assert (rule.text, rule.author, rule.pinned, rule.sources) == ("B", "drpg", True, ("r0",))
    assert play.memory.policy("predict", made.version).author == ADA
    play.governance.unpin("predict", id, author=ADA)
    assert play("C") == "- C"


def test_an_edit_stands_until_the_route_is_thawed(play: Play) -> None:
    play("A")

    made = play.governance.edit("predict", "- B\n- A", author=ADA, reason="reviewed")

    assert play("C") == "- B\n- A"
    stored = play.memory.policy("predict", made.version)
    assert (stored.author, stored.message) == (ADA, "reviewed")
    assert [rule.author for rule in stored.rules] == [ADA, "drpg"]
    play.governance.thaw("predict", author=ADA)
    assert play("D") == "- D"


def test_an_empty_edit_means_no_policy(play: Play) -> None:
    play("A")
    play.governance.edit("predict", "", author=ADA)

    assert play("B") == ""


def test_a_rollback_lets_an_earlier_version_stand_again(play: Play) -> None:
    play("A")
    play("B")

    made = play.governance.rollback("predict@1", author=ADA, reason="worse since Monday")

    assert (made.version, made.action, made.reason) == (1, "rollback", "worse since Monday")
    assert play("C") == "- A"


def test_a_rollback_to_a_version_that_does_not_exist_names_those_that_do(play: Play) -> None:
    play("A")

    with pytest.raises(ValueError, match=r"predict.*9.*1"):
        play.governance.rollback("predict@9", author=ADA)
    with pytest.raises(ValueError, match=r"There is no route 'predit'. Did you mean 'predict'"):
        play.governance.rollback("predit@1", author=ADA)
    with pytest.raises(ValueError, match="Expected ROUTE@VERSION"):
        play.governance.rollback("predict@one", author=ADA)


def test_a_freeze_holds_what_is_current_and_saves_the_writing(play: Play) -> None:
    play("A")
    play("B")
    assert not play.applier.holds(["predict"])

    play.governance.freeze(author=ADA)

    assert play.applier.holds(["predict"])
    assert play("C") == "- B"
    play.governance.thaw(author=ADA)
    assert not play.applier.holds(["predict"])


def test_a_freeze_holds_what_was_used_last_not_the_highest_number(play: Play) -> None:
    play("A")
    play.governance.pin("predict", "P", author=ADA)
    assert play("A") == "- P\n- A"
    play.governance.unpin("predict", "P", author=ADA)
    assert play("A") == "- A"

    play.governance.freeze(author=ADA)

    assert play("B") == "- A"
    assert play.governance.current("predict").text == "- A"


@pytest.mark.parametrize("author", [ADA, "ada"])
def test_an_unpinned_rule_is_out_of_force_before_the_next_call(play: Play, author: str) -> None:
    play("A")
    play.governance.pin("predict", "P", author=author)
    play.governance.unpin("predict", "P", author=author)

    play.governance.require_approval(author=author)

    assert play("B") == "- A"


def test_a_learned_rule_is_the_optimizers_again_without_its_pin(play: Play) -> None:
    play("A", "B")
    play.governance.pin("predict", "B", author=ADA)
    play.governance.unpin("predict", "B", author=ADA)

    play.governance.freeze(author=ADA)
    assert sorted(play("C").split("\n")) == ["- A", "- B"]


def test_unpinning_the_only_rule_leaves_no_policy(play: Play) -> None:
    play.governance.pin("predict", "P", author=ADA)
    play.governance.unpin("predict", "P", author=ADA)
    play.governance.freeze(author=ADA)

    assert play("A") == ""


def test_every_decision_is_logged_with_author_and_reason(play: Play) -> None:
    play("A")
    play.governance.pin("predict", "P", author=ADA, reason="one")
    play.governance.freeze(author="person:bob", reason="two")

    logged = [(d.number, d.action, d.author, d.reason) for d in play.governance.log()]
    assert logged == [(1, "pin", ADA, "one"), (2, "freeze", "person:bob", "two")]
    with pytest.raises(ValueError, match="needs its author"):
        play.governance.thaw(author=" ")
    assert len(play.governance.log()) == 2


def test_learned_versions_wait_where_approval_is_required(play: Play) -> None:
    play.governance.require_approval(author=ADA)

    assert play("A") == ""
    assert play("B") == ""

    (status,) = play.governance.status()
    assert [policy.text for policy in status.candidates] == ["- A", "- B"]
    assert status.last is None
    assert all(policy.message.startswith("candidate") for policy in status.candidates)
    first = status.candidates[0]
    play.governance.approve(f"predict@{first.version}", author=ADA, reason="good")
    assert play("C") == "- A"


def test_a_policy_in_force_stays_when_approval_becomes_required(play: Play) -> None:
    play("A")
    play.governance.require_approval(author=ADA)

    assert play("B") == "- A"
    play.governance.require_approval(False, author=ADA)
    play.governance.thaw(author=ADA)
    assert play("B") == "- B"


def test_an_outdated_candidate_is_refused_and_what_changed_is_shown(play: Play) -> None:
    play.governance.require_approval(author=ADA)
    play("A")
    play("B")
    first, second = play.governance.status()[0].candidates
    play.governance.approve(f"predict@{first.version}", author=ADA)

    with pytest.raises(OutdatedCandidate, match=r"no policy stood.*\n  \+ A\n"):
        play.governance.approve(f"predict@{second.version}", author="person:bob")

    assert play("C") == "- A"


def test_a_version_that_is_no_candidate_cannot_be_approved(play: Play) -> None:
    play("A")
    play.governance.require_approval(author=ADA)
    play("B")
    (candidate,) = play.governance.status()[0].candidates

    with pytest.raises(ValueError, match=rf"does not wait.*predict@{candidate.version}"):
        play.governance.approve("predict@1", author=ADA)
    play.governance.reject(f"predict@{candidate.version}", author=ADA)
    with pytest.raises(ValueError, match="these do: none"):
        play.governance.approve(f"predict@{candidate.version}", author=ADA)


def test_decisions_reach_another_process_and_survive_a_copy(
    play: Play, memory: SQLiteMemory, tmp_path: Path
) -> None:
    play("A")
    with closing(SQLiteMemory(memory.path)) as other:
        Governance(other).pin("predict", "P", author=ADA)

    assert play("B") == "- P\n- B"
    memory.copy_to(tmp_path / "copy.sqlite")
    with closing(SQLiteMemory(tmp_path / "copy.sqlite")) as copy:
        assert [d.action for d in Governance(copy).log()] == ["pin"]


def test_a_rule_leads_to_its_cases_its_calls_and_their_scores(play: Play) -> None:
    play(score=0.0)
    play(score=1.0)
    play("A", score=1.0, sources=("r1", "r2"))
    play("A", "B", score=1.0, sources=("r1",))
    play("B", score=0.0)

    found = play.governance.why("predict", "A")

    assert [(s.step, s.verdict, s.text) for s in found.sources] == [
        (1, "wrong", "said 1"),
        (2, "correct", "said 2"),
    ]
    assert found.active.steps == (3, 4)
    assert found.active.score == 1.0
    assert (found.before.steps, found.before.score) == ((1, 2), 0.5)
    assert found.without.steps == (1, 2, 5)
    assert [policy.version for policy in found.versions] == [1, 2]


def test_a_case_leads_back_to_the_rules_that_came_of_it(play: Play) -> None:
    play(score=0.0)
    play("A", sources=("r1",))

    assert [(p.route, r.text) for p, r in case_of(play.memory, "r1").led_to] == [("predict", "A")]
    assert [policy.text for policy in case_of(play.memory, "r2").active] == ["- A"]


def test_a_rule_of_a_person_has_no_cases_and_an_unknown_one_is_refused(play: Play) -> None:
    play("Alpha rule", "Alpha two")
    play.governance.pin("predict", "Beta rule", author=ADA)

    found = play.governance.why("predict", "Beta")
    assert found.sources == ()
    assert found.active.steps == ()
    assert math.isnan(found.active.score)
    with pytest.raises(ValueError, match="Several rules begin with 'Alpha'"):
        play.governance.why("predict", "Alpha")
    with pytest.raises(ValueError, match="No rule begins with 'Gamma'"):
        play.governance.why("predict", "Gamma")


def test_two_people_who_approve_at_once_do_not_both_succeed(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.governance.require_approval(author=ADA)
    play("A")
    play("B")
    first, second = play.governance.status()[0].candidates
    checked = play.governance._waiting

    def slow(policy: Policy) -> Any:
        found = checked(policy)
        Governance(play.memory).approve(f"predict@{first.version}", author="person:bob")
        return found

    monkeypatch.setattr(play.governance, "_waiting", slow)
    with pytest.raises(OutdatedCandidate, match="Somebody else decided"):
        play.governance.approve(f"predict@{second.version}", author=ADA)
    assert play("C") == "- A"


LONG = "a" * (LONGEST_RULE + 1)


@pytest.mark.parametrize("text", [LONG, "Use \x1b[1mbold.", "Say \x00.", "Half \ud800.", " "])
def test_a_rule_that_no_list_can_hold_is_refused_and_changes_nothing(play: Play, text: str) -> None:
    with pytest.raises(ValueError, match="rule must"):
        play.governance.pin("predict", text, author=ADA)
    if text.strip():
        with pytest.raises(ValueError, match="Rule 2 must"):
            play.governance.edit("predict", f"- Quote names.\n- {text}", author=ADA)
        with pytest.raises(ValueError, match="must"):
            play.governance.edit("predict", ["Quote names.", text], author=ADA)

    assert play.governance.log() == []
    assert play("A") == "- A"


def test_the_message_of_a_long_rule_names_the_limit_and_the_length(play: Play) -> None:
    with pytest.raises(ValueError, match=r"1 to 2000 characters, got 2001: 'aaa.*Say it shorter"):
        play.governance.pin("predict", LONG, author=ADA)


def test_the_longest_rule_is_taken(play: Play) -> None:
    play.governance.pin("predict", LONG[1:], author=ADA)

    assert play() == f"- {LONG[1:]}"


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\t", "\x0b", "\x85", "\u2028", "  "])
def test_a_pinned_rule_is_one_line_of_the_list(play: Play, breaks: str) -> None:
    play.governance.pin("predict", f"- Never answer{breaks}from memory. ", author=ADA)

    assert play("A") == "- Never answer from memory.\n- A"


def test_several_rules_are_pinned_one_by_one(play: Play) -> None:
    with pytest.raises(ValueError, match=r"got a list of 2\. Pin each"):
        play.governance.pin("predict", "1. Quote names.\n2. No CROSS JOIN.", author=ADA)


def test_a_rule_that_was_learned_may_be_kept_whatever_its_length(play: Play) -> None:
    play(LONG)
    play.governance.edit("predict", f"- {LONG}\n- Quote  names.", author=ADA)
    play.governance.edit("predict", f"- {LONG}\n- Quote names.", author=ADA)

    assert play() == f"- {LONG}\n- Quote names."
    current = play.governance.current("predict")
    assert current is not None
    assert current.version == 2


@pytest.mark.parametrize("author", ["", "  ", "ada\nlog", None])
def test_without_an_author_nothing_is_written(play: Play, author: Any) -> None:
    play("A")
    for act in (play.governance.edit, play.governance.pin):
        with pytest.raises(ValueError, match="needs its author"):
            act("predict", "NOT THIS", author=author)
    play.governance.freeze(author=ADA)

    assert play("B") == "- A"
    assert [policy.text for policy in play.memory.policies("predict")] == ["- A"]


def test_a_freeze_before_any_call_is_refused_where_no_route_is_known(memory: SQLiteMemory) -> None:
    with pytest.raises(ValueError, match="no call of the program is on record yet"):
        Governance(memory).freeze(author=ADA)


def test_a_candidate_that_is_learned_again_may_be_approved_again(play: Play) -> None:
    play.governance.require_approval(author=ADA)
    play("A")
    play("B")
    first, second = play.governance.status()[0].candidates
    play.governance.approve(f"predict@{first.version}", author=ADA)
    play("B")  # now under A

    play.governance.approve(f"predict@{second.version}", author=ADA)
    assert play("C") == "- B"


def test_a_candidate_that_was_rejected_waits_again_once_something_else_stands(play: Play) -> None:
    play.governance.require_approval(author=ADA)
    play("A")
    (candidate,) = play.governance.status()[0].candidates
    play.governance.reject(f"predict@{candidate.version}", author=ADA)
    play("A")
    play.applier = Applier(play.memory)  # as after a restart
    play("A")
    assert play.governance.status()[0].candidates == ()

    play.governance.edit("predict", "- X", author=ADA)
    play("A")
    assert [one.text for one in play.governance.status()[0].candidates] == ["- A"]


@pytest.mark.parametrize("how", ["rollback", "edit"])
def test_a_candidate_that_a_person_lets_stand_waits_no_more(play: Play, how: str) -> None:
    play.governance.require_approval(author=ADA)
    play("A")
    (candidate,) = play.governance.status()[0].candidates
    if how == "rollback":
        play.governance.rollback(f"predict@{candidate.version}", author=ADA)
    else:
        play.governance.edit("predict", candidate.text, author=ADA)

    assert play("B") == "- A"
    assert [one.text for one in play.governance.status()[0].candidates] == ["- B"]
