from __future__ import annotations

import datetime as dt
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMUnexpectedError

from drpg_dspy import (
    ACE,
    DRPG,
    Combined,
    ConstraintAdapter,
    Holdout,
    OnlinePolicyOptimizer,
    SelfStreamICL,
    ZeroShot,
)
from drpg_dspy.constraints import Constraint
from drpg_dspy.exceptions import ConstraintConflict, PolicyTooLong, StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers.standing import registry as registry_module
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import REVISION, Feedback

LEARNED = "Name the town in every answer."
UNDER_200 = "Keep the answer under 200 words."
UNDER_5 = "Keep the answer under 5 words."


def qa() -> dspy.Module:
    return dspy.Predict("question -> answer")


def play(draft: str, *repairs: str, rule: str = LEARNED, judge: str = "") -> ScriptedLM:
    """A model that answers with a draft, repairs it in turn, writes one rule, and compares."""
    left = list(repairs)

    def reply(messages: list[dict[str, str]]) -> str:
        system = messages[0]["content"]
        if "first answer was" in system:
            return fields(answer=left.pop(0) if len(left) > 1 else left[0])
        if "coach" in system:
            return f'{{"rules": ["{rule}"]}}'
        if "contradict" in system or "cannot be followed" in system:
            return judge
        return fields(answer=draft)

    return ScriptedLM(reply)


def policy(online: OnlinePolicyOptimizer, route: str = "self") -> str:
    given = online.propose({"question": "How far?"}).policies.get(route)
    return "" if given is None else given.text


# -- what is given -----------------------------------------------------------------------------


def test_a_constraint_holds_from_the_next_call_and_a_deleted_one_is_gone(learner: Any) -> None:
    rules = ConstraintAdapter(repair=0)
    online = learner(rules, qa())
    lm = play("fine")
    with dspy.context(lm=lm):
        online(question="How far?")
        rules.add("Length", UNDER_200)
        online(question="How far?")
        rules.edit("length", UNDER_5)
        online(question="How far?")
        rules.delete("Length")
        online(question="How far?")

    plain, added, edited, deleted = lm.texts()
    assert f"- {UNDER_200}" in added
    assert f"- {UNDER_5}" in edited
    assert UNDER_200 not in edited
    assert deleted == plain


def test_constraints_are_shown_in_one_order_and_in_their_own_words(learner: Any) -> None:
    given = {"Tone": "Be kind.", "Length": UNDER_200, "No_Commas": "Use no\n  commas."}
    texts = []
    for name, order in {"a": list(given), "b": [*given][::-1]}.items():
        rules = ConstraintAdapter()
        online = learner(rules, qa(), name=name)
        for kind in order:
            rules.add(kind, given[kind])
        texts.append(policy(online))

    assert texts[0] == texts[1] == f"- {UNDER_200}\n- Use no commas.\n- Be kind."


def test_the_prompt_is_that_of_the_plain_program_with_the_constraints_in_it(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200}, repair=0)
    lm = play("fine")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert len(lm.prompts) == 1 == rollout.usage.calls
    assert rollout.guidance.usage.calls == 0


def test_a_constraint_of_one_route_is_not_shown_to_another(
    learner: Any, two_routes: dspy.Module
) -> None:
    rules = ConstraintAdapter(repair=0)
    online = learner(rules, two_routes)
    rules.add("Length", UNDER_5, routes=["query"])
    rules.add("Length", UNDER_200, routes=["reply"])
    rules.add("Tone", "Be kind.")

    assert policy(online, "query") == f"- {UNDER_5}\n- Be kind."
    assert policy(online, "reply") == f"- {UNDER_200}\n- Be kind."
    with pytest.raises(ValueError, match="Several constraints of type Length"):
        rules.delete("Length")
    rules.edit("Length", "Keep it under 9 words.", routes=["query"])
    rules.delete(rules.in_force("reply")[0].id)
    assert policy(online, "query") == "- Keep it under 9 words.\n- Be kind."
    assert policy(online, "reply") == "- Be kind."


def test_a_constraint_expires_by_itself(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ConstraintAdapter()
    online = learner(rules, qa())
    rules.add("Length", UNDER_200, expires=dt.timedelta(hours=2))
    rules.add("Tone", "Be kind.", expires="3d")
    later = time.time() + 3 * 3600

    before = policy(online)
    monkeypatch.setattr(time, "time", lambda: later)

    assert before == f"- {UNDER_200}\n- Be kind."
    assert policy(online) == "- Be kind."
    assert [one.type for one in rules.in_force()] == ["Tone"]
    with pytest.raises(ValueError, match="No constraint of type Length"):
        rules.edit("Length", UNDER_5)
    assert rules.add("Length", UNDER_5).number == 3


def test_a_change_costs_no_call_and_an_unchanged_registry_is_rendered_once(
    learner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200})
    online = learner(rules, qa())
    first = online.propose({"question": "a"}).policies["self"]
    monkeypatch.setattr(registry_module.Registry, "policies", None)  # not called again

    assert online.propose({"question": "b"}).policies["self"] is first


# -- who changed what ----------------------------------------------------------------------------


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


# -- other processes -------------------------------------------------------------------------------


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


# -- contradictions --------------------------------------------------------------------------------


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


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rules: rules.add("Lenght", "x"), "There is no constraint type 'Lenght'"),
        (lambda rules: rules.add("Tone", "  \n "), "needs a text"),
        (lambda rules: rules.add("Tone", None), "needs a text"),
        (lambda rules: rules.add("Tone", "x" * 10_000), "at most 2000 characters"),
        (lambda rules: rules.add("Length", UNDER_5), "Length was added already"),
        (lambda rules: rules.edit("Tone", "Be kind."), "No constraint of type Tone is in force"),
        (lambda rules: rules.delete("c-nothing"), "There is no constraint type 'c-nothing'"),
        (lambda rules: rules.edit("Length", ""), "needs a text"),
        (lambda rules: rules.add("Tone", "Be kind.", routes=["nowhere"]), "no route 'nowhere'"),
        (lambda rules: rules.add("Tone", "Be kind.", expires="2001-01-01"), "in the past"),
        (lambda rules: rules.add("Tone", "Be kind.", expires="soon"), "'soon'"),
        (lambda rules: rules.add("Tone", "Be kind.", author=""), "author must be a name"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(
    learner: Any, call: Callable[[ConstraintAdapter], Any], said: str
) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200})
    online = learner(rules, qa())

    with pytest.raises(ValueError, match=said):
        call(rules)

    assert policy(online) == f"- {UNDER_200}"
    assert len(rules.history()) == 1


def test_the_size_is_bounded_on_every_way_in() -> None:
    rules = ConstraintAdapter({"Length": UNDER_200}, max_chars=60)

    with pytest.raises(PolicyTooLong, match="max_chars is 60"):
        rules.add("Tone", "Be kind to everybody who asks.")
    with pytest.raises(PolicyTooLong, match="max_chars is 60"):
        rules.edit("Length", f"{UNDER_200} This holds for every answer there is.")
    with pytest.raises(PolicyTooLong, match="max_chars is 60"):
        ConstraintAdapter({"Length": UNDER_200, "Tone": UNDER_200}, max_chars=60)

    assert [one.text for one in rules.in_force()] == [UNDER_200]


def test_a_constraint_in_another_language_is_shown_and_never_checked(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": "Höchstens drei Wörter."})
    lm = play("four words and more", "x")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert "- Höchstens drei Wörter." in lm.texts()[0]
    assert rollout.outputs == {"answer": "four words and more"}
    assert rollout.guidance.counts == {}


@pytest.mark.parametrize(
    "options",
    [
        {"repair": -1},
        {"repair": True},
        {"repair_share": 0},
        {"repair_share": 1.5},
        {"mend": 1},
        {"on_conflict": "oldest"},
        {"policy_lm": "openai/gpt"},
        {"max_chars": 10},
        {"field": None},
        {"constraints": "Length"},
        {"constraints": ["Length"]},
        {"constraints": {"Lenght": "x"}},
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options)).replace("_", ".")[:6]):
        ConstraintAdapter(**options)


# -- answers ---------------------------------------------------------------------------------------


def test_a_violation_is_named_to_the_model_and_the_repaired_answer_is_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_5, "Tone": "Be kind."})
    lm = play("one two three four five six", "one two three four")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    repair = lm.prompts[1][-1]["content"]
    assert rollout.outputs == {"answer": "one two three four"}
    assert f"[[ ## requirements ## ]]\n- {UNDER_5}\n- Be kind." in repair
    assert (
        "- Write about 3 words, one short sentence: it had 6 words, at most 4 are allowed."
    ) in repair
    assert "one two three four five six" not in repair
    assert "question: How far?" in repair
    assert rollout.usage.calls == 2 == 1 + rules.max_lm_calls
    assert rollout.guidance.counts == {
        "constraints_checked": 1,
        "constraint_violations": 1,
        "constraint_repairs": 1,
    }
    assert rollout.trace[-1].route == REVISION


def test_repair_0_looks_at_no_answer(learner: Any) -> None:
    lm = play("one two three four five six", "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}, repair=0), qa()).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"answer": "one two three four five six"}
    assert rollout.guidance.counts == {}
    assert len(lm.prompts) == 1


def test_an_answer_that_is_right_costs_nothing(learner: Any) -> None:
    lm = play("one two", "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert len(lm.prompts) == 1
    assert rollout.guidance.counts == {"constraints_checked": 1}
    assert len(rollout.trace) == 1


@pytest.mark.parametrize(
    ("worse", "why"),
    [
        ("one two three four five six seven", "as long as before"),
        ("alpha, beta", "breaks what held"),
        ("", "empty"),
        ("I'm sorry, but I can't help.", "a refusal"),
    ],
)
def test_an_answer_that_gets_worse_is_not_given(learner: Any, worse: str, why: str) -> None:
    rules = ConstraintAdapter({"Length": UNDER_5, "No_Commas": "Use no commas."}, mend=False)
    with dspy.context(lm=play("one two three four five six", worse)):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "one two three four five six"}, why
    assert rollout.guidance.counts["constraint_repairs_rejected"] == 1
    assert rollout.guidance.counts["constraint_violations_left"] == 1


def test_a_repair_that_throws_most_of_the_answer_away_is_not_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Keyword": "Mention 'budget' once or more."})
    draft = " ".join(["word"] * 40)
    with dspy.context(lm=play(draft, "the budget")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": draft}


def test_a_repair_that_recites_the_requirement_is_not_given(learner: Any) -> None:
    rules = ConstraintAdapter({"Keyword": "Mention the word 'sea' at least twice."})
    recital = "It is far, and I should mention the word 'sea' at least twice: sea."
    with dspy.context(lm=play("It is far.", recital)):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far."}
    assert rollout.guidance.counts["constraint_repairs_rejected"] == 1


def test_a_quote_that_is_asked_for_is_no_recital(learner: Any) -> None:
    rules = ConstraintAdapter(
        {
            "Keyword": "Mention 'sea' at least once.",
            "Start_With": "Start the answer with 'To whom it may concern'.",
        }
    )
    with dspy.context(lm=play("It is far.", "To whom it may concern: the sea is far.")):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "To whom it may concern: the sea is far."}


def test_repairs_stop_at_their_bound_and_keep_the_best(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"Length": UNDER_5, "Keyword": "Mention 'sea' at least once."}, repair=2
    )
    lm = play("a b c d e f", "a b c sea e f", "sea a b c")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "sea a b c"}
    assert rollout.guidance.counts["constraint_repairs"] == 2
    assert len(lm.prompts) == 3


def test_what_takes_no_writer_is_put_right_without_a_call(learner: Any) -> None:
    rules = ConstraintAdapter(
        {
            "Start_With": "Start the answer with 'In short'.",
            "End_With": "End with a question mark.",
            "No_Commas": "Use no commas.",
            "All_Lower": "Write in lowercase.",
        }
    )
    lm = play("It is far, I think.", "x")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "in short – it is far – i think?"}
    assert rollout.guidance.counts["constraint_mends"] == 4
    assert len(lm.prompts) == 1


def test_mending_is_not_done_where_it_is_turned_off(learner: Any) -> None:
    rules = ConstraintAdapter({"All_Lower": "Write in lowercase."}, mend=False)
    lm = play("It Is Far", "it is far away")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "it is far away"}
    assert len(lm.prompts) == 2


def test_a_mend_that_would_break_another_constraint_is_not_made(learner: Any) -> None:
    rules = ConstraintAdapter(
        {"Length": "Answer in exactly 3 words.", "Start_With": "Start the answer with 'Now'."}
    )
    lm = play("It is far", "it is far")
    with dspy.context(lm=lm):
        rollout = learner(rules, qa()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "It is far"}


def test_a_refusal_is_given_as_it_is_and_counted(learner: Any) -> None:
    refusal = "I'm sorry, but I can't help with that request."
    lm = play(refusal, "x")
    with dspy.context(lm=lm):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"answer": refusal}
    assert rollout.guidance.counts["answers_declined"] == 1
    assert len(lm.prompts) == 1


def test_an_empty_answer_is_asked_for_again_and_never_mended(learner: Any) -> None:
    rules = ConstraintAdapter({"Start_With": "Start the answer with 'Now'."})

    class Empty(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> dspy.Prediction:
            self.answer(question=question)
            return dspy.Prediction(answer="")

    with dspy.context(lm=play("x", "Now it is far.")):
        rollout = learner(rules, Empty()).predict_one({"question": "How far?"})

    assert rollout.outputs == {"answer": "Now it is far."}
    assert "constraint_mends" not in rollout.guidance.counts


def test_a_share_bounds_how_many_answers_are_repaired(learner: Any) -> None:
    def repaired(name: str) -> list[bool]:
        rules = ConstraintAdapter({"Length": UNDER_5}, repair_share=0.3)
        online = learner(rules, qa(), name=name)
        with dspy.context(lm=play("one two three four five six", "one two three four")):
            rollouts = [online.predict_one({"question": f"How far is {i}?"}) for i in range(60)]
        return [r.outputs["answer"] == "one two three four" for r in rollouts]

    drawn = repaired("a")
    assert 8 < sum(drawn) < 30
    assert drawn == repaired("b")


def test_the_last_text_of_the_last_predictor_is_the_answer(learner: Any) -> None:
    rules = ConstraintAdapter({"All_Lower": "Write in lowercase."})
    lm = ScriptedLM(lambda messages: fields(reasoning="I Think So", answer="It Is Far"))
    with dspy.context(lm=lm):
        rollout = learner(rules, dspy.ChainOfThought("question -> answer")).predict_one(
            {"question": "How far?"}
        )

    assert rollout.outputs == {"reasoning": "I Think So", "answer": "it is far"}


def test_a_field_can_be_named_and_must_be_there(learner: Any) -> None:
    lm = ScriptedLM(lambda messages: fields(title="It Is", answer="It Is Far"))
    program = dspy.Predict("question -> title, answer")
    named = ConstraintAdapter({"All_Lower": "Write in lowercase."}, field="title")
    missing = ConstraintAdapter({"All_Lower": "Write in lowercase."}, field="body")
    with dspy.context(lm=lm):
        rollout = learner(named, program, name="a").predict_one({"question": "q"})
        failed = learner(missing, program.deepcopy(), name="b").predict_one({"question": "q"})

    assert rollout.outputs == {"title": "it is", "answer": "It Is Far"}
    assert "field='body'" in failed.error


def test_a_program_that_returns_a_text_or_a_number_is_served(learner: Any) -> None:
    class Plain(dspy.Module):
        def __init__(self, value: Any) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")
            self.value = value

        def forward(self, question: str) -> Any:
            self.answer(question=question)
            return self.value

    rules = {"All_Lower": "Write in lowercase."}
    with dspy.context(lm=play("x", "x")):
        text = learner(ConstraintAdapter(rules), Plain("It Is"), name="a")(question="q")
        number = learner(ConstraintAdapter(rules), Plain(42), name="b")(question="q")

    assert (text, number) == ("it is", 42)


def test_a_dead_model_leaves_the_draft_to_a_served_call(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "first answer was" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="one two three four five six")

    online = learner(ConstraintAdapter({"Length": UNDER_5}), qa())
    with dspy.context(lm=ScriptedLM(reply)):
        prediction = online(question="How far?")

    assert prediction.answer == "one two three four five six"
    assert online.memory.rollout(prediction.rollout_id).guidance.counts == {"revise_failed": 1}


# -- with a method that learns ---------------------------------------------------------------------


def taught(online: OnlinePolicyOptimizer, *answers: float) -> list[str]:
    ids = []
    for i, score in enumerate(answers):
        rollout = online.predict_one({"question": f"How far is {i}?"})
        assert not rollout.failed, rollout.error
        online.learn_one(rollout, Feedback(score))
        ids.append(rollout.id)
    return ids


def test_constraints_stand_before_what_was_learned(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200}, repair=0)
    online = learner(Combined(rules, DRPG(k=2)), qa())
    with dspy.context(lm=play("fine")):
        taught(online, 0.0)

        assert policy(online) == f"- {UNDER_200}\n- {LEARNED}"


@pytest.mark.parametrize(
    ("kind", "text", "learned"),
    [
        ("Length", UNDER_200, "Write at least 300 words."),
        ("No_Commas", "Do not use commas between items.", "Use commas between items."),
        ("All_Lower", "Write in lowercase only.", "Write the whole answer in uppercase."),
    ],
)
def test_a_learned_rule_that_contradicts_a_constraint_is_dropped_and_the_drop_recorded(
    learner: Any, kind: str, text: str, learned: str
) -> None:
    rules = ConstraintAdapter({kind: text}, repair=0)
    combined = Combined(rules, DRPG(k=2))
    online = learner(combined, qa())
    with dspy.context(lm=play("fine", rule=learned)):
        ids = taught(online, 0.0)
        rollout = online.predict_one({"question": "How far?"})

        proposed = online.propose({"question": "How far?"}).policies["self"]

    assert proposed.text == rollout.guidance.policies["self"].text == f"- {text}"
    assert f"dropped '{learned}', which contradicts {kind}" in proposed.message
    assert rollout.guidance.counts["learned_rules_dropped"] == 1
    (dropped,) = [what for what in rollout.guidance.retrieved if what.startswith("dropped ")]
    assert rollout.guidance.retrieved[dropped] == (ids[0],)
    found = combined.dropped(online.memory, dropped.removeprefix("dropped "))
    assert found is not None
    assert (found["rule"], found["constraint"]["type"]) == (learned, kind)


def test_a_learned_rule_that_repeats_a_constraint_is_not_said_twice(learner: Any) -> None:
    rules = ConstraintAdapter({"Tone": "Name the town in each answer."}, repair=0)
    online = learner(Combined(rules, DRPG(k=2)), qa())
    with dspy.context(lm=play("fine")):
        taught(online, 0.0)
        rollout = online.predict_one({"question": "How far?"})

    assert rollout.guidance.policies["self"].text == "- Name the town in each answer."
    assert rollout.guidance.counts["learned_rules_repeated"] == 1


def test_where_no_rule_can_tell_the_lm_compares_once_for_the_same_rules(learner: Any) -> None:
    judge = play(
        "x", judge='{"contradictions": [{"rule": 1, "requirement": 1, "reason": "Towns."}]}'
    )
    rules = ConstraintAdapter({"Safety": "Give no place away."}, repair=0, policy_lm=judge)
    online = learner(Combined(rules, DRPG(k=2, policy_lm=play("x"))), qa())
    with dspy.context(lm=play("fine")):
        taught(online, 0.0)
        rollouts = [online.predict_one({"question": "How far is 0?"}) for _ in range(2)]

    assert {r.guidance.policies["self"].text for r in rollouts} == {"- Give no place away."}
    assert len(judge.prompts) == 1
    assert rollouts[0].guidance.usage.calls >= 1


def test_examples_that_violate_a_constraint_are_not_shown(learner: Any) -> None:
    rules = ConstraintAdapter(repair=0)
    online = learner(Combined(rules, SelfStreamICL(k=4)), qa())
    answers = iter(["one, two", "one and two", "last"])
    lm = ScriptedLM(lambda messages: fields(answer=next(answers)))
    with dspy.context(lm=lm):
        taught(online, 1.0, 1.0)
        rules.add("No_Commas", "Use no commas.")
        rollout = online.predict_one({"question": "How far?"})

    assert [shot["answer"] for shot in rollout.guidance.shots["self"]] == ["one and two"]
    assert rollout.guidance.counts["examples_dropped"] == 1


def test_a_dead_policy_writer_does_not_take_the_constraints_away(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "coach" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="fine")

    online = learner(Combined(ConstraintAdapter({"Length": UNDER_200}), DRPG(k=2)), qa())
    lm = ScriptedLM(reply)
    with dspy.context(lm=lm):
        first = online(question="How far?")
        online.feedback(first.rollout_id, 0.0)
        second = online(question="How far is it?")

    rollout = online.memory.rollout(second.rollout_id)
    assert rollout.guidance.policies["self"].text == f"- {UNDER_200}"
    assert rollout.guidance.counts["propose_failed"] == 1


def test_a_holdout_withholds_what_was_learned_and_never_a_constraint(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200}, repair=0)
    online = learner(Holdout(Combined(rules, DRPG(k=2)), share=0.5), qa())
    with dspy.context(lm=play("fine")):
        taught(online, *[0.0, 1.0] * 6)
        texts = {online.propose({"question": f"{i}?"}).policies["self"].text for i in range(12)}

    assert texts == {f"- {UNDER_200}", f"- {UNDER_200}\n- {LEARNED}"}


def test_the_learning_method_keeps_its_state_and_learns_from_verdicts(learner: Any) -> None:
    def make() -> Combined:
        return Combined(ConstraintAdapter({"Length": UNDER_200}), ACE())

    def reply(messages: list[dict[str, str]]) -> str:
        system = messages[0]["content"]
        if "`helped`" in system:
            return '{"reason": "x", "lesson": "Name the town.", "helped": [], "misled": []}'
        if "`edits`" in system:
            return '{"edits": [{"op": "add", "text": "Name the town in it."}]}'
        return fields(answer="fine")

    with dspy.context(lm=ScriptedLM(reply)):
        taught(learner(make(), qa()), 0.0)

        assert policy(learner(make(), qa())) == f"- {UNDER_200}\n- Name the town in it."


def test_a_compiled_program_keeps_the_constraints_in_force(learner: Any) -> None:
    rules = ConstraintAdapter({"Length": UNDER_200}, repair=0)
    online = learner(Combined(rules, ZeroShot()), qa())
    rules.edit("Length", UNDER_5)
    online.metric = lambda example, prediction, trace=None: 1.0
    trainset = [dspy.Example(question="How far?", answer="x").with_inputs("question")]
    with dspy.context(lm=play("fine")):
        compiled = online.compile(qa(), trainset=trainset)

    assert f"- {UNDER_5}" in compiled.signature.instructions


@pytest.mark.parametrize("wrong", [DRPG(k=2), None])
def test_combined_wants_an_adapter_and_a_method(wrong: Any) -> None:
    with pytest.raises(ValueError, match="rules must be a ConstraintAdapter"):
        Combined(wrong, ZeroShot())
    with pytest.raises(ValueError, match="optimizer"):
        Combined(ConstraintAdapter(), ConstraintAdapter() if wrong else wrong)


def test_constraints_can_be_given_as_records(tmp_path: Path) -> None:
    one = Constraint("Length", UNDER_200, routes=("self",), author="person:anna")
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    rules = ConstraintAdapter([one, {"type": "Tone", "text": "Be kind."}])
    OnlinePolicyOptimizer(qa(), rules, memory=memory)

    assert [(c.type, c.author) for c in rules.in_force("self")] == [
        ("Length", "person:anna"),
        ("Tone", "person"),
    ]


def test_an_lm_error_is_no_answer_to_a_repair(learner: Any) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        if "first answer was" in messages[0]["content"]:
            raise ConnectionError("no route to host")
        return fields(answer="one two three four five six")

    with dspy.context(lm=ScriptedLM(reply)):
        rollout = learner(ConstraintAdapter({"Length": UNDER_5}), qa()).predict_one(
            {"question": "How far?"}
        )

    assert LMUnexpectedError.__name__ in rollout.error
