from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dspy
import pytest

from drpg_dspy import ConstraintAdapter, OnlinePolicyOptimizer
from drpg_dspy.constraints import Constraint
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.testing import ScriptedLM, fields

ADA = "person:ada"


@pytest.fixture
def online(tmp_path: Path) -> Iterator[OnlinePolicyOptimizer]:
    lm = ScriptedLM(lambda messages: fields(answer="yes"))
    memory = SQLiteMemory(tmp_path / "memory.sqlite")
    rules = ConstraintAdapter(repair=0)
    with dspy.context(lm=lm):
        learner = OnlinePolicyOptimizer(dspy.Predict("question -> answer"), rules, memory=memory)
        with closing(learner):
            yield learner


def given(online: OnlinePolicyOptimizer) -> str:
    """Make one call; return the policy that it got."""
    made = online.memory.rollout(online(question="May I?").rollout_id)
    policy = made.guidance.policies.get("self")
    return policy.text if policy is not None else ""


def constraints(online: OnlinePolicyOptimizer) -> ConstraintAdapter:
    assert isinstance(online.optimizer, ConstraintAdapter)
    return online.optimizer


def test_constraints_come_and_go_under_a_frozen_policy(online: OnlinePolicyOptimizer) -> None:
    rules = constraints(online)
    rules.add("Length", "Keep the answer under 200 words.", author="anna")
    online.governance.edit("self", "Quote the source.", author=ADA)
    online.governance.freeze("self", author=ADA)
    assert given(online) == "- Keep the answer under 200 words.\n- Quote the source."

    rules.edit("Length", "Keep the answer under 120 words.", author="anna")
    assert given(online) == "- Keep the answer under 120 words.\n- Quote the source."

    rules.delete("Length", author="anna")
    assert given(online) == "- Quote the source."


def test_a_version_from_when_a_constraint_was_in_force_does_not_bring_it_back(
    online: OnlinePolicyOptimizer,
) -> None:
    rules = constraints(online)
    online.governance.edit("self", "Quote the source.", author=ADA)
    rules.add("Length", "Keep the answer under 200 words.")
    with_both = online.memory.rollout(online(question="q").rollout_id)
    version = with_both.guidance.policies["self"].version
    rules.delete("Length")

    online.governance.rollback(f"self@{version}", author=ADA)

    assert given(online) == "- Quote the source."


def test_an_edited_text_does_not_keep_a_constraint_that_it_was_shown_with(
    online: OnlinePolicyOptimizer,
) -> None:
    rules = constraints(online)
    rules.add("Length", "Keep the answer under 200 words.")
    given(online)
    online.governance.edit(
        "self", "- Keep the answer under 200 words.\n- Quote the source.", author=ADA
    )
    rules.delete("Length")

    assert given(online) == "- Quote the source."


def test_a_constraint_needs_no_approval(online: OnlinePolicyOptimizer) -> None:
    online.governance.require_approval(author=ADA)
    constraints(online).add("No_Commas", "Use no commas.", author="anna")

    assert given(online) == "- Use no commas."
    assert online.governance.status()[0].candidates == ()


def test_a_constraint_with_an_id_of_its_own_is_known_as_one(tmp_path: Path) -> None:
    rules = ConstraintAdapter([Constraint("No_Commas", "Use no commas.", id="style")], repair=0)
    memory = SQLiteMemory(tmp_path / "memory.sqlite")
    with dspy.context(lm=ScriptedLM(lambda messages: fields(answer="yes"))):
        program = dspy.Predict("question -> answer")
        with closing(OnlinePolicyOptimizer(program, rules, memory=memory)) as learner:
            given(learner)
            learner.governance.freeze("self", author=ADA)
            rules.delete("style", author="anna")

            assert given(learner) == ""
