"""A working directory with a tiny benchmark in it, and the command line to run there."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from drpg_dspy.cli import cli

TINY = "tiny_bench:BENCHMARK"
LM = "scripted/tiny_bench:calculator"

Drpg = Callable[..., Result]


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change into an empty folder that holds ``tiny_bench.py`` and nothing else."""
    shutil.copy(Path(__file__).with_name("tiny_bench.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRPG_RUNS", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("tiny_bench", None)
    yield tmp_path
    sys.modules.pop("tiny_bench", None)


@pytest.fixture
def drpg(workdir: Path) -> Drpg:
    """Call ``drpg`` with the given arguments; fails unless it exits as expected."""

    def call(*arguments: str, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(cli, list(arguments))
        problem = f"{arguments}\n{result.output}\n{result.stderr}"
        if result.exception and not isinstance(result.exception, SystemExit):
            raise AssertionError(problem) from result.exception
        assert result.exit_code == exit_code, problem
        return result

    return call


@pytest.fixture
def run(drpg: Drpg) -> Drpg:
    """Run the tiny benchmark without MLflow under the name ``first``, plus what is given."""

    def call(*arguments: str, exit_code: int = 0) -> Result:
        return drpg(
            "run", TINY, "--lm", LM, "--embedder", "hashing", "--no-mlflow", "--name", "first",
            *arguments, exit_code=exit_code,
        )  # fmt: skip

    return call


@pytest.fixture
def as_json(drpg: Drpg) -> Callable[..., Any]:
    """Call ``drpg`` with ``--json`` and return what stdout holds, which must be JSON alone."""

    def call(*arguments: str) -> Any:
        return json.loads(drpg(*arguments, "--json").stdout)

    return call


@pytest.fixture
def change_judge(workdir: Path) -> Callable[[str], None]:
    """Let a statement about ``judge`` run whenever the tiny benchmark makes its judge."""

    def change(statement: str) -> None:
        with (workdir / "tiny_bench.py").open("a", encoding="utf-8") as file:
            file.write(
                f"""
import dataclasses
def changed(data=None, compare="exact", make=evaluator):
    judge = make(data, compare)
    {statement}
    return judge
BENCHMARK = dataclasses.replace(BENCHMARK, evaluator=changed)
"""
            )

    return change
