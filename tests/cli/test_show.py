"""``drpg show``: figures, steps, one step in full, the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli.layout import clean, clip, columns

Drpg = Callable[..., Result]


@pytest.fixture
def finished(run: Drpg) -> None:
    run("--set", "writer=case", "--set", "feedback_text=true", "--limit", "5")


@pytest.mark.usefixtures("finished")
def test_a_run_shows_its_figures_and_one_line_for_each_step(drpg: Drpg) -> None:
    out = drpg("show", "first").stdout

    assert "4 right of 5" in out
    table = out.partition("step  ")[2].strip().splitlines()[1:]
    assert [line.split()[:2] for line in table] == [
        ["1", "✗"], ["2", "✓"], ["3", "✓"], ["4", "✓"], ["5", "✓"],
    ]  # fmt: skip


@pytest.mark.usefixtures("finished")
def test_a_step_shows_retrieval_policy_answer_verdict_and_cost(drpg: Drpg) -> None:
    out = drpg("show", "first", "--step", "3").stdout

    for said in (
        "Step 3 ✓ right",
        "Examples shown to the program (R_t): 1",
        "Wrong cases retrieved for the policy (R'_t): 1",
        "✗ step 1",
        "Policy (P_t) self@1, by drpg",
        "End every answer with the word units.",
        "from step 1",
        "units",
        "score 1",
        "answering",
        "1 LM call ",
    ):
        assert said in out, said


@pytest.mark.usefixtures("finished")
def test_a_wrong_step_shows_the_judges_feedback(drpg: Drpg) -> None:
    out = drpg("show", "first", "--step", "1").stdout

    assert "✗ wrong" in out
    assert "Expected" in out
    assert "none: the plain program's prompt was used" in out


@pytest.mark.usefixtures("finished")
def test_a_step_as_json_spells_out_the_retrieved_cases(as_json: Callable[..., Any]) -> None:
    step = as_json("show", "first", "--step", "3")

    assert step["step"] == 3
    assert step["verdict"] == "right"
    assert [case["step"] for case in step["retrieved"]["wrong"]] == [1]
    assert step["usage"]["answering"]["calls"] == 1


@pytest.mark.usefixtures("finished")
def test_a_missing_step_names_those_that_exist(drpg: Drpg) -> None:
    assert "it has steps 1–5" in drpg("show", "first", "--step", "41", exit_code=2).stderr


@pytest.mark.usefixtures("finished")
def test_html_writes_the_inspector_page(drpg: Drpg, workdir: Path) -> None:
    result = drpg("show", "first", "--html", "first.html", "--json")

    assert "<html" in (workdir / "first.html").read_text()
    assert json.loads(result.stdout)["n"] == 5


@pytest.mark.usefixtures("finished")
def test_showing_writes_nothing(drpg: Drpg, workdir: Path) -> None:
    def state() -> dict[str, int]:
        return {p.name: p.stat().st_mtime_ns for p in (workdir / ".drpg").rglob("*.sqlite")}

    before = state()
    drpg("show", "first")
    drpg("show", "first", "--step", "2")

    assert state() == before


def test_what_a_model_wrote_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in clean("rule \x1b[2J\ud800")
    clean("\ud800").encode("utf-8")
    assert clip("a\x07b", 80) == "a\\x07b"


def test_columns_of_numbers_are_set_right_and_of_words_left() -> None:
    assert columns([("a", "1"), ("bb", "10")]) == "a    1\nbb  10"
