"""Constraints together with a method that learns."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

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
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Feedback
from tests.optimizers.constrained import LEARNED, UNDER_5, UNDER_200, play, policy, qa


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


def test_learned_rules_that_nobody_compared_are_counted(learner: Any) -> None:
    online = learner(Combined(ConstraintAdapter({"Tone": "Be kind."}, repair=0), DRPG(k=2)), qa())
    with dspy.context(lm=play("fine")):
        taught(online, 0.0)
        rollout = online.predict_one({"question": "How far?"})

    assert rollout.guidance.counts["learned_rules_not_compared"] == 1


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
