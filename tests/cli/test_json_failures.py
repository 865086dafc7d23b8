"""What a program reads that called ``drpg … --json`` and got a failure: one JSON value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from drpg_dspy.cli import cli
from drpg_dspy.cli.app import Group
from drpg_dspy.streaming import RunFolder

Drpg = Callable[..., Result]
TINY = "tiny_bench:BENCHMARK"
LM = "scripted/tiny_bench:calculator"
RUN = ("run", TINY, "--lm", LM, "--embedder", "hashing", "--no-mlflow", "--name", "second")

FAILURES = [
    (2, ("runn",), "Did you mean 'run'?"),
    (2, ("run", "tiny_bench:NOTHING", "--lm", LM), "has no 'NOTHING'"),
    (2, ("run", TINY), "Missing option '--lm'"),
    (2, (*RUN, "--set", "k=abc"), "got 'abc'"),
    (2, (*RUN, "--limit", "many"), "'many' is not a valid integer"),
    (1, (*RUN, "--lm", "local/smollm2-135m"), "drpg lm pull smollm2-135m"),
    (2, ("resume", "frist"), "There is no run 'frist'"),
    (2, ("show", "frist"), "There is no run or learner 'frist'"),
    (1, ("show", "empty"), "has no steps yet"),
    (1, ("show", "broken"), "'broken' is damaged"),
    (2, ("show", "empty", "--html", "nowhere/x.html"), "no folder 'nowhere'"),
    (2, ("policy", "log", "frist"), "Did you mean 'first'?"),
    (2, ("policy", "show", "empty"), "Missing argument"),
    (2, ("score", TINY, "--predictions", "none.txt"), "none.txt"),
    (1, ("score", TINY, "--predictions", "tiny_bench.py"), "lines"),
    (2, ("sweep", "none.toml", "--lm", LM), "none.toml"),
    (2, ("list", "everything"), "everything"),
    (2, ("lm", "list", "--all"), "--all"),
]


@pytest.fixture
def runs(run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRPG_HOME", str(workdir / "models"))
    run("--limit", "1")
    config = RunFolder.open("first").config
    RunFolder.create("empty", config)
    (RunFolder.create("broken", config).path / "config.json").write_text("{")


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("code", "arguments", "said"), FAILURES, ids=lambda v: str(v)[-50:])
def test_a_failure_is_an_object_with_the_message_and_the_exit_code(
    drpg: Drpg, code: int, arguments: tuple[str, ...], said: str
) -> None:
    result = drpg(*arguments, "--json", exit_code=code)

    told = json.loads(result.stdout)
    assert set(told) == {"error", "exit_code"}
    assert told["exit_code"] == code
    if said != "lines":
        assert said in " ".join(told["error"].split())
    assert told["error"].split()[0] in result.stderr


def test_without_json_stdout_stays_empty(drpg: Drpg) -> None:
    assert drpg("show", "frist", exit_code=2).stdout == ""


def test_help_is_help_also_with_json() -> None:
    assert "Usage:" in CliRunner().invoke(cli, ["show", "--json", "--help"]).stdout


def test_a_report_that_was_printed_stands_alone(run: Drpg) -> None:
    failed = run("--lm", "scripted/tiny_bench:locked", "--json", exit_code=1)

    assert json.loads(failed.stdout)["status"].startswith("failed: ")
    assert "revoked" in failed.stderr


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt("to go on: drpg resume x"), 130, "drpg resume x"),
        (PermissionError(13, "Permission denied", "/some/file"), 1, "/some/file cannot be used"),
        (AttributeError("a fault of ours"), 1, "a fault of ours"),
    ],
)
def test_an_interrupt_and_a_fault_are_told_as_well(
    error: BaseException, code: int, said: str
) -> None:
    group = Group("group")

    @group.command()
    @click.option("--json", is_flag=True)
    def fail(json: bool) -> None:
        raise error

    told = json.loads(CliRunner().invoke(group, ["fail", "--json"]).stdout)

    assert (told["exit_code"], said in told["error"]) == (code, True)


def test_a_dry_run_of_a_sweep_is_a_list(drpg: Drpg, workdir: Path) -> None:
    path = workdir / "a cell.toml"
    path.write_text(f'benchmark = "{TINY}"\n')

    said = drpg("sweep", str(path), "--lm", LM, "--dry-run")
    (row,) = json.loads(drpg("sweep", str(path), "--lm", LM, "--dry-run", "--json").stdout)

    assert row["command"][:3] == ["drpg", "run", "--config"]
    assert f"'{path}'" in said.stdout  # quoted, so that a shell takes it for one word
