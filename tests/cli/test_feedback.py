"""``drpg feedback``: a verdict from another process."""

from __future__ import annotations

from collections.abc import Callable
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
