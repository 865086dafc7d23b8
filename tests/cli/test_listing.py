"""``drpg list``, ``drpg lm list`` and ``drpg memory reindex``."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy import weights
from drpg_dspy.cli import names
from drpg_dspy.cli.lm import PullProgress
from drpg_dspy.weights import Progress

Drpg = Callable[..., Result]


def test_every_program_is_listed_with_metric_paper_and_licence(as_json: Callable[..., Any]) -> None:
    listed = {entry["name"]: entry for entry in as_json("list", "benchmarks")}

    assert {"house_rules", "spider"} <= set(listed)
    assert listed["spider"]["k"] == 16
    assert all(entry["metric"] and entry["licence"] for entry in listed.values())
    assert listed["house_rules"]["status"] == "230 questions are here"
    assert "DRPG_DS1000_PYTHON" in listed["ds1000"]["note"]
    assert listed["spider"]["note"] == ""


def test_missing_data_is_said_with_what_gets_it(
    as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRPG_DATA", str(tmp_path))

    listed = {entry["name"]: entry["status"] for entry in as_json("list", "benchmarks")}

    assert listed["spider"].startswith("missing. ")
    assert "spider_data.zip" in listed["spider"]


def test_every_exported_method_is_listed_by_its_name(drpg: Drpg) -> None:
    out = drpg("list", "optimizers").stdout

    for name, cls in names.optimizer_classes().items():
        assert name in out
        assert cls.paper in out


def test_what_set_refuses_is_not_listed_under_set(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    out = drpg("list", "optimizers").stdout
    assert "policy_lm" not in out
    assert out.count("--policy-lm SPEC") == sum(
        "policy_lm" in inspect.signature(cls).parameters
        for cls in names.optimizer_classes().values()
    )
    for entry in as_json("list", "optimizers"):
        accepted = inspect.signature(names.optimizer_classes()[entry["name"]]).parameters
        assert set(filter(None, entry["arguments"].split(", "))) == set(accepted) - {"policy_lm"}


def test_runs_are_listed_with_their_status(
    drpg: Drpg, run: Drpg, as_json: Callable[..., Any]
) -> None:
    assert "none yet" in drpg("list", "runs").stdout
    run("--optimizer", "zero_shot", "--limit", "2")

    (entry,) = as_json("list", "runs")
    assert (entry["name"], entry["status"], entry["optimizer"]) == (
        "first", "finished", "zero_shot",
    )  # fmt: skip


def test_all_kinds_are_listed_together(as_json: Callable[..., Any]) -> None:
    assert set(as_json("list")) == {"benchmarks", "optimizers", "runs"}


def test_a_missing_programs_package_is_named_with_the_remedy(
    drpg: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names.importlib.util, "find_spec", lambda name: None)

    assert "pip install drpg-dspy" in drpg("list", "benchmarks", exit_code=1).stderr


def test_models_are_listed_with_size_and_whether_they_are_here(
    as_json: Callable[..., Any], workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRPG_HOME", str(workdir))

    listed = as_json("lm", "list")

    assert [entry["name"] for entry in listed] == weights.names()
    assert all(entry["path"] is None and entry["bytes"] > 0 for entry in listed)


def test_a_pull_prints_the_path_alone_on_stdout(
    drpg: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(name: str, *, progress: Any) -> Path:
        progress(Progress(name, "download", "hub", 1, 2, 50, 100))
        progress(Progress(name, "done"))
        return Path("/models") / name

    monkeypatch.setattr(weights, "pull", pull)

    result = drpg("lm", "pull", "smollm2-135m")

    assert result.stdout == "/models/smollm2-135m\n"
    assert "50 %" in result.stderr


def test_off_a_terminal_a_pull_writes_a_line_every_ten_percent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = PullProgress()
    for percent in range(100):
        show(Progress("m", "download", "packages", 1, 2, percent, 100))
    show(Progress("m", "check"))
    show(Progress("m", "done"))

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[-1] == "m: ready"


def test_a_cached_model_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    PullProgress()(Progress("m", "done"))

    assert capsys.readouterr().err == ""


def test_a_reindexed_run_is_searched_with_the_new_embedder(drpg: Drpg, run: Drpg) -> None:
    run("--limit", "3")

    assert "3 texts" in drpg("memory", "reindex", "first", "--embedder", "hashing").stdout
    result = drpg("memory", "reindex", "frist", "--embedder", "hashing", exit_code=2)
    assert "Did you mean 'first'?" in result.stderr


@pytest.fixture
def damaged(run: Drpg, workdir: Path) -> None:
    """Two runs, one of which has a settings file that was cut."""
    run("--limit", "2")
    shutil.copytree(workdir / ".drpg" / "runs" / "first", workdir / ".drpg" / "runs" / "broken")
    (workdir / ".drpg" / "runs" / "broken" / "config.json").write_text("{")


@pytest.mark.usefixtures("damaged")
def test_a_damaged_run_is_listed_as_one(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    listed = {row["name"]: row for row in as_json("list", "runs")}

    assert listed["first"]["status"] == "finished"
    assert listed["broken"]["status"].startswith("damaged: ")
    assert "Restore it from a copy" in listed["broken"]["status"]
    assert listed["broken"]["lm"] is None
    assert "  broken\n      damaged: " in drpg("list", "runs").stdout


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "first"),
        ("list", "runs"),
        ("policy", "log", "first"),
        ("report", "first", "--out", "out"),
        ("memory", "reindex", "first", "--embedder", "hashing:64"),
        ("feedback", "give", "first", "1", "--score", "1"),
    ],
    ids=lambda value: value[0],
)
def test_a_damaged_run_is_not_spoken_of_where_another_was_asked_for(
    drpg: Drpg, arguments: tuple[str, ...]
) -> None:
    assert "broken" not in drpg(*arguments).stderr


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "broken"),
        ("resume", "broken"),
        ("report", "broken", "--out", "out"),
        ("memory", "reindex", "broken", "--embedder", "hashing"),
    ],
    ids=lambda value: value[0],
)
def test_a_damaged_run_that_was_asked_for_says_so(drpg: Drpg, arguments: tuple[str, ...]) -> None:
    said = drpg(*arguments, exit_code=1).stderr

    assert "The run 'broken' is damaged: " in said
    assert "Restore it from a copy" in said


def test_a_reindexed_run_names_the_embedder_that_it_has_now(
    drpg: Drpg, run: Drpg, as_json: Callable[..., Any]
) -> None:
    run("--limit", "3")
    assert as_json("show", "first")["config"]["embedder"] == "hashing"

    drpg("memory", "reindex", "first", "--embedder", "hashing:64")

    assert as_json("show", "first")["config"]["embedder"] == "hashing:64"
    resumed = json.loads(drpg("resume", "first", "--limit", "4", "--json").stdout)
    assert resumed["config"]["embedder"] == "hashing:64"
