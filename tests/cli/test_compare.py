from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

TINY = "tiny_bench:BENCHMARK"
LM = "scripted/tiny_bench:calculator"

Drpg = Callable[..., Result]


@pytest.fixture
def compare(drpg: Drpg) -> Drpg:
    """Compare on the tiny benchmark without MLflow, plus what is given."""

    def call(*arguments: str, exit_code: int = 0) -> Result:
        return drpg(
            "compare", TINY, "--lm", LM, "--embedder", "hashing", "--no-mlflow", "--train", "6",
            "--test", "4", *arguments, exit_code=exit_code,
        )  # fmt: skip

    return call


def test_a_comparison_prints_its_table_and_writes_its_page(compare: Drpg, workdir: Path) -> None:
    result = compare("--optimizers", "zero_shot,drpg", "--budget-calls", "20")

    assert result.stdout.splitlines()[0].startswith("method")
    assert "zero_shot" in result.stdout
    page = workdir / ".drpg" / "compare" / "tiny_bench-BENCHMARK-tiny_bench-calculator"
    assert str(page.relative_to(workdir) / "index.html") in result.stdout
    assert "held-out" in (page / "index.html").read_text()


def test_json_alone_stands_on_stdout_whatever_dspy_prints(compare: Drpg) -> None:
    result = compare(
        "--optimizers", "zero_shot,bootstrap_random_search", "--budget-calls", "60", "--json"
    )

    plain: Any = json.loads(result.stdout)
    assert [column["name"] for column in plain["columns"]] == [
        "zero_shot",
        "bootstrap_random_search",
    ]
    assert plain["baseline"] == "zero_shot"


def test_the_same_command_again_keeps_what_is_finished(compare: Drpg) -> None:
    compare("--optimizers", "zero_shot", "--budget-calls", "20", "--out", "here")
    result = compare("--optimizers", "zero_shot,drpg", "--budget-calls", "20", "--out", "here")

    assert "zero_shot: finished already" in result.stderr
    assert "drpg: meeting 6 examples" in result.stderr


def test_another_budget_in_the_same_folder_is_refused(compare: Drpg) -> None:
    compare("--optimizers", "zero_shot", "--budget-calls", "20", "--out", "here")
    result = compare(
        "--optimizers", "zero_shot", "--budget-calls", "21", "--out", "here", exit_code=1
    )

    assert "stored" in result.stderr
    assert "budget" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizers", "zero_shot"], "Say what learning may spend"),
        (["--optimizers", "drgp", "--budget-calls", "9"], "There is no optimizer 'drgp'"),
        (["--optimizers", "drpg+gepa", "--budget-calls", "9"], "first must learn offline"),
        (["--test", "40", "--budget-calls", "9"], "There are 12 questions, fewer than 6 + 40"),
    ],
)
def test_a_wrong_option_is_named(compare: Drpg, arguments: list[str], message: str) -> None:
    result = compare(*arguments, exit_code=2)

    assert message in " ".join(result.stderr.split())
