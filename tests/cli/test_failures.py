"""Runs in which steps fail: exit codes, one message, and the way on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.streaming import Retry

Drpg = Callable[..., Result]
DEAD = ("--lm", "scripted/tiny_bench:dead")
LOCKED = ("--lm", "scripted/tiny_bench:locked")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retry, "wait", lambda *_: None)


def test_a_dead_model_stops_the_run_with_the_reason_once_and_the_way_on(run: Drpg) -> None:
    result = run(*DEAD, "--stop-after-failures", "2", exit_code=1)

    assert "the server is down" in result.stderr
    assert "drpg resume first" in result.stderr
    assert "2 failed" in result.stdout
    assert "Traceback" not in result.stderr
    assert (result.stdout + result.stderr).count("2 steps failed in a row") == 1


def test_a_run_without_any_answer_fails_however_short_it_is(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    result = run(*DEAD, "--limit", "2", exit_code=1)

    assert "no step was answered, 2 failed; the last: LMUnexpectedError" in result.stderr
    assert "drpg resume first" in result.stderr
    assert "0 right of 2" in result.stdout
    shown = as_json("show", "first")
    assert (shown["n"], shown["failed"]) == (2, 2)
    assert shown["status"].startswith("failed: no step was answered, 2 failed")
    assert "failed: no step was answered" in drpg("list", "runs").stdout
    assert "not finished: no step was answered, 2 failed" in drpg("show", "first").stdout


def test_a_run_without_any_answer_fails_also_where_nothing_was_to_stop_it(run: Drpg) -> None:
    never = ("--limit", "6", "--stop-after-failures", "0")
    assert "no step was answered, 6 failed" in run(*DEAD, *never, exit_code=1).stderr

    spent = run(*DEAD, "--overwrite", "--budget-calls", "3", exit_code=1).stderr
    assert "no step was answered, 1 failed; the budget of 3 LM calls" in spent


def test_what_failed_is_asked_again_by_a_resume(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    run(*LOCKED, "--limit", "3", "--stop-after-failures", "0", exit_code=1)
    assert drpg("resume", "first", exit_code=1).stderr.count("revoked") == 1
    (workdir / "key").touch()

    drpg("resume", "first")

    shown = as_json("show", "first")
    assert (shown["n"], shown["failed"], shown["status"]) == (3, 0, "finished")


def test_a_run_in_which_some_steps_failed_succeeds_and_counts_them(run: Drpg) -> None:
    result = run("--lm", "scripted/tiny_bench:clumsy")

    assert "1 failed" in result.stdout
    assert "not finished" not in result.stdout
    assert "Error" not in result.stderr.replace("KeyError", "").replace("LMUnexpectedError", "")


def test_the_json_report_of_a_failed_run_says_why(run: Drpg) -> None:
    report = json.loads(run(*DEAD, "--limit", "1", "--json", exit_code=1).stdout)

    assert report["failed"] == report["n"] == 1
    assert report["stopped"].startswith("no step was answered, 1 failed")


def test_a_model_that_refuses_stops_the_run_at_once_with_one_message(
    run: Drpg, as_json: Callable[..., Any]
) -> None:
    result = run(*LOCKED, exit_code=1)

    said = "scripted/locked cannot be used: This key was revoked."
    assert (result.stdout + result.stderr).count("revoked") == 1
    assert said in result.stderr
    assert "drpg resume first" in result.stderr
    assert as_json("show", "first")["n"] == 1


def test_a_refused_step_is_asked_again_and_the_answers_are_those_of_a_run_with_a_key(
    run: Drpg, drpg: Drpg, as_json: Callable[..., Any], workdir: Path
) -> None:
    def answers() -> list[Any]:
        return [
            (step["outputs"], step["policy_texts"]) for step in as_json("show", "first")["steps"]
        ]

    run(*LOCKED, exit_code=1)
    (workdir / "key").touch()
    drpg("resume", "first")
    resumed = answers()
    run(*LOCKED, "--overwrite")

    assert answers() == resumed
    assert len(resumed) == 12


def test_a_missing_key_is_named_as_the_variable_to_set(
    run: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    result = run("--lm", "openai/gpt-4.1-mini", exit_code=1)

    assert (
        "Error: openai/gpt-4.1-mini cannot be used: no API key was found. Set OPENAI_API_KEY."
        in result.stderr
    )
    assert "1 failed" in result.stdout


def test_a_policy_writer_without_a_key_stops_the_run_at_its_first_policy(run: Drpg) -> None:
    result = run("--policy-lm", "scripted/tiny_bench:locked", exit_code=1)

    assert "scripted/locked cannot be used" in result.stderr
    assert "0 right of 2" in result.stdout


def test_a_run_that_was_killed_is_said_once_to_be_unfinished(
    run: Drpg, drpg: Drpg, workdir: Path
) -> None:
    (workdir / "crash_after").write_text("0")
    run(exit_code=130)

    assert drpg("show", "first").stdout.count("not finished") == 1
