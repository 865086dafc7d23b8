"""How long the judges take on the data at hand, gold answers being judged.

    python benchmarks/judges.py --workers 2 --json
    DRPG_DS1000_PYTHON=.venv-ds1000/bin/python python benchmarks/judges.py --only ds1000

The answers are written to a file and scored by what ``drpg score`` runs, so the time holds
reading the data and starting the judges' processes. Every gold answer should be right; those
that are not are counted. Spider goes without the questions of ``wta_1``, whose tables hold no
rows in ``../shared/data``.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.scoring import score_predictions
from drpg_dspy.types import Benchmark

# Lines of a file of gold answers, and options of the scoring.
GOLD: dict[str, tuple[Callable[[Sequence[Any]], str], dict[str, Any]]] = {
    "hotpotqa": (lambda rows: json.dumps({"answer": {e.id: e.answer for e in rows}}), {}),
    "ddxplus": (lambda rows: lines({"id": e.id, "prediction": e.diagnosis} for e in rows), {}),
    "spider": (lambda rows: "".join(f"{e.query}\n" for e in rows), {"exclude_db": ["wta_1"]}),
    "ds1000": (lambda rows: lines({"id": e.id, "prediction": e.reference_code} for e in rows), {}),
}


def lines(rows: Any) -> str:
    """Return JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def measure(name: str, data: str | None, workers: int, sample: int | None) -> dict[str, Any]:
    """Judge the gold answers of a benchmark."""
    benchmark: Benchmark = importlib.import_module(f"programs.{name}").BENCHMARK
    write, options = GOLD[name]
    if sample:
        benchmark = dataclasses.replace(benchmark, load=some_of(benchmark, sample))
        options = {}
    with tempfile.TemporaryDirectory() as folder:
        path, verdicts = Path(folder, "gold"), Path(folder, "rows.jsonl")
        path.write_text(write(benchmark.load(data)), encoding="utf-8")
        start = time.perf_counter()
        report = score_predictions(
            benchmark, data, path, rows_path=verdicts, workers=workers, **options
        )
        seconds = time.perf_counter() - start
        rows = [json.loads(line) for line in verdicts.read_text().splitlines()]
    failed = {row["id"]: row["feedback"] for row in rows if row["score"] != 1.0}
    wrong = report.n - report.correct - report.not_judged
    figures = {"rows": report.n, "right": report.correct, "not_judged": report.not_judged}
    return {**figures, "wrong": wrong, "seconds": seconds, "failed": failed}


def some_of(benchmark: Benchmark, sample: int) -> Callable[..., list[Any]]:
    """Return a way to load a sample, the same each time."""

    def load(data: str | None = None) -> list[Any]:
        rows = benchmark.load(data)
        return random.Random(0).sample(rows, min(sample, len(rows)))

    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="the folder that holds the benchmarks' folders")
    parser.add_argument("--only", nargs="+", choices=list(GOLD), default=list(GOLD))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sample", type=int, help="judge so many rows of each (not for Spider)")
    parser.add_argument("--json", action="store_true", help="with the rows that are not right")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.only:
        try:
            found[name] = measure(name, options.data, options.workers, options.sample)
        except BenchmarkDataMissing as error:
            found[name] = {"missing": str(error)}
        if not options.json:
            print(f"{name:9}", summary(found[name]), flush=True)
    if options.json:
        print(json.dumps(found, indent=2))


def summary(figures: dict[str, Any]) -> str:
    """Return a benchmark's figures on one line."""
    if "missing" in figures:
        return figures["missing"]
    return (
        f"{figures['seconds']:8.2f} s  {figures['rows']} rows: {figures['right']} right, "
        f"{figures['wrong']} wrong, {figures['not_judged']} not judged"
    )


if __name__ == "__main__":
    main()
