"""Who changed which constraint: versions, other processes, contradictions."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import (
    ConstraintAdapter,
)
from drpg_dspy.exceptions import ConstraintConflict, StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.testing import ScriptedLM
from tests.optimizers.constrained import UNDER_5, UNDER_200, play, policy, qa


def test_every_change_is_a_policy_version_with_its_author(learner: Any) -> None:
    rules = ConstraintAdapter(repair=0)
    online = learner(rules, qa())
    added = rules.add("Length", UNDER_200, author="anna")
    rules.edit("Length", UNDER_5, author="ben")
    rules.delete("Length", author="person:carla")

    versions = [
        (p.version, p.parent, p.author, p.text, p.message) for p in online.memory.policies("self")
    ]
    assert versions == [
        (1, 0, "person:anna", f"- {UNDER_200}", f"add Length '{UNDER_200}'"),
        (2, 1, "person:ben", f"- {UNDER_5}", f"edit Length '{UNDER_5}'"),
        (3, 2, "person:carla", "", f"delete Length '{UNDER_5}'"),
    ]
    assert added.versions == {"self": 1}
    history = rules.history()
    assert [(c.number, c.operation, c.author) for c in history] == [
        (1, "add", "person:anna"),
        (2, "edit", "person:ben"),
        (3, "delete", "person:carla"),
    ]
    assert history[1].before is not None
    assert history[1].before.text == UNDER_200


def test_the_version_served_is_the_one_that_the_change_made(learner: Any) -> None:
    rules = ConstraintAdapter(repair=0)
    online = learner(rules, qa())
    rules.add("Length", UNDER_200, author="anna")
    with dspy.context(lm=play("fine")):
        rollout = online.predict_one({"question": "How far?"})

    assert rollout.guidance.policies["self"].version == 1
    assert rollout.guidance.policies["self"].rules[0].author == "person:anna"
    assert rollout.guidance.policies["self"].rules[0].pinned
    assert len(online.memory.policies()) == 1


def change_elsewhere(path: str) -> None:
    rules = ConstraintAdapter.open(path)
    rules.edit("Length", UNDER_5, author="ben")
    rules.add("Tone", "Be kind.", author="ben")


def add_many(path: str, first: int) -> None:
    rules = ConstraintAdapter.open(path)
    for n in range(first, first + 5):
        rules.add("Tone", f"Be kind to number {n}.", routes=[f"route {n}"], author=f"p{first}")


def test_changes_of_a_second_process_hold_from_the_next_call(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200})
    online = learner(rules, qa())
    before = policy(online)
    other = multiprocessing.get_context("spawn").Process(
        target=change_elsewhere, args=(str(online.memory.path),)
    )
    other.start()
    other.join()

    assert (before, policy(online)) == (f"- {UNDER_200}", f"- {UNDER_5}\n- Be kind.")
    assert [change.author for change in rules.history()] == ["person", "person:ben", "person:ben"]


def test_changes_of_several_processes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    SQLiteMemory(path).close()
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=add_many, args=(str(path), n)) for n in (0, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    rules = ConstraintAdapter.open(path)
    assert len(rules.in_force()) == 10
    assert [change.number for change in rules.history()] == list(range(1, 11))


def test_what_people_changed_in_the_memory_outlives_the_code_that_began_it(
    learner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = ConstraintAdapter({"Length": UNDER_200})
    learner(first, qa())
    first.delete("Length")
    first.add("Tone", "Be kind.")

    again = learner(ConstraintAdapter({"Length": UNDER_200}), qa())

    assert policy(again) == "- Be kind."
    assert "are not used" in caplog.text


def test_an_adapter_that_serves_a_memory_is_refused_by_another(learner: Any) -> None:
    rules = ConstraintAdapter()
    learner(rules, qa(), name="one")

    with pytest.raises(ValueError, match=r"serves the memory .*one\.sqlite already"):
        learner(rules, qa(), name="two")


def test_a_damaged_registry_is_named(learner: Any) -> None:
    online = learner(ConstraintAdapter({"Length": UNDER_200}), qa())
    online.memory.amend("constraints", lambda stood: ({"constraints": "{"}, ()))

    with pytest.raises(StorageError, match="constraints kept in this memory are damaged"):
        online.propose({"question": "How far?"})


def test_the_newest_wins_and_what_it_contradicted_is_reported() -> None:
    rules = ConstraintAdapter({"No_Commas": "Use no commas.", "Length": UNDER_200})

    change = rules.add("Start_With", "Start the answer with 'Dear Anna, dear Ben'.")

    assert [conflict.constraint.type for conflict in change.conflicts] == ["No_Commas"]
    assert change.conflicts[0].by == "rule"
    assert "overrides No_Commas" in change.message
    assert [one.type for one in rules.in_force()] == ["Length", "Start_With"]
    (loser, winners), *more = rules.overridden().items()
    assert (loser.type, [one.type for one in winners], more) == ("No_Commas", ["Start_With"], [])


def dear(rules: ConstraintAdapter, **options: Any) -> None:
    rules.add("Start_With", "Start the answer with 'Dear Anna, dear Ben'.", **options)


def kinds(rules: ConstraintAdapter) -> list[str]:
    return [one.type for one in rules.in_force()]


def test_what_was_overridden_comes_back_when_the_contradiction_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deleted, edited, expired = (ConstraintAdapter({"No_Commas": "Use no commas."}) for _ in "abc")
    dear(deleted)
    deleted.delete("Start_With")
    dear(edited)
    edited.edit("Start_With", "Start the answer with 'Dear Anna'.")
    dear(expired, expires="1h")
    before = kinds(expired)
    later = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: later)

    assert kinds(deleted) == kinds(expired) == ["No_Commas"]
    assert before == ["Start_With"]
    assert kinds(edited) == ["Start_With", "No_Commas"]


def test_what_was_overridden_can_be_edited_and_then_it_is_the_newest() -> None:
    rules = ConstraintAdapter({"No_Commas": "Use no commas."})
    dear(rules)

    change = rules.edit("No_Commas", "Do not use any commas.")

    assert [conflict.constraint.type for conflict in change.conflicts] == ["Start_With"]
    assert kinds(rules) == ["No_Commas"]
    rules.delete("No_Commas")
    assert kinds(rules) == ["Start_With"]


def test_one_that_is_overridden_overrides_nothing() -> None:
    rules = ConstraintAdapter({"No_Commas": "Use no commas."})
    dear(rules)
    rules.add("Format", "Answer in JSON.")  # which does not begin so

    assert kinds(rules) == ["Format", "No_Commas"]


def test_a_type_that_is_overridden_is_not_added_a_second_time() -> None:
    rules = ConstraintAdapter({"No_Commas": "Use no commas."})
    dear(rules)

    with pytest.raises(ValueError, match="No_Commas was added already"):
        rules.add("No_Commas", "Use no commas at all.")


def test_a_contradiction_is_refused_where_the_newest_does_not_win() -> None:
    rules = ConstraintAdapter({"All_Upper": "Use all capital letters."}, on_conflict="refuse")

    with pytest.raises(ConstraintConflict, match="upper case and lower case") as refused:
        rules.add("All_Lower", "Use lowercase only.")

    assert [one.type for one in rules.in_force()] == ["All_Upper"]
    assert refused.value.conflicts[0].constraint.type == "All_Upper"
    assert rules.history()[-1].number == 1


def test_where_the_new_one_does_not_hold_the_contradicted_one_stays(
    learner: Any, two_routes: dspy.Module
) -> None:
    rules = ConstraintAdapter({"All_Upper": "Use all capital letters."})
    online = learner(rules, two_routes)

    rules.add("All_Lower", "Use lowercase only.", routes=["query"])

    assert policy(online, "query") == "- Use lowercase only."
    assert policy(online, "reply") == "- Use all capital letters."


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Length", "Write at least 100 words. Keep it under 50 words."),
        ("Keyword", "Mention 'tea'. Do not use the word 'tea'."),
        ("Format", "Answer as a list. Do not use a list."),
    ],
)
def test_a_constraint_that_contradicts_itself_is_refused(kind: str, text: str) -> None:
    rules = ConstraintAdapter({"Tone": "Be kind."})
    with pytest.raises(ValueError, match="contradicts itself: "):
        rules.add(kind, text)
    with pytest.raises(ValueError, match="contradicts itself"):
        ConstraintAdapter({kind: text})

    assert [one.type for one in rules.in_force()] == ["Tone"]


def test_a_name_that_is_neither_type_nor_id_is_answered_with_those_there_are() -> None:
    rules = ConstraintAdapter({"Tone": "Be kind."})
    (one,) = rules.in_force()

    with pytest.raises(ValueError, match=f"Nor has any constraint that id; there are: {one.id}"):
        rules.delete("c-nope")


def test_where_no_rule_can_tell_the_lm_is_asked_once_for_a_change(learner: Any) -> None:
    lm = play("x", "x", judge='{"contradicted": [1], "reason": "Formal is not casual."}')
    rules = ConstraintAdapter({"Tone": "Be formal.", "Length": UNDER_200}, policy_lm=lm)
    lm.prompts.clear()

    change = rules.add("Style", "Write like a teenager.")

    assert [c.constraint.type for c in change.conflicts] == ["Length"]  # number 1 as it is shown
    assert change.conflicts[0].by == "lm"
    assert change.conflicts[0].reason == "Formal is not casual."
    assert change.undecided == ()
    assert len(lm.prompts) == 1


@pytest.mark.parametrize("reply", ["", "I like both.", '{"contradicted": "none"}', '{"x": 1}'])
def test_nonsense_from_the_lm_contradicts_nothing(reply: str) -> None:
    lm = play("x", "x", judge=reply)
    rules = ConstraintAdapter({"Tone": "Be formal."}, policy_lm=lm)

    change = rules.add("Style", "Write like a teenager.")

    assert change.conflicts == ()
    assert bool(change.undecided) == ("contradicted" not in reply)


def test_a_dead_lm_does_not_keep_a_constraint_out(caplog: pytest.LogCaptureFixture) -> None:
    def dead(messages: Any) -> str:
        raise ConnectionError("no route to host")

    rules = ConstraintAdapter({"Tone": "Be formal."}, policy_lm=ScriptedLM(dead))

    change = rules.add("Style", "Write like a teenager.")

    assert [one.type for one in rules.in_force()] == ["Tone", "Style"]
    assert len(change.undecided) == 1
    assert "by rule alone" in caplog.text


def test_without_an_lm_the_change_says_what_nobody_compared() -> None:
    rules = ConstraintAdapter({"Tone": "Be formal."})

    change = rules.add("Style", "Write like a teenager.")

    assert change.undecided == (rules.in_force()[0].id,)
