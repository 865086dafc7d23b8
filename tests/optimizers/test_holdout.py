from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, Holdout, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers.holdout import GIVEN, WITHHELD
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import Feedback

RULE = "Answer with the word that the rule says."


def script(messages: list[dict[str, str]]) -> str:
    if "You coach an assistant" in messages[0]["content"]:
        return f'{{"rules": ["{RULE}"]}}'
    return fields(answer="ruled" if RULE in messages[-1]["content"] else "plain")


@pytest.fixture
def lm() -> Iterator[ScriptedLM]:
    model = ScriptedLM(script)
    with dspy.context(lm=model):
        yield model


def learner(path: Path, **options: Any) -> OnlinePolicyOptimizer:
    return OnlinePolicyOptimizer(
        dspy.Predict("question -> answer"),
        Holdout(DRPG(k=2), **options),
        memory=SQLiteMemory(path, HashingEmbedder()),
    )


def arms(learner: OnlinePolicyOptimizer, steps: range, right: str) -> list[str]:
    """Meet some questions of which every fourth fails whatever is done; return the arms."""
    seen = []
    for i in steps:
        rollout = learner.predict_one({"question": f"What is {i}?"})
        seen += [arm for arm in (GIVEN, WITHHELD) if rollout.guidance.counts.get(arm)]
        learner.learn_one(rollout, Feedback(rollout.outputs["answer"] == right and i % 4 > 0))
    return seen


def test_a_policy_that_does_harm_is_rested_and_one_that_helps_is_not(
    lm: ScriptedLM, tmp_path: Path
) -> None:
    harmed = arms(learner(tmp_path / "harmed.sqlite"), range(200), right="plain")
    helped = arms(learner(tmp_path / "helped.sqlite"), range(200), right="ruled")

    assert 0.05 < harmed[100:].count(GIVEN) / 99 < 0.35
    assert 0.65 < helped[100:].count(GIVEN) / 99 < 0.95


def test_a_policy_that_begins_to_help_is_taken_up_again(lm: ScriptedLM, tmp_path: Path) -> None:
    online = learner(tmp_path / "m.sqlite", window=20)
    arms(online, range(100), right="plain")
    assert online.optimizer.resting

    later = arms(online, range(100, 400), right="ruled")

    assert not online.optimizer.resting
    assert later[-50:].count(GIVEN) > 30


def test_a_call_without_a_policy_costs_no_writing_and_keeps_its_examples(
    lm: ScriptedLM, tmp_path: Path
) -> None:
    online = learner(tmp_path / "m.sqlite", share=0.5)
    arms(online, range(20), right="plain")
    before = len(lm.prompts)

    guidances = [online.propose({"question": f"What is {i}?"}) for i in range(100, 140)]

    withheld = [g for g in guidances if g.counts.get(WITHHELD)]
    assert 5 < len(withheld) < 35
    assert all(g.shots and not g.policies for g in withheld)
    assert len(lm.prompts) - before <= 40 - len(withheld)


def test_another_process_knows_the_verdicts_of_both_arms(lm: ScriptedLM, tmp_path: Path) -> None:
    first = learner(tmp_path / "m.sqlite")
    arms(first, range(60), right="plain")
    first.close()

    second = learner(tmp_path / "m.sqlite")
    second.propose({"question": "What is 1?"})

    assert second.optimizer.helps == first.optimizer.helps < 0.1


def test_a_compiled_program_keeps_no_policy_that_rests(lm: ScriptedLM, tmp_path: Path) -> None:
    online = learner(tmp_path / "m.sqlite")
    arms(online, range(100), right="plain")

    kept = online.optimizer.consolidate(online.memory)

    assert kept.shots
    assert not kept.policies


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": 5}, "method to guard"),
        ({"optimizer": DRPG}, "method to guard"),
        ({"optimizer": Holdout(ZeroShot())}, "guarded already"),
        ({"share": 0}, "share"),
        ({"share": 0.6}, "share"),
        ({"level": "x"}, "level"),
        ({"window": 3}, "window"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_named(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Holdout(**{"optimizer": DRPG(k=2), **options})
