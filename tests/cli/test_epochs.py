from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.streaming import RunFolder, list_runs

Drpg = Callable[..., Any]

SMALL = ("--construction", "4", "--selection", "4", "--test", "4")


@pytest.fixture
def epochs(drpg: Drpg) -> Drpg:
    """Make an epoch over the tiny benchmark under the name ``first``, plus what is given."""

    def call(*arguments: str, exit_code: int = 0) -> Any:
        return drpg(
            "epochs", "tiny_bench:BENCHMARK", "--lm", "scripted/tiny_bench:coached", "--embedder",
            "hashing", "--no-mlflow", "--name", "first", *SMALL, *arguments, exit_code=exit_code,
        )  # fmt: skip

    return call


def test_an_epoch_answers_the_same_test_items_before_and_after(epochs: Drpg, drpg: Drpg) -> None:
    said = epochs().stdout

    assert "selection     0.0 % before, 100.0 % after, of 4: 4 fixed, 0 broken" in said
    assert "test          0.0 % before, 100.0 % after, of 4: 4 fixed, 0 broken, p = 0.12" in said
    assert "accepted: self: End every answer with the word units." in said
    assert "drpg audit first" in said
    assert "kept from learning" in said
    assert "without proof" not in said
    assert RunFolder.open("first").status == "finished"
    assert "test          0.0 % before" in drpg("show", "first").stdout


def test_the_figures_are_there_as_json(epochs: Drpg) -> None:
    (epoch,) = json.loads(epochs("--json").stdout)["epochs"]

    assert epoch["finished"] is True
    assert epoch["construction"] == [0, 4]
    assert [(one["route"], one["accepted"]) for one in epoch["tried"]] == [("self", True)]
    assert (epoch["test"]["before"], epoch["test"]["after"], epoch["test"]["p"]) == (0, 4, 0.125)
    assert len(epoch["test"]["fixed"]) == 4


def test_an_interrupted_epoch_is_resumed_to_the_same_end(
    epochs: Drpg, drpg: Drpg, as_json: Drpg, workdir: Path
) -> None:
    epochs("--name", "whole")
    (workdir / "crash_after").write_text("0")
    epochs(exit_code=130)
    assert RunFolder.open("first").status == "interrupted"
    (workdir / "crash_after").unlink()

    drpg("resume", "first")

    assert as_json("show", "first")["epochs"] == as_json("show", "whole")["epochs"]


def test_a_budget_that_is_spent_stops_the_epoch_and_more_of_it_goes_on(
    epochs: Drpg, drpg: Drpg, as_json: Drpg
) -> None:
    epochs("--name", "whole")
    said = epochs("--budget-calls", "10").stdout
    assert "not finished: the budget of 10 LM calls is used up (10 spent)" in said
    assert "under way" in said

    drpg("resume", "first", "--no-budget")

    assert as_json("show", "first")["epochs"] == as_json("show", "whole")["epochs"]
    said = drpg("resume", "first", "--limit", "3", exit_code=2).stderr
    assert "is a run of epochs" in said


def test_a_prompt_that_was_sent_before_is_answered_from_the_run(
    epochs: Drpg, as_json: Drpg
) -> None:
    epochs("--epochs", "2")
    shown = as_json("show", "first")

    assert [epoch["finished"] for epoch in shown["epochs"]] == [True, True]
    assert shown["epochs"][1]["test"]["before"] == 4
    # 4 + 4 test and selection items before, 4 to construct, 4 + 4 under the new rule, and in the
    # second epoch the construction items under it.
    assert shown["answering"]["lm_calls"] == 24


def test_an_audit_shows_figures_causes_and_flips(epochs: Drpg, drpg: Drpg, workdir: Path) -> None:
    epochs()

    page = Path(drpg("audit", "first", "--out", "audit").stdout.strip()).read_text()

    rows = list(csv.DictReader((workdir / "audit/tables/pairs.csv").read_text().splitlines()))
    test = next(row for row in rows if row["part"] == "test")
    assert {name: test[name] for name in ("items", "before", "after", "repaired", "repair %",
                                          "broken", "regression %", "net", "p", "change")} == {
        "items": "4", "before": "0", "after": "4", "repaired": "4", "repair %": "100.0",
        "broken": "0", "regression %": "", "net": "+4", "p": "0.1250", "change": "+100.0",
    }  # fmt: skip
    assert "End every answer with the word units." in page
    assert page.count("<summary>repaired: sum-") == 8  # four of selection, four of test
    assert "Correction written from this failure" in page
    assert "Expected 2" in page or "Expected 1" in page  # what the judge said
    flips = list(csv.DictReader((workdir / "audit/tables/flips.csv").read_text().splitlines()))
    assert {row["flip"] for row in flips} == {"repaired"}
    assert len(flips) == 8
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_two_streams_are_paired_question_by_question(run: Drpg, drpg: Drpg, workdir: Path) -> None:
    run("--optimizer", "zero_shot", "--limit", "8")
    run("--name", "second", "--lm", "scripted/tiny_bench:calculator", "--limit", "8")

    drpg("audit", "second", "--before", "first", "--out", "audit")

    rows = list(csv.DictReader((workdir / "audit/tables/pairs.csv").read_text().splitlines()))
    assert [(row["run"], row["items"], row["before"]) for row in rows] == [
        ("second against first", "8", "0")
    ]
    assert int(rows[0]["after"]) == int(rows[0]["repaired"]) > 0
    flips = (workdir / "audit/tables/flips.csv").read_text()
    assert "sum-" in flips


def test_what_was_adopted_in_a_stream_is_shown_with_its_flips(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--optimizer", "zero_shot", "--limit", "8")
    run(
        "--name", "second", "--lm", "scripted/tiny_bench:coached", "--limit", "8",
        "--optimizer", "nlpg", "--set", "gate=null", "--set", "window=2",
    )  # fmt: skip

    page = Path(drpg("audit", "second", "--before", "first", "--out", "audit").stdout.strip())

    shown = page.read_text()
    assert "was adopted after 2 verdicts" in shown
    assert shown.count("<summary>repaired: sum-") == 6
    assert "It was not tried on the same items." in shown
    decisions = list(csv.DictReader((workdir / "audit/tables/decisions.csv").open()))
    assert [row["outcome"] for row in decisions].count("adopted") == 1


def test_what_cannot_be_audited_says_what_to_do(
    run: Drpg, epochs: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--limit", "2", "--name", "stream")
    said = drpg("audit", "stream", "--out", "audit", exit_code=2).stderr
    assert "--before RUN" in said
    (workdir / "crash_after").write_text("0")
    epochs(exit_code=130)
    said = drpg("audit", "first", "--out", "audit", exit_code=2).stderr
    assert "drpg resume first" in said


def test_parts_that_do_not_fit_are_refused_before_a_model_is_asked(epochs: Drpg) -> None:
    said = epochs("--construction", "40", exit_code=2).stderr

    assert "12 examples in 12 groups are too few for 40 construction" in said
    assert list_runs() == []
