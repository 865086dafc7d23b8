"""``drpg score``: predictions from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

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
    }  # fmt: skip


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
