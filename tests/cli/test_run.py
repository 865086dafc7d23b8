"""``drpg run`` and ``drpg resume`` on a tiny benchmark with a scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Drpg = Callable[..., Result]
LM = "scripted/tiny_bench:calculator"


def test_a_run_learns_the_house_rule_and_reports_what_it_spent(run: Drpg) -> None:
    out = run("--set", "writer=case", "--set", "feedback_text=true").stdout

    assert "exact match" in out
    assert "11 right of 12" in out
    assert "0 not judged, 0 failed" in out
    for line in ("answering", "learning", "together", "tokens in", "LM calls"):
        assert line in out
    for command in ("drpg show first", "drpg policy log first", "history.jsonl"):
        assert command in out


def test_the_json_report_is_all_of_stdout(run: Drpg) -> None:
    report = json.loads(run("--json", "--limit", "3").stdout)

    assert report["name"] == "first"
    assert report["status"] == "finished"
    assert report["n"] == 3
    assert report["score"] == pytest.approx(2 / 3)
    assert report["config"]["options"] == {"k": 2}


def test_without_a_name_one_is_made_from_benchmark_optimizer_and_lm(drpg: Drpg) -> None:
    drpg("run", "tiny_bench:BENCHMARK", "--lm", LM, "--embedder", "hashing", "--no-mlflow",
         "--optimizer", "zero_shot", "--limit", "2")  # fmt: skip

    assert "tiny_bench-zero_shot-tiny_bench-calculator" in drpg("list", "runs").stdout


def test_the_limit_takes_the_first_questions_of_the_seeded_order(
    run: Drpg, as_json: Callable[..., Any]
) -> None:
    run("--limit", "2")
    two = [step["inputs"] for step in as_json("show", "first")["steps"]]
    run("--overwrite")
    twelve = [step["inputs"] for step in as_json("show", "first")["steps"]]

    assert two == twelve[:2]
    assert twelve != sorted(twelve, key=lambda inputs: int(inputs["question"].split()[2]))


def test_options_reach_the_benchmark_and_the_judge(run: Drpg) -> None:
    report = json.loads(
        run("--optimizer", "zero_shot", "--compare", "loose", "--exclude-db", "sum-3", "--json")
        .stdout
    )  # fmt: skip

    assert (report["n"], report["score"]) == (11, 1.0)


def test_an_option_that_the_benchmark_does_not_know_reaches_it_only_when_given(run: Drpg) -> None:
    run("--split", "dev", "--limit", "1")


def test_a_taken_name_is_refused_unless_overwritten(run: Drpg, drpg: Drpg) -> None:
    run("--limit", "1")
    refused = run("--limit", "2", exit_code=2).stderr
    run("--limit", "2", "--overwrite")

    assert "drpg resume first" in refused
    assert "--overwrite" in refused
    assert json.loads(drpg("show", "first", "--json").stdout)["n"] == 2


def test_a_mistake_in_the_settings_leaves_no_run_behind(run: Drpg, workdir: Path) -> None:
    run("--set", "contrast=sideways", exit_code=2)
    run("--lm", "scripted/tiny_bench:no_model", exit_code=2)

    assert not (workdir / ".drpg" / "runs").exists()


def test_a_spent_budget_ends_the_run_well_and_more_of_it_continues(run: Drpg, drpg: Drpg) -> None:
    report = json.loads(run("--optimizer", "zero_shot", "--budget-calls", "4", "--json").stdout)
    again = drpg("resume", "first").stdout
    finished = json.loads(drpg("resume", "first", "--no-budget", "--json").stdout)

    assert (report["n"], report["lm_calls"]) == (4, 4)
    assert "budget of 4 LM calls" in report["stopped"]
    assert "4 right of 4" not in again
    assert "not finished: the budget of 4 LM calls" in again
    assert (finished["n"], finished["status"]) == (12, "finished")


def test_an_interrupted_run_resumes_to_the_same_table(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    settings = ("--set", "writer=case", "--delay", "1")
    run(*settings)
    whole = as_json("show", "first")
    crash = workdir / "crash_after"
    answered = sys.modules["tiny_bench"]._answered
    crash.write_text(str(answered + 5))
    interrupted = run(*settings, "--overwrite", exit_code=130)
    crash.unlink()
    half = as_json("show", "first")
    drpg("resume", "first")
    resumed = as_json("show", "first")

    assert "drpg resume first" in interrupted.stderr
    assert half["status"] == "interrupted"
    assert half["n"] == 5
    assert resumed["steps"] == whole["steps"]
    assert resumed["status"] == "finished"


def test_a_killed_process_is_resumed_by_the_next(run: Drpg, drpg: Drpg, workdir: Path) -> None:
    (workdir / "hang_after").write_text("4")
    process = subprocess.Popen(
        [sys.executable, "-m", "drpg_dspy", "run", "tiny_bench:BENCHMARK", "--lm", LM,
         "--embedder", "hashing", "--no-mlflow", "--name", "killed"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (workdir / "hanging").exists():
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    (workdir / "hang_after").unlink()
    run()
    drpg("resume", "killed")

    whole, killed = (
        json.loads(drpg("show", name, "--json").stdout)["steps"] for name in ("first", "killed")
    )
    assert killed == whole


def test_mlflow_is_told_of_the_run_where_it_is_installed(
    run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{workdir / 'mlflow.db'}"

    out = run("--mlflow", "--tracking-uri", uri, "--experiment", "tiny", "--limit", "3").stdout

    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tiny")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.data.params["optimizer"] == "drpg"
    assert found.data.params["benchmark"] == "tiny_bench:BENCHMARK"
    assert not any("uri" in name for name in found.data.params)
    assert f"mlflow ui --backend-store-uri {uri}" in out


def test_what_a_tracker_missed_is_sent_when_a_finished_run_is_resumed(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--limit", "2")
    history = workdir / ".drpg" / "runs" / "first" / "history.jsonl"
    told = len(history.read_text().splitlines())
    history.unlink()

    drpg("resume", "first")

    assert len(history.read_text().splitlines()) == told


def test_without_mlflow_the_run_is_reported_to_a_file_and_says_so(
    drpg: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drpg_dspy.cli.settings.has_mlflow", lambda: False)

    result = drpg("run", "tiny_bench:BENCHMARK", "--lm", LM, "--embedder", "hashing",
                  "--limit", "2", "--name", "plain")  # fmt: skip

    assert "pip install 'drpg-dspy[mlflow]'" in result.stderr
    history = workdir / ".drpg" / "runs" / "plain" / "history.jsonl"
    assert len(history.read_text().splitlines()) >= 2
