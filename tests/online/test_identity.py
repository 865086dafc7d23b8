from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.testing import ScriptedLM, fields


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with dspy.context(lm=ScriptedLM(lambda messages: fields(answer="x", summary="y"))):
        yield


def test_another_program_under_the_same_name_is_refused() -> None:
    with OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot") as one:
        one(question="q")

    with pytest.raises(ResumeMismatch, match=r"'bot'.*question -> answer.*document -> summary"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), name="bot")


def test_a_memory_that_was_only_opened_belongs_to_nobody() -> None:
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot").close()

    other = OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), name="bot")

    assert other(document="d").summary == "y"


def test_a_program_that_has_grown_goes_on_and_says_so(caplog: Any) -> None:
    with OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="bot") as one:
        one(question="q")

    with caplog.at_level(logging.WARNING):
        grown = OnlinePolicyOptimizer(
            dspy.Predict("question, hint -> answer"), ZeroShot(), name="bot"
        )
    assert "earlier form" in caplog.text
    grown(question="q", hint="h")
    grown.close()

    caplog.clear()
    OnlinePolicyOptimizer(dspy.Predict("question, hint -> answer"), ZeroShot(), name="bot").close()
    assert not caplog.records


def test_the_saved_learner_of_another_program_is_refused_before_anything_changes() -> None:
    one = OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot())
    one(question="q")
    one.save("kept")
    other = OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot())

    with pytest.raises(ResumeMismatch, match="kept"):
        other.load("kept")

    assert other.program.signature.instructions != one.program.signature.instructions
    assert not list(other.memory.rollouts())


def test_one_optimizer_does_not_serve_two_programs() -> None:
    optimizer = ZeroShot()
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), optimizer)

    with pytest.raises(ValueError, match="construct another"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), optimizer)


def test_a_bare_memory_of_another_program_is_refused(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "m.sqlite")
    OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), memory=memory)(
        question="q"
    )

    with pytest.raises(ResumeMismatch, match="This memory"):
        OnlinePolicyOptimizer(dspy.Predict("document -> summary"), ZeroShot(), memory=memory)
