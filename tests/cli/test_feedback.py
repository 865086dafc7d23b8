"""``drpg feedback``: a verdict from another process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Drpg = Callable[..., Result]


@pytest.fixture
def finished(run: Drpg) -> None:
    run("--set", "writer=case", "--set", "feedback_text=true", "--limit", "4")


@pytest.mark.usefixtures("finished")
def test_the_last_word_stands_and_is_learned_from(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    out = drpg("feedback", "first", "3", "--score", "0", "--text", "too terse").stdout
    step = as_json("show", "first", "--step", "3")

    assert "step 3: score 0 kept" in out
    assert step["verdict"] == "wrong"
    assert step["feedback"]["text"] == "too terse"
    assert step["feedback"]["author"] == "person"
    assert step["usage"]["learning"]["calls"] == 1


@pytest.mark.usefixtures("finished")
def test_a_rollout_id_names_the_same_step(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    rollout = as_json("show", "first", "--step", "2")["rollout_id"]
    drpg("feedback", "first", rollout, "--score", "0.25", "--author", "person:kim")

    assert as_json("show", "first", "--step", "2")["feedback"]["score"] == 0.25


@pytest.mark.usefixtures("finished")
def test_a_retracted_verdict_waits_again(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    drpg("feedback", "first", "2", "--retract")

    assert as_json("show", "first", "--step", "2")["verdict"] == "waiting for feedback"


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["99", "--score", "1"], "it has steps 1–4"),
        (["nobody", "--score", "1"], "nobody"),
        (["1", "--score", "7"], "[0, 1]"),
        (["1"], "--score or --retract"),
        (["1", "--score", "1", "--retract"], "--score or --retract"),
    ],
)
def test_wrong_feedback_is_refused_with_the_reason(
    drpg: Drpg, arguments: list[str], said: str
) -> None:
    assert said in drpg("feedback", "first", *arguments, exit_code=2).stderr


APP = """
import dspy
from drpg_dspy import DRPG, OnlinePolicyOptimizer, QuoteWriter
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval.embedder import HashingEmbedder
from drpg_dspy.testing import ScriptedLM

dspy.settings.configure(lm=ScriptedLM(lambda messages: "[[ ## answer ## ]]\\n4"))


def online():
    return OnlinePolicyOptimizer(
        dspy.Predict("question -> answer"),
        DRPG(k=2, writer=QuoteWriter(), feedback_text=True),
        memory=SQLiteMemory("shop.sqlite", HashingEmbedder()),
    )
"""


@pytest.fixture
def shop(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A program of one's own that has answered twice; the process that asked is gone."""
    monkeypatch.syspath_prepend(workdir)
    (workdir / "shop_app.py").write_text(APP)
    sys.modules.pop("shop_app", None)
    with importlib.import_module("shop_app").online() as online:
        online(question="What is 1 plus 3?")
        asked = online(question="What is 2 plus 2?")
    yield asked.rollout_id
    sys.modules.pop("shop_app", None)


def test_a_program_of_ones_own_is_told_in_the_shell_and_has_learned(drpg: Drpg, shop: str) -> None:
    told = drpg("feedback", "shop_app:online", shop, "--score", "0", "--text", "Name the unit.")
    assert "step 2: score 0 kept" in told.stdout
    assert "score 1 kept" in drpg("feedback", "shop_app:online", "1", "--score", "1").stdout

    with importlib.import_module("shop_app").online() as online:
        assert (online.memory.count("correct"), online.memory.count("wrong")) == (1, 1)
        asked = online(question="What is 2 plus 2 again?")
        (policy,) = online.memory.rollout(asked.rollout_id).guidance.policies.values()
    assert [rule.text for rule in policy.rules] == ["Name the unit."]

    assert "taken back" in drpg("feedback", "shop_app:online", shop, "--retract").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop.sqlite", "1", "--score", "1"], "is a learner's memory"),
        (["shop_app:missing", "1", "--score", "1"], "has no 'missing'"),
        (["shop_app:dspy", "1", "--score", "1"], "is no OnlinePolicyOptimizer"),
        (["shop_app:online", "nobody", "--score", "1"], "nobody"),
        (["shop_app:online", "1", "--score", "7"], "[0, 1]"),
        (["nothing", "1", "--score", "1"], "nothing"),
    ],
)
def test_what_no_verdict_can_be_given_to_is_refused(
    drpg: Drpg, shop: str, arguments: list[str], said: str
) -> None:
    assert said in drpg("feedback", *arguments, exit_code=2).stderr
