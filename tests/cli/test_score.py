"""``drpg score``: predictions from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from drpg_dspy.cli import names

Drpg = Callable[..., Result]
TINY = "tiny_bench:BENCHMARK"


def predictions(workdir: Path) -> str:
    (workdir / "said.txt").write_text("2 units\n" + "wrong\n" * 11)
    return "said.txt"


def test_json_is_one_object_with_exactly_the_documented_keys(drpg: Drpg, workdir: Path) -> None:
    out = drpg("score", TINY, "--predictions", predictions(workdir), "--json").stdout

    assert out.count("\n") == 1
    assert json.loads(out) == {
        "benchmark": "tiny_bench", "score": 1 / 12, "n": 12, "correct": 1, "not_judged": 0,
        "missing": 0, "uninformative": 0, "compare": "exact", "compare_version": "",
    }  # fmt: skip


def test_rows_without_a_prediction_are_counted(drpg: Drpg, workdir: Path) -> None:
    (workdir / "said.txt").write_text("2 units\n\n   \n" + "wrong\n" * 9)

    said = json.loads(drpg("score", TINY, "--predictions", "said.txt", "--json").stdout)
    assert (said["n"], said["correct"], said["missing"]) == (12, 1, 2)
    assert "2 without a prediction" in drpg("score", TINY, "--predictions", "said.txt").stdout


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("benchmark", [*names.benchmark_names(), TINY])
def test_an_empty_file_is_refused_whatever_the_benchmark(
    drpg: Drpg, workdir: Path, benchmark: str, content: bytes
) -> None:
    (workdir / "said.txt").write_bytes(content)
    arguments = () if names.benchmark(benchmark).read_predictions else ("--json",)

    result = drpg("score", benchmark, "--predictions", "said.txt", *arguments, exit_code=1)
    wanted = "said.txt is empty: it holds no prediction." if not arguments else "not scored from"
    assert wanted in result.stderr


def test_the_scoring_is_named_with_what_was_counted(drpg: Drpg, workdir: Path) -> None:
    (workdir / "said.txt").write_text("2 units\n" + "4\n" * 11)

    out = drpg("score", TINY, "--predictions", "said.txt", "--compare", "loose").stdout
    assert "scoring: loose" in out
    said = drpg("score", TINY, "--predictions", "said.txt", "--compare", "loose", "--json").stdout
    assert json.loads(said)["compare"] == "loose"


def test_a_report_says_what_proves_nothing_and_over_how_many_rows_a_mean_is(
    drpg: Drpg, workdir: Path
) -> None:
    (workdir / "counting.py").write_text(
        "import dataclasses, dspy, tiny_bench\n"
        "def evaluator(data=None, compare='exact'):\n"
        "    def judge(example, pred, trace=None):\n"
        "        first = example.id == 'sum-1'\n"
        "        return dspy.Prediction(score=1.0, informative=first, subscores={'f1': 0.5}\n"
        "                               if first else {})\n"
        "    judge.compare_version = '3'\n"
        "    return judge\n"
        "BENCHMARK = dataclasses.replace(tiny_bench.BENCHMARK, evaluator=evaluator)\n"
    )
    said = ("score", "counting:BENCHMARK", "--predictions", predictions(workdir))

    text = drpg(*said).stdout.splitlines()
    assert text[2:] == [
        "11 verdicts count but prove nothing; --rows says which and why",
        "f1: 50.0 % on average over 1",
        "scoring: exact, version 3",
    ]
    plain = json.loads(drpg(*said, "--json").stdout)
    assert (plain["uninformative"], plain["compare_version"]) == (11, "3")
    assert (plain["subscores"], plain["subscores_n"]) == ({"f1": 0.5}, {"f1": 1})


def test_an_unknown_part_names_the_one_that_may_be_meant(drpg: Drpg, workdir: Path) -> None:
    given = ("bird", "--load", "evidnce=false")
    (workdir / "said.txt").write_text("SELECT 1\n")

    for command in (("score", "--predictions", "said.txt"), ("run", "--lm", "local/none")):
        said = drpg(command[0], *given, *command[1:], exit_code=2).stderr
        assert "bird takes no argument 'evidnce'. Did you mean 'evidence'?" in said
        assert "It takes: descriptions, evidence, exclude_db, limit, split." in said


def test_text_says_metric_score_and_what_was_not_judged(drpg: Drpg, workdir: Path) -> None:
    out = drpg("score", TINY, "--predictions", predictions(workdir)).stdout

    assert "exact match 8.3 %" in out
    assert "1 right of 12, 0 not judged" in out


def test_rows_writes_one_verdict_a_row(drpg: Drpg, workdir: Path) -> None:
    drpg("score", TINY, "--predictions", predictions(workdir), "--rows", "rows.jsonl")

    rows = [json.loads(line) for line in (workdir / "rows.jsonl").read_text().splitlines()]
    assert [row["score"] for row in rows] == [1.0] + [0.0] * 11


def test_a_file_that_does_not_fit_fails_with_the_reason(drpg: Drpg, workdir: Path) -> None:
    (workdir / "said.txt").write_text("2 units\n")

    result = drpg("score", TINY, "--predictions", "said.txt", exit_code=1)

    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
