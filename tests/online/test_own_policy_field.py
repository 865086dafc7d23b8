"""Programs with a field, an input or an argument of their own that is called ``policy``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, OnlinePolicyOptimizer
from drpg_dspy.injection import attach, use_policy
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields

LEARNED = "Answer in capital letters."


def script(messages: list[dict[str, str]]) -> str:
    if "You coach an assistant" in messages[0]["content"]:
        return f'{{"rules": ["{LEARNED}"]}}'
    return fields(answer="x", policy="Sick leave is paid.")


@pytest.fixture
def lm() -> Any:
    model = ScriptedLM(script)
    with dspy.context(lm=model):
        yield model


def taught(program: dspy.Module, path: Path, **inputs: Any) -> OnlinePolicyOptimizer:
    """Return a learner that has a policy to give."""
    memory = SQLiteMemory(path / "m.sqlite", HashingEmbedder())
    online = OnlinePolicyOptimizer(program, DRPG(k=2), memory=memory)
    online.feedback(online(question="q", **inputs).rollout_id, score=0.0)
    return online


def test_an_argument_called_policy_does_not_stand_in_for_what_was_learned(
    lm: ScriptedLM, tmp_path: Path, caplog: Any
) -> None:
    online = taught(dspy.Predict("question -> answer"), tmp_path)
    with caplog.at_level(logging.WARNING):
        online(question="q", policy="SOMETHING ELSE")

    assert LEARNED in lm.texts()[-1]
    assert "SOMETHING ELSE" not in lm.texts()[-1]
    assert "no such input" in caplog.text
    assert "use_policy({'self'" in caplog.text


def test_an_argument_called_policy_changes_nothing_while_nothing_is_learned(
    tmp_path: Path,
) -> None:
    plain, wrapped = ScriptedLM(script), ScriptedLM(script)
    arguments = {"question": "q", "policy": "SOMETHING ELSE"}
    with dspy.context(lm=plain):
        dspy.Predict("question -> answer")(**arguments)
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    with dspy.context(lm=wrapped):
        OnlinePolicyOptimizer(dspy.Predict("question -> answer"), DRPG(k=2), memory=memory)(
            **arguments
        )

    assert wrapped.texts() == plain.texts()


def test_a_module_that_hands_its_own_policy_down_is_served_as_without_us(
    lm: ScriptedLM, tmp_path: Path, caplog: Any
) -> None:
    class Insurance(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str, policy: str) -> Any:
            return self.predict(question=question, policy=policy)

    online = taught(Insurance(), tmp_path, policy="P-17")
    with caplog.at_level(logging.WARNING):
        prediction = online(question="q", policy="P-17")

    assert LEARNED in lm.texts()[-1]
    assert "no such input" in caplog.text
    assert online.memory.rollout(prediction.rollout_id).inputs["policy"] == "P-17"


def test_a_policy_of_ones_own_is_tried_on_the_program_itself(
    lm: ScriptedLM, tmp_path: Path
) -> None:
    online = taught(dspy.Predict("question -> answer"), tmp_path)
    with use_policy({"self": "Answer in French."}):
        online.program(question="q")

    assert "Answer in French." in lm.texts()[-1]
    assert LEARNED not in lm.texts()[-1]


def test_the_remedy_that_the_refusal_names_works(lm: ScriptedLM, tmp_path: Path) -> None:
    program = dspy.Predict("question, policy -> answer")
    with pytest.raises(ValueError, match=r"attach\(program, field="):
        OnlinePolicyOptimizer(program, DRPG(k=2))

    attach(program, field="learned_policy")
    online = taught(program, tmp_path, policy="P-17")
    online(question="q", policy="P-17")

    assert "[[ ## learned_policy ## ]]" in lm.texts()[-1]
    assert LEARNED in lm.texts()[-1]
    assert "P-17" in lm.texts()[-1]


def test_an_output_called_policy_is_wrapped_under_another_field(
    lm: ScriptedLM, tmp_path: Path
) -> None:
    program = dspy.Predict("question -> policy, answer")
    attach(program, field="rules")
    online = taught(program, tmp_path)
    prediction = online(question="q")

    assert prediction.policy == "Sick leave is paid."
    assert online.memory.rollout(prediction.rollout_id).outputs["policy"] == "Sick leave is paid."
    assert f"[[ ## rules ## ]]\n- {LEARNED}" in lm.texts()[-1]


def test_the_arrangement_survives_copies_saving_and_compiling(
    lm: ScriptedLM, tmp_path: Path
) -> None:
    program = dspy.Predict("question, policy -> answer")
    attach(program, field="rules", placement="instructions")
    online = taught(program, tmp_path, policy="P-17")
    online.save(tmp_path / "kept")
    online.load(tmp_path / "kept", overwrite=True)
    twin = online.deepcopy()
    twin(question="q", policy="P-17")

    assert "[[ ## rules ## ]]" not in lm.texts()[-1], "it stands in the instructions"
    assert LEARNED in lm.texts()[-1]

    online.metric = lambda example, prediction: 0.0
    example = dspy.Example(question="q", policy="P-17").with_inputs("question", "policy")
    student = dspy.Predict("question, policy -> answer")
    assert isinstance(online.compile(student, trainset=[example] * 2), dspy.Predict)
