"""A reader that goes away, and errors that nobody explained."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drpg_dspy.cli.app import Group

Drpg = Callable[..., Result]
COMMANDS = [
    ["show", "first"],
    ["show", "first", "--json"],
    ["policy", "log", "first"],
    ["list"],
    ["score", "tiny_bench:BENCHMARK", "--predictions", "said.txt", "--json"],
    ["--help"],
]


def test_a_reader_that_went_away_ends_every_command_quietly(run: Drpg, workdir: Path) -> None:
    run("--limit", "3", "--set", "writer=case", "--set", "feedback_text=true")
    (workdir / "said.txt").write_text("x\n" * 12)
    started = []
    for command in COMMANDS:
        process = subprocess.Popen(
            [sys.executable, "-m", "drpg_dspy", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.close()  # before anything was written
        process.stdout = None
        started.append(process)

    for command, process in zip(COMMANDS, started, strict=True):
        _, said = process.communicate()
        assert (process.returncode, said) == (141, b""), command


def test_head_takes_what_it_wants_and_nothing_is_said(run: Drpg, workdir: Path) -> None:
    run("--limit", "3")

    done = subprocess.run(
        f"{sys.executable} -m drpg_dspy show first | head -n 1",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.startswith("first: drpg on tiny_bench")
    assert done.stderr == ""


def test_a_pipe_that_broke_elsewhere_is_an_error() -> None:
    group = Group("broken")

    @group.command()
    def fail() -> None:
        raise BrokenPipeError("the judge's worker is gone")

    result = CliRunner().invoke(group, ["fail"])

    assert result.exit_code == 1
    assert "the judge's worker is gone" in result.stderr


HERE = "explained_here"


@pytest.mark.parametrize(
    ("source", "explained"),
    [
        ("import drpg_dspy.streaming as s; s.Retry(-1)", True),
        ("from drpg_dspy.exceptions import StorageError; raise StorageError('full')", True),
        ("raise ValueError('mine')", False),
        ("int('abc')", False),
        ("import json; json.loads('{')", False),
        ("from pathlib import Path; Path('nowhere').read_text()", False),
    ],
)
def test_where_to_look_is_said_only_of_errors_that_nobody_explained(
    workdir: Path, source: str, explained: bool
) -> None:
    group = Group("broken")

    @group.command()
    def fail() -> None:
        exec(compile(source, HERE, "exec"), {"__name__": "someones.module"})

    result = CliRunner().invoke(group, ["fail"])

    assert result.exit_code == 1
    assert ("--debug shows where this was raised" in result.stderr) is not explained


def test_a_value_error_that_python_raised_in_a_line_of_ours_is_not_explained() -> None:
    group = Group("broken")

    @group.command()
    def fail() -> None:
        exec(compile("int('abc')", HERE, "exec"), {"__name__": "drpg_dspy.somewhere"})

    result = CliRunner().invoke(group, ["fail"])

    assert "--debug shows where this was raised" in result.stderr
