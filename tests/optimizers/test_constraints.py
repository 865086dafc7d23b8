"""Constraints in force: what calls are given of them, and what is refused."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import (
    ConstraintAdapter,
    OnlinePolicyOptimizer,
)
from drpg_dspy.constraints import Constraint
from drpg_dspy.exceptions import PolicyTooLong
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers.standing import registry as registry_module
from drpg_dspy.retrieval import HashingEmbedder
from tests.optimizers.constrained import UNDER_5, UNDER_200, play, policy, qa


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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rules: rules.add("Lenght", "x"), "There is no constraint type 'Lenght'"),
        (lambda rules: rules.add("Tone", "  \n "), "needs a text"),
        (lambda rules: rules.add("Tone", None), "text must be a string, got None"),
        (lambda rules: rules.add("Tone", "Be\x07 kind."), r"the character U\+0007 at 3"),
        (lambda rules: rules.edit("Length", "Keep \ud800."), r"the character U\+D800"),
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
        {"mend": "case"},
        {"mend": ["lenght"]},
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


def test_constraints_can_be_given_as_records(tmp_path: Path) -> None:
    one = Constraint("Length", UNDER_200, routes=("self",), author="person:anna")
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    rules = ConstraintAdapter([one, {"type": "Tone", "text": "Be kind."}])
    OnlinePolicyOptimizer(qa(), rules, memory=memory)

    assert [(c.type, c.author) for c in rules.in_force("self")] == [
        ("Length", "person:anna"),
        ("Tone", "person"),
    ]
