"""``drpg report`` on runs that the command line itself made."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Drpg = Callable[..., Result]

CASES = ("--set", "writer=case", "--set", "feedback_text=true")


@pytest.fixture
def runs(run: Drpg) -> None:
    """Make runs of six questions: zero-shot, DRPG; and a shorter one, Self-StreamICL."""
    run("--name", "zero", "--optimizer", "zero_shot", "--limit", "6")
    run("--name", "new", *CASES, "--limit", "6")
    run("--name", "short", "--optimizer", "self_stream_icl", "--limit", "4")


def score(method: str, folder: str = "out") -> str:
    text = (Path(folder) / "tables" / "runs.csv").read_text(encoding="utf-8")
    return next(r["score %"] for r in csv.DictReader(text.splitlines()) if r["method"] == method)


@pytest.mark.usefixtures("runs")
def test_runs_are_compared_by_name(drpg: Drpg) -> None:
    result = drpg("report", "zero", "new", "--out", "out")

    assert result.stdout.strip() == str(Path("out") / "index.html")
    # Zero-shot never says the units; DRPG learns to after its first mistake.
    assert (score("zero_shot"), score("drpg")) == ("0.0", "83.3")
    page = Path("out/index.html").read_text(encoding="utf-8")
    assert "tiny_bench (n = 6): exact match %" in page
    assert "End every answer with the word units." in page


@pytest.mark.usefixtures("runs")
def test_runs_are_found_by_pattern_and_by_folder(drpg: Drpg) -> None:
    drpg("report", "*e*", ".drpg/runs/zero", "--out", "out", "--policy-step", "2")

    assert (score("zero_shot"), score("drpg")) == ("0.0", "83.3")
    assert "Policies at step 2" in Path("out/index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("runs")
def test_a_shorter_stream_is_refused_without_common(drpg: Drpg) -> None:
    refused = drpg("report", "zero", "short", "--out", "out", exit_code=2)

    assert "They differ in: questions, data fingerprint, limit" in refused.stderr
    assert "--common" in refused.stderr
    assert not Path("out").exists()

    cut = drpg("report", "zero", "new", "short", "--common", "--out", "out")

    assert "cut to the first 4 questions" in cut.stderr
    assert (score("zero_shot"), score("drpg")) == ("0.0", "75.0")


@pytest.mark.usefixtures("runs")
def test_runs_under_another_scoring_are_refused(drpg: Drpg, run: Drpg) -> None:
    run("--name", "loose", "--compare", "loose", "--limit", "6")

    refused = drpg("report", "zero", "loose", "--out", "out", exit_code=2)

    assert "scored in different ways" in refused.stderr
    assert "scoring loose" in refused.stderr
    assert "--common" not in refused.stderr


def test_a_run_writes_down_by_which_version_it_was_scored_and_the_report_says_so(
    drpg: Drpg, run: Drpg, change_judge: Callable[[str], None]
) -> None:
    change_judge('judge.compare_version = "7"')
    run("--limit", "2", "--set", "k=6")

    drpg("report", "first", "--out", "out")

    text = Path("out/tables/settings.csv").read_text(encoding="utf-8")
    (row,) = csv.DictReader(text.splitlines())
    assert (row["scoring"], row["embedder"], row["limit"], row["arguments"]) == (
        "exact (version 7)", "hashing", "2", "k=6",
    )  # fmt: skip


def test_the_k_of_the_benchmark_bears_the_plain_name(drpg: Drpg, run: Drpg) -> None:
    run("--name", "usual", "--limit", "2")
    run("--name", "more", "--limit", "2", "--k", "4")

    drpg("report", "usual", "more", "--out", "out")

    text = Path("out/tables/runs.csv").read_text(encoding="utf-8")
    methods = {row["run"]: row["method"] for row in csv.DictReader(text.splitlines())}
    assert methods == {"usual": "drpg", "more": "drpg (k=4)"}


@pytest.mark.usefixtures("runs")
def test_an_unknown_run_or_baseline_is_wrong_usage(drpg: Drpg) -> None:
    assert "Did you mean 'zero'?" in drpg("report", "zerro", "--out", "out", exit_code=2).stderr
    drpg("report", "nothing-*", "--out", "out", exit_code=2)
    wrong = drpg("report", "zero", "new", "--baseline", "ace", "--out", "out", exit_code=2)
    assert "There are: zero_shot, drpg" in wrong.stderr


def test_a_run_or_a_folder_that_is_missing_is_wrong_usage(drpg: Drpg) -> None:
    drpg("report", "--out", "out", exit_code=2)
    drpg("report", "first", exit_code=2)
