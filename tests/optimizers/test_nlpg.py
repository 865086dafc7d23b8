from __future__ import annotations

import importlib.util
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import NLPG, Ablation, Gate, OnlinePolicyOptimizer
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Experience, Feedback, Guidance

_SPEC = importlib.util.spec_from_file_location(
    "three_modules", Path(__file__).with_name("three_modules.py")
)
assert _SPEC is not None
three = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(three)  # type: ignore[union-attr]

TRIALS = 100
ADOPT = {"window": 1, "gate": None}


class Notes:
    """The part of a memory that a single failure needs."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def recall(self, key: str) -> str | None:
        return self.kept.get(key)

    def remember(self, key: str, text: str) -> None:
        self.kept[key] = text

    def experience(self, id: str) -> None:
        return None


Learn = Callable[..., OnlinePolicyOptimizer]


def addressed(learner: Learn, ablation: Ablation) -> tuple[int, int]:
    """Let a known module err in each of 100 trials.

    Returns:
        In how many the correction went to that module, and in how many the program then did a
        new question right.
    """
    right = repaired = 0
    for seed in range(TRIALS):
        rng = random.Random(seed)
        faulty = rng.choice(list(three.PURPOSES))
        lm = three.model(faulty, rng.choice(list(three.MISTAKES)))
        optimizer = NLPG(**ADOPT, ablation=ablation)
        optimizer.bind(CARDS[0])
        online = learner(optimizer)
        with dspy.context(lm=lm):
            words = three.question(seed)
            rollout, error = online.attempt_one({"words": words}, rollout_id=f"trial {seed}")
            assert error is None
            assert rollout.outputs["answer"] != three.gold(words)
            said = Feedback(0.0, text=f"It should be {three.gold(words)}.")
            optimizer.update(Experience(rollout, said, False), Notes())
            places = {one.route for one in optimizer.instructions}
            right += places == {faulty}
            again = three.question(seed + 1_000)
            rollout, _ = online.attempt_one({"words": again})
            repaired += rollout.outputs["answer"] == three.gold(again)
    return right, repaired


CARDS: list[Any] = []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learn]:
    """Serve one program with one optimizer after the other; nothing is recorded."""
    path = tmp_path_factory.mktemp("nlpg") / "m.sqlite"
    memory = SQLiteMemory(path, HashingEmbedder())
    online = OnlinePolicyOptimizer(three.ThreeModules(), NLPG(), memory=memory)
    CARDS.append(online.card)

    def serve(optimizer: NLPG) -> OnlinePolicyOptimizer:
        online.optimizer = optimizer
        return online

    yield serve
    CARDS.clear()
    online.close()


def test_corrections_go_to_the_module_that_erred_and_repair_the_program(shared: Learn) -> None:
    right, repaired = addressed(shared, Ablation())

    assert right >= 95
    assert repaired >= 95


def test_corrections_to_a_module_drawn_at_random_do_not(shared: Learn) -> None:
    right, repaired = addressed(shared, Ablation(random_route=True))

    assert right <= 50
    assert repaired <= 50


def test_one_global_policy_reaches_every_module(shared: Learn) -> None:
    def coach(messages: list[dict[str, str]]) -> str:
        if "You coach" in messages[0]["content"]:
            return json.dumps({"rules": ["Mind every single word."], "upstream": ""})
        return fields(kept="x", sorted_words="x", answer="x")

    optimizer = NLPG(**ADOPT, ablation=Ablation(routing=False))
    optimizer.bind(CARDS[0])
    online = shared(optimizer)
    with dspy.context(lm=ScriptedLM(coach)):
        rollout, _ = online.attempt_one({"words": "A b"})
        optimizer.update(Experience(rollout, Feedback(0.0), False), Notes())
        guidance = optimizer.propose({"words": "C d"}, online.memory)

    assert {route: policy.text for route, policy in guidance.policies.items()} == dict.fromkeys(
        three.PURPOSES, "- Mind every single word."
    )


# -- one module ------------------------------------------------------------------------------

RULE = "Answer with the word that the rule says."


def answering(messages: list[dict[str, str]]) -> str:
    """Answer "ruled" when the prompt holds the rule; as a coach, write the rule."""
    if "You coach" in messages[0]["content"]:
        return json.dumps({"rules": [RULE], "upstream": ""})
    return fields(answer="ruled" if RULE in messages[-1]["content"] else "plain")


@pytest.fixture
def lm() -> Iterator[ScriptedLM]:
    model = ScriptedLM(answering)
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def online(tmp_path: Path) -> Learn:
    def make(*args: Any, name: str = "m", **options: Any) -> OnlinePolicyOptimizer:
        memory = SQLiteMemory(tmp_path / f"{name}.sqlite", HashingEmbedder())
        program = dspy.Predict("question -> answer")
        return OnlinePolicyOptimizer(program, NLPG(*args, **options), memory=memory)

    return make


def meet(online: OnlinePolicyOptimizer, steps: range, right: str, **more: Any) -> list[Guidance]:
    """Meet questions to which ``right`` is the answer; return what each was given."""
    given = []
    for i in steps:
        rollout = online.predict_one({"question": f"What is {i}?", **more}, rollout_id=f"r{i}")
        online.learn_one(rollout, Feedback(rollout.outputs["answer"] == right))
        given.append(rollout.guidance)
    return given


def outcomes(online: OnlinePolicyOptimizer) -> list[str]:
    found = (decision.outcome for decision in online.optimizer.decisions)
    return [outcome for outcome in found if outcome != "unchanged"]


def test_a_correction_that_helps_is_tried_accepted_and_then_given(
    lm: ScriptedLM, online: Learn
) -> None:
    learner = online(window=4)

    given = meet(learner, range(40), "ruled")

    (one,) = learner.optimizer.instructions
    assert (one.text, one.status, one.route) == (RULE, "accepted", "self")
    assert outcomes(learner) == ["tried", "accepted"]
    assert not any(guidance.policies for guidance in given[:4])
    trial = given[4:12]
    assert 0 < sum(bool(guidance.policies) for guidance in trial) < len(trial)
    assert one.sources[:4] == ("r0", "r1", "r2", "r3")  # written from the first window


def test_verdicts_of_a_trial_are_of_calls_after_the_correction_was_written(
    lm: ScriptedLM, online: Learn
) -> None:
    learner = online(window=4)
    rollouts = [learner.predict_one({"question": f"q {i}"}, rollout_id=f"r{i}") for i in range(12)]

    for rollout in rollouts:  # all were answered before the first verdict came in
        learner.learn_one(rollout, Feedback(0.0))

    (one,) = learner.optimizer.instructions
    assert (one.status, one.outcomes) == ("trial", "")


def test_a_correction_that_does_not_help_changes_nothing(lm: ScriptedLM, online: Learn) -> None:
    learner = online(window=4, gate=Gate(calls=16))

    given = meet(learner, range(36), "something else")

    assert learner.optimizer.instructions == ()
    assert "given up" in outcomes(learner)
    assert "accepted" not in outcomes(learner)
    assert not given[-1].policies


def test_without_a_gate_a_correction_is_adopted(lm: ScriptedLM, online: Learn) -> None:
    learner = online(**ADOPT)

    given = meet(learner, range(4), "ruled")

    assert outcomes(learner)[0] == "adopted"
    assert [bool(guidance.policies) for guidance in given] == [False, True, True, True]
    (one,) = learner.optimizer.instructions
    assert one.tally == (3, 0, 0, 0)


def test_routing_is_idle_for_one_module_and_says_so(
    lm: ScriptedLM, online: Learn, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="drpg_dspy.optimizers.nlpg"):
        learner = online(**ADOPT)
    given = meet(learner, range(2), "ruled")

    assert "routing is idle" in caplog.text
    assert given[0].counts == {"routing_idle": 1}
    assert learner.optimizer.counters["routing_idle"] == 1
    assert len(lm.prompts) == 2 + 1  # one call for the failure


def test_a_trial_goes_on_in_another_process(lm: ScriptedLM, online: Learn) -> None:
    first = online(window=4)
    meet(first, range(10), "ruled")
    first.close()

    second = online(window=4)
    meet(second, range(10, 30), "ruled")
    whole = online(window=4, name="whole")
    meet(whole, range(30), "ruled")

    assert second.optimizer.state_dict() == whole.optimizer.state_dict()


def test_a_failure_whose_verdict_is_taken_back_corrects_nothing(
    lm: ScriptedLM, online: Learn
) -> None:
    learner = online(window=4, gate=None)
    meet(learner, range(1), "ruled")

    learner.retract("r0")
    meet(learner, range(1, 4), "plain")

    assert learner.optimizer.instructions == ()
    assert learner.optimizer.counters["gradients_retracted"] == 1


def test_a_verdict_that_is_revised_is_one_verdict(lm: ScriptedLM, online: Learn) -> None:
    learner = online(window=10, gate=None)
    meet(learner, range(2), "ruled")

    learner.learn_one("r0", Feedback(1.0))
    learner.learn_one("r1", Feedback(0.0, text="again wrong"))

    state = learner.optimizer.state_dict()
    assert state["seen"] == state["window"]["verdicts"] == 2
    meet(learner, range(2, 10), "plain")
    (one,) = learner.optimizer.instructions
    assert one.sources == ("r1",)


def test_decisions_and_corrections_are_kept_in_the_memory(lm: ScriptedLM, online: Learn) -> None:
    learner = online(window=4)
    meet(learner, range(40), "ruled")

    last = learner.optimizer.decisions[-1].number
    kept = [json.loads(learner.memory.recall(f"nlpg:decision:{n}")) for n in range(1, last + 1)]

    assert kept == [decision.as_plain() for decision in learner.optimizer.decisions]
    accepted = next(decision for decision in kept if decision["outcome"] == "accepted")
    assert accepted["counts"]["withheld_wrong"] > 0
    assert json.loads(learner.memory.recall("nlpg:gradients:r0")) == {"self": RULE}


def test_a_dead_policy_model_costs_no_verdict(online: Learn) -> None:
    def dying(messages: list[dict[str, str]]) -> str:
        if "You coach" in messages[0]["content"]:
            raise RuntimeError("server is down")
        return fields(answer="plain")

    learner = online(window=2, policy_lm=ScriptedLM(dying))
    with dspy.context(lm=ScriptedLM(answering)):
        meet(learner, range(3), "ruled")
        learner.optimizer.policy_lm.script_engine.script = answering
        meet(learner, range(3, 5), "ruled")

    assert learner.memory.count("wrong") == 5
    assert learner.optimizer.state_dict()["seen"] == 5
    assert learner.optimizer.counters["diagnosis_failed"] == 3
    assert learner.unlearned == 3


def test_a_call_whose_reply_could_not_be_read_is_learned_from_once(tmp_path: Path) -> None:
    class Sized(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.size = dspy.Predict("question -> n: int")

        def forward(self, question: str) -> Any:
            return self.size(question=question)

    def reply(messages: list[dict[str, str]]) -> str:
        if "You coach" in messages[0]["content"]:
            return json.dumps({"rules": [RULE]})
        return fields(n="about five" if RULE not in messages[-1]["content"] else "5")

    learner = OnlinePolicyOptimizer(
        Sized(),
        NLPG(window=2, gate=None),
        memory=SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder()),
    )
    with dspy.context(lm=ScriptedLM(reply)):
        for n in range(2):
            rollout = learner.predict_one({"question": f"q{n}"}, rollout_id=f"r{n}")
            assert rollout.unreadable
            learner.feedback(rollout.id, 0.0, "no answer at all")
            learner.feedback(rollout.id, 0.0, "no answer, I say")
        now = learner.predict_one({"question": "q9"})

    assert now.outputs == {"n": 5}
    assert learner.optimizer.counters["failures_diagnosed"] == 4  # a revision is read anew
    assert learner.optimizer.state_dict()["seen"] == 2
    assert [one.cases for one in learner.optimizer.instructions] == [2]
    assert learner.memory.count() == 0


def test_each_category_has_policies_of_its_own(lm: ScriptedLM, online: Learn) -> None:
    def coach(messages: list[dict[str, str]]) -> str:
        if "You coach" not in messages[0]["content"]:
            return answering(messages)
        kind = "towns" if "town" in messages[-1]["content"] else "rivers"
        return json.dumps({"rules": [f"Look up all {kind} first."], "upstream": ""})

    learner = online(**ADOPT, category=lambda inputs: inputs["question"].split()[0])
    with dspy.context(lm=ScriptedLM(coach)):
        for i, text in enumerate(("town a?", "river b?")):
            learner.learn_one(learner.predict_one({"question": text}, rollout_id=f"r{i}"), 0.0)
        for text in ("town c?", "river d?", "lake e?"):
            learner.predict_one({"question": text})

    kept = {policy.text: policy for policy in learner.memory.policies("self")}
    assert set(kept) == {"- Look up all towns first.", "- Look up all rivers first."}
    town = kept["- Look up all towns first."]
    assert (town.author, town.sources) == ("nlpg", ("r0",))
    assert town.message.startswith("category 'town'; 1 instruction from 1 failure;")
    (lake,) = (r for r, _ in learner.memory.rollouts() if r.inputs["question"] == "lake e?")
    assert not lake.guidance.policies
    assert lake.guidance.counts["category_unseen"] == 1


def test_a_category_may_be_the_name_of_an_input() -> None:
    optimizer = NLPG(category="kind")

    assert optimizer.category_of({"kind": "bridge", "question": "?"}) == "bridge"
    assert optimizer.category_of({"question": "?"}) == ""


def test_a_category_that_is_no_text_is_refused(online: Learn) -> None:
    learner = online(category=lambda inputs: 3)

    with pytest.raises(ValueError, match="category must return a text"):
        learner.propose({"question": "?"})


def test_a_compiled_program_keeps_what_was_accepted(lm: ScriptedLM, online: Learn) -> None:
    learner = online(window=4)
    meet(learner, range(40), "ruled")

    kept = learner.optimizer.consolidate(learner.memory)

    assert kept.policies["self"].text == f"- {RULE}"


def test_a_module_that_is_never_called_gets_nothing_and_does_no_harm(tmp_path: Path) -> None:
    class Branch(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = dspy.Predict("question -> answer")
            self.unused = dspy.Predict("question -> answer")

        def forward(self, question: str) -> dspy.Prediction:
            return self.used(question=question)

    def coach(messages: list[dict[str, str]]) -> str:
        if "modules_at_fault" in messages[0]["content"]:
            return json.dumps({"step": 1, "modules_at_fault": ["unused"], "reason": "not called"})
        return answering(messages)

    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    learner = OnlinePolicyOptimizer(Branch(), NLPG(**ADOPT), memory=memory)
    with dspy.context(lm=ScriptedLM(coach)):
        meet(learner, range(3), "ruled")

    assert {one.route for one in learner.optimizer.instructions} == {"used"}
    assert learner.optimizer.counters["diagnosis_uncalled_route"] >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_instructions": 0}, "max_instructions"),
        ({"max_chars": 10}, "max_chars"),
        ({"window": 0}, "window"),
        ({"max_changes": 0}, "max_changes"),
        ({"category": 3}, "category"),
        ({"gate": "strict"}, "gate must be a Gate"),
        ({"gate": {"levle": 0.1}}, "level"),
        ({"gate": {"level": 2}}, "level"),
        ({"ablation": {"routing": "no"}}, "routing"),
        ({"ablation": Ablation, "gate": None}, "ablation must be"),
        ({"policy_lm": "gpt"}, "policy_lm"),
    ],
)
def test_wrong_arguments_are_named(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NLPG(**options)


def test_a_route_cannot_be_drawn_and_be_every_route() -> None:
    with pytest.raises(ValueError, match="random_route"):
        Ablation(routing=False, random_route=True)
