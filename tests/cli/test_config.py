from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli.config import read_config
from drpg_dspy.cli.run import run

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.toml"))
TINY = "tiny_bench:BENCHMARK"
LM = "scripted/tiny_bench:calculator"
Drpg = Callable[..., Result]
BENCHMARKS = ("spider", "cosql", "bird", "hotpotqa", "ddxplus", "ds1000")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: str(p.relative_to(ROOT / "configs")))
def test_every_file_of_settings_names_what_exists(path: Path) -> None:
    from drpg_dspy.cli import names
    from drpg_dspy.cli.methods import read_settings

    settings = read_config(path, run)

    benchmark = names.benchmark(settings["benchmark"])
    read_settings(settings["optimizer"], settings.get("settings", ()), settings.get("k"), benchmark)
    assert path.stem.startswith(f"{settings['benchmark']}-{settings['optimizer'].split('_')[0]}")


def test_table_1_is_complete_with_the_papers_k() -> None:
    cells = {
        (settings["benchmark"], settings["optimizer"]): settings.get("k")
        for path in (ROOT / "configs" / "table1").glob("*.toml")
        for settings in [read_config(path, run)]
    }

    for benchmark in BENCHMARKS:
        k = 4 if benchmark in {"hotpotqa", "ds1000"} else 16
        assert cells[benchmark, "drpg"] == cells[benchmark, "self_stream_icl"] == k
        assert (benchmark, "zero_shot") in cells
        assert (benchmark, "self_refine") in cells
    assert len(cells) == 24


CELL = """
benchmark = "tiny_bench:BENCHMARK"
optimizer = "drpg"
embedder = "hashing"
mlflow = false
limit = 4

[set]
writer = "case"
feedback_text = true

[load]
exclude_db = ["sum-1"]
"""


@pytest.fixture
def cell(workdir: Path) -> Path:
    path = workdir / "cell.toml"
    path.write_text(CELL)
    return path


def test_a_run_takes_its_settings_from_a_file(
    drpg: Drpg, cell: Path, as_json: Callable[..., Any]
) -> None:
    drpg("run", "--config", str(cell), "--lm", LM, "--name", "first")

    config = as_json("show", "first")["config"]
    assert config["limit"] == 4
    assert config["options"] == {"writer": "case", "feedback_text": True, "k": 2}
    assert config["extra"]["load"] == {"exclude_db": ["sum-1"]}


def test_a_byte_order_mark_is_no_part_of_the_settings(cell: Path, as_json: Any, drpg: Drpg) -> None:
    cell.write_bytes(cell.read_bytes().decode().encode("utf-8-sig"))

    assert read_config(cell, run)["benchmark"] == TINY
    assert drpg("sweep", str(cell), "--lm", LM, "--dry-run").exit_code == 0


def test_what_is_given_beside_the_file_wins(
    drpg: Drpg, cell: Path, as_json: Callable[..., Any]
) -> None:
    drpg("run", "--config", str(cell), "--lm", LM, "--name", "first", "--limit", "2",
         "--set", "feedback_text=false", "--load", "exclude_db=[]")  # fmt: skip

    config = as_json("show", "first")["config"]
    assert config["limit"] == 2
    assert config["options"] == {"writer": "case", "feedback_text": False, "k": 2}
    assert config["extra"]["load"] == {"exclude_db": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimiser = 'drpg'", "Did you mean 'optimizer'?"),
        ("name = 'x'", "no setting 'name'"),
        ("k = ", "cannot be read as TOML"),
        ("set = 3", "[set] must be a table"),
        ("benchmark = 'spidr'", "Did you mean 'spider'?"),
        ("k = 0", "k: 0 is not in the range x>=1."),
        ("limit = '100'", "limit must be a whole number, got '100'."),
        ("limit = 2.5", "limit must be a whole number, got 2.5."),
        ("seed = true", "seed must be a whole number, got True."),
        ("temperature = 'warm'", "temperature must be a number, got 'warm'."),
        ("holdout = 0.9", "holdout: 0.9 is not in the range"),
        ("mlflow = 'no'", "mlflow must be true or false, got 'no'."),
        ("exclude_db = 'sum-1'", "exclude_db must be a list, e.g. [\"sum-1\"], got 'sum-1'."),
        ("exclude_db = [1]", "each of exclude_db must be text in quotes, got 1."),
        ("optimizer = 3", "optimizer must be text in quotes, got 3."),
        ("optimizer = 'drgp'", "optimizer: There is no optimizer 'drgp'. Did you mean 'drpg'?"),
        ("[load]\nday = 2026-12-01", "day in [load] must be text"),
        ("compare = 'lose'", "Did you mean 'loose'?"),
        ("[set]\nwriters = 'case'", "Did you mean 'writer'?"),
    ],
)
def test_a_mistake_in_the_file_is_named(drpg: Drpg, workdir: Path, text: str, message: str) -> None:
    path = workdir / "wrong.toml"
    path.write_text(text if "benchmark" in text else f'benchmark = "tiny_bench:BENCHMARK"\n{text}')

    result = drpg("run", "--config", str(path), "--lm", LM, exit_code=2)

    said = " ".join(result.stderr.split())
    assert message in said
    assert str(path) in said


def test_a_value_of_the_command_line_is_not_blamed_on_the_file(
    drpg: Drpg, cell: Path, workdir: Path
) -> None:
    given = ("run", "--config", str(cell), "--lm", LM)

    said = drpg(*given, "--compare", "lose", exit_code=2).stderr

    assert "Did you mean 'loose'?" in " ".join(said.split())
    assert str(cell) not in said


def test_a_guarded_run_counts_both_arms_and_resumes(
    drpg: Drpg, as_json: Callable[..., Any]
) -> None:
    given = ("--embedder", "hashing", "--no-mlflow", "--holdout", "0.4", "--lm", LM)
    drpg("run", TINY, *given, "--name", "cut", "--limit", "5")
    drpg("resume", "cut", "--limit", "12")
    drpg("run", TINY, *given, "--name", "whole")

    cut, whole = as_json("show", "cut")["steps"], as_json("show", "whole")["steps"]

    assert [step["outputs"] for step in cut] == [step["outputs"] for step in whole]
    arms = [name for step in whole for name in step["counts"]]
    assert arms.count("policy_given") > 2
    assert arms.count("policy_withheld") > 1


def test_agents_take_turns_on_the_command_line(drpg: Drpg, as_json: Callable[..., Any]) -> None:
    given = ("--embedder", "hashing", "--no-mlflow", "--optimizer", "mam_stream_icl", "--lm", LM)
    agents = f"lms={LM},scripted/tiny_bench:clumsy"
    drpg("run", TINY, *given, "--set", agents, "--name", "cut", "--limit", "5")
    drpg("resume", "cut", "--limit", "12")

    steps = as_json("show", "cut")["steps"]

    assert [list(step["counts"]) for step in steps] == [["agent_0"], ["agent_1"]] * 6
    missing = drpg("run", TINY, *given, "--name", "none", exit_code=2)
    assert "needs its models" in missing.stderr
