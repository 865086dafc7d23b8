from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import (
    DRPG,
    Combined,
    ConstraintAdapter,
    Gated,
    Replay,
    SelfStreamICL,
    Shadow,
    judged_by,
)
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing.scripted import ScriptedLM, fields

GOOD, BAD, IDLE = "Double it.", "Halve it.", "Name the number first."
EXAMPLES = [
    dspy.Example(id=str(n), question=f"What is it for {n}?", gold=str(2 * n)).with_inputs(
        "question"
    )
    for n in range(60)
]


def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(prediction.answer == example.gold)


class World:
    """A model that is right for even numbers, for all when told well, for none when told badly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rule = GOOD
        self.spoiled = self.mute = False
        self.lm = ScriptedLM(self.reply)
        self.opened: list[OnlinePolicyOptimizer] = []

    def reply(self, messages: list[dict[str, str]]) -> str:
        text = "\n".join(message["content"] for message in messages)
        if "coach" in messages[0]["content"]:
            return json.dumps({"rules": [self.rule]})
        n = int(messages[-1]["content"].rsplit("What is it for ", 1)[1].split("?")[0])
        if self.mute:
            return ""
        right = (n % 2 == 0 or GOOD in text) and BAD not in text and not self.spoiled
        return fields(answer=str(2 * n if right else n + 1))

    def learner(self, **options: Any) -> OnlinePolicyOptimizer:
        judge = options.pop("judge", judged_by(EXAMPLES, metric))
        program = dspy.Predict("question -> answer")
        program.lm = self.lm
        around, above = options.pop("around", None), options.pop("above", None)
        method: Any = DRPG(k=4, policy_lm=self.lm, shots=0)
        inside = Combined(around, method) if around else method
        gate: Any = Gated(inside, judge, **{"every": 5, **options})
        gate = Combined(above, gate) if above else gate
        memory = SQLiteMemory(self.folder / "m.sqlite", HashingEmbedder(32))
        learner = OnlinePolicyOptimizer(program, gate, memory=memory, metric=metric)
        self.opened.append(learner)
        return learner

    def ask(self, learner: OnlinePolicyOptimizer, n: int, *, right: bool) -> str:
        """Ask one question, whose answer is said to be right or wrong; return its name."""
        rollout = learner.predict_one({"question": EXAMPLES[n].question})
        learner.learn_one(rollout, right)
        return rollout.id

    def meet(self, learner: OnlinePolicyOptimizer, first: int, last: int) -> list[str]:
        """Ask and judge some questions; return the policy that each call was given."""
        given = []
        for example in EXAMPLES[first:last]:
            rollout = learner.predict_one({"question": example.question})
            learner.learn_one(rollout, metric(example, rollout.answer))
            policy = rollout.guidance.policies.get("self")
            given.append(policy.text if policy else "")
        return given


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for learner in made.opened:
        learner.close()


def gate_of(learner: OnlinePolicyOptimizer) -> Gated:
    found = learner.optimizer
    gate = found.optimizer if isinstance(found, Combined) else found
    assert isinstance(gate, Gated)
    return gate


def test_a_policy_that_repairs_more_than_it_breaks_is_adopted(world: World) -> None:
    learner = world.learner(level=0.2)

    given = world.meet(learner, 0, 20)

    gate = gate_of(learner)
    assert given[:10] == [""] * 10
    assert given[-1] == f"- {GOOD}"
    adopted = next(one for one in gate.decisions if one["what"] == "adopted")
    assert (adopted["broken"], adopted["fixed"] >= 3) == (0, True)
    assert gate.standing["self"].text == f"- {GOOD}"


@pytest.mark.parametrize("rule", [BAD, IDLE])
def test_a_policy_that_does_not_help_changes_nothing(world: World, rule: str) -> None:
    world.rule = rule
    learner = world.learner(level=0.5)

    given = world.meet(learner, 0, 15)

    assert set(given) == {""}
    assert {one["what"] for one in gate_of(learner).decisions} == {"kept"}


def test_a_call_costs_no_policy_writing_and_a_trial_stays_in_its_budget(world: World) -> None:
    learner = world.learner(every=5, trial=Replay(cases=20, calls=3))

    world.meet(learner, 0, 5)  # four cases are in memory when the fifth verdict comes

    (decision,) = gate_of(learner).decisions
    assert decision["calls"] == 3
    assert decision["n"] == 3
    assert len(world.lm.prompts) == 5 + 1 + 3


def test_a_shadow_answers_the_next_calls_a_second_time_and_nobody_sees_it(world: World) -> None:
    learner = world.learner(trial=Shadow(cases=6), level=0.2)

    given = world.meet(learner, 0, 11)

    assert set(given) == {""}
    (decision,) = gate_of(learner).decisions
    assert (decision["what"], decision["n"], decision["fixed"]) == ("adopted", 6, 3)
    assert world.meet(learner, 11, 12) == [f"- {GOOD}"]
    assert learner.memory.count_rollouts() == 12


def test_what_falls_below_the_band_of_before_is_rolled_back(world: World) -> None:
    learner = world.learner(level=0.2, every=15)
    world.meet(learner, 0, 15)
    assert gate_of(learner).standing
    world.spoiled = True

    world.meet(learner, 15, 25)

    gate = gate_of(learner)
    assert [one["what"] for one in gate.decisions] == ["adopted", "rolled back"]
    assert gate.standing == {}


def test_a_gate_goes_on_where_it_was_in_another_process(world: World) -> None:
    learner = world.learner(trial=Shadow(cases=6), level=0.2)
    given = world.meet(learner, 0, 8)
    learner.close()

    again = world.learner(trial=Shadow(cases=6), level=0.2)
    given += world.meet(again, 8, 12)

    assert given[-1] == f"- {GOOD}"
    (decision,) = gate_of(again).decisions
    assert decision["n"] == 6


def test_answers_that_the_judge_does_not_know_are_no_part_of_a_trial(world: World) -> None:
    learner = world.learner(judge=lambda inputs, answer: None, level=0.5)

    world.meet(learner, 0, 10)

    assert {one["n"] for one in gate_of(learner).decisions} == {0}
    assert gate_of(learner).standing == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gated("drpg", len), "method to guard"),
        (lambda: Gated(Gated(SelfStreamICL(), len), len), "gated already"),
        (lambda: Gated(DRPG(), "gold"), "judged_by"),
        (lambda: Gated(DRPG(), len, trial="shadow"), "a Replay or a Shadow"),
        (lambda: Gated(DRPG(), len, every=0), "every"),
        (lambda: Gated(DRPG(), len, level=0.9), "level"),
        (lambda: Replay(cases=0), "cases"),
        (lambda: Shadow(calls=0), "calls"),
    ],
)
def test_a_wrong_argument_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_constraints_inside_a_gate_are_given_and_are_no_candidates(world: World) -> None:
    rules = ConstraintAdapter({"Tone": "Be kind."}, repair=0)
    learner = world.learner(around=rules, level=0.2, every=15)

    assert set(world.meet(learner, 0, 15)) == {"- Be kind."}
    gate = gate_of(learner)
    assert [policy.text for policy in gate.standing.values()] == [f"- {GOOD}"]
    assert world.meet(learner, 15, 16) == [f"- Be kind.\n- {GOOD}"]
    alone = Gated(ConstraintAdapter({"Tone": "Be kind."}, repair=0), len)
    assert alone.max_lm_calls


@pytest.mark.parametrize("above", ["pin", "constraint"])
def test_what_stands_is_watched_beneath_what_people_put_above_it(world: World, above: str) -> None:
    rules = ConstraintAdapter({"Tone": "Be kind."}, repair=0)
    learner = world.learner(level=0.2, every=15, **({"above": rules} if above != "pin" else {}))
    world.meet(learner, 0, 1)
    if above == "pin":
        learner.governance.pin("self", "Be kind.", author="person:ada")
    world.meet(learner, 1, 15)
    assert world.meet(learner, 15, 16) == [f"- Be kind.\n- {GOOD}"]
    world.spoiled = True
    world.meet(learner, 16, 30)

    assert [one["what"] for one in gate_of(learner).decisions][:2] == ["adopted", "rolled back"]
    assert world.meet(learner, 30, 31) == ["- Be kind."]


def test_trials_are_made_under_what_people_put_above(world: World) -> None:
    rules = ConstraintAdapter({"Tone": "Be kind."}, repair=0)
    learner = world.learner(above=rules, level=0.2, every=15)
    world.meet(learner, 0, 15)
    trials = [text for text in world.lm.texts() if GOOD in text and "coach" not in text]

    assert trials
    assert all("- Be kind." in text for text in trials)


def test_a_verdict_that_is_revised_is_one_verdict(world: World) -> None:
    learner = world.learner(level=0.2, every=15)
    world.meet(learner, 0, 15)
    ids = [world.ask(learner, n, right=True) for n in range(15, 21)]
    for _ in range(40):
        learner.feedback(ids[0], 0.0)
        learner.feedback(ids[0], 0.2)

    assert [one["what"] for one in gate_of(learner).decisions] == ["adopted"]
    assert gate_of(learner).state_dict()["seen"] == 21


def test_a_judge_that_raises_breaks_one_trial_off(world: World) -> None:
    calls = []

    def judge(inputs: Any, answer: Any) -> Any:
        calls.append(inputs)
        if len(calls) == 1:
            raise RuntimeError("no judge")
        return judged_by(EXAMPLES, metric)(inputs, answer)

    learner = world.learner(judge=judge, level=0.2, every=15)
    world.meet(learner, 0, 15)
    assert [one["what"] for one in gate_of(learner).decisions] == ["broken off"]
    before = len(world.lm.prompts)
    world.meet(learner, 15, 16)
    assert len(world.lm.prompts) == before + 1  # the call itself, and no trial of it
    world.meet(learner, 16, 30)

    assert [one["what"] for one in gate_of(learner).decisions] == ["broken off", "adopted"]


def test_questions_that_no_example_has_are_not_asked_in_a_trial(world: World) -> None:
    learner = world.learner(judge=judged_by([], metric), level=0.2, every=15)
    world.meet(learner, 0, 15)

    assert [(one["n"], one["calls"]) for one in gate_of(learner).decisions] == [(0, 0)]


def test_a_policy_that_makes_replies_unreadable_is_rolled_back(world: World) -> None:
    learner = world.learner(level=0.2, every=15)
    world.meet(learner, 0, 15)
    world.mute = True
    for n in range(15, 26):
        rollout = learner.predict_one({"question": EXAMPLES[n].question})
        assert rollout.unreadable
        learner.feedback(rollout.id, 0.0)

    assert [one["what"] for one in gate_of(learner).decisions] == ["adopted", "rolled back"]
