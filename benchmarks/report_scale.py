"""What ``drpg report`` takes over many long runs: wall time and peak memory.

    python benchmarks/report_scale.py --json

Makes synthetic runs as large as those of a text-to-SQL stream (schema, 16 examples, a policy of
its own for each step of DRPG), seeded, written into the memory files many to a transaction; then
calls the command in a process of its own. ``--keep DIR`` keeps runs and report, to look at.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from drpg_dspy.analysis.summary import STATUS_KEY
from drpg_dspy.memory import SQLiteMemory, rows, writing
from drpg_dspy.streaming import RunConfig, RunFolder
from drpg_dspy.streaming.position import rollout_name
from drpg_dspy.streaming.settings import SETTINGS_KEY
from drpg_dspy.types import Call, Feedback, Guidance, Policy, Rollout, Rule, Usage

SCHEMA = "CREATE TABLE singer (singer_id INT, name TEXT, country TEXT, age INT);\n" * 40
SHOTS = 16
METHODS = {
    "zero_shot": (0.0, 0.0, 0),
    "self_refine": (-0.15, 0.0, 0),
    "self_stream_icl": (0.1, 0.5, SHOTS),
    "drpg": (0.1, 0.8, SHOTS),
}
"""By optimizer: gain at once, gain learned over the stream (in logits), examples shown."""
REPORTED = ("self_stream_icl", "drpg", "zero_shot", "self_refine")
TOPICS = ("joins", "grouping", "order", "columns", "limits", "aliases", "literals")


def make_runs(
    root: Path, benchmarks: int, models: int, methods: int, steps: int, seed: int
) -> list[str]:
    """Write the runs; return their names."""
    names = []
    for b, m in itertools.product(range(benchmarks), range(models)):
        difficulty = np.random.default_rng((seed, b)).normal(0.0, 1.2, steps)
        skill = 0.3 * m - 0.2 * b
        for optimizer in REPORTED[:methods]:
            rng = np.random.default_rng((seed, b, m, *optimizer.encode()))
            at_once, learned, _ = METHODS[optimizer]
            gain = at_once + learned * (1 - np.exp(-np.arange(steps) / 200))
            chance = 1 / (1 + np.exp(-(skill - difficulty + gain)))
            scores = (rng.random(steps) < chance).astype(float)
            scores[rng.random(steps) < 0.01] = math.nan
            name = f"bench-{b}.model-{m}.{optimizer}"
            _write_run(root, name, optimizer, (f"bench-{b}", f"lab/model-{m}"), scores, rng)
            names.append(name)
    return names


def _write_run(
    root: Path,
    name: str,
    optimizer: str,
    cell: tuple[str, str],
    scores: np.ndarray,
    rng: np.random.Generator,
) -> None:
    config = RunConfig(cell[0], optimizer, lm=cell[1], seed=42, compare="repaired")
    folder = RunFolder.create(name, config, root)
    steps = len(scores)
    settings = {"examples": steps, "data": cell[0], "judge": "synthetic", "threshold": 0.5}
    with closing(SQLiteMemory(folder.memory_path)) as memory:
        for start in range(0, steps, 500):
            with memory._store.writing() as db:
                for i in range(start, min(steps, start + 500)):
                    made = _rollout(i, optimizer, rng)
                    body = (*rows.encode_body(made), rows.encode_guidance(made.guidance))
                    writing.add_rollout(db, made, None, body, memory.path)
                    verdict = Feedback(float(scores[i]), text="Expected another result." * 4)
                    head = writing.find(db, made.id, memory.path)
                    encoded = rows.encode_feedback(verdict)
                    writing.add_feedback(db, head, made.id, verdict, encoded)
        memory.set_meta(SETTINGS_KEY, json.dumps(settings))
        memory.set_meta(STATUS_KEY, json.dumps({"state": "finished", "reason": ""}))


def _rollout(i: int, optimizer: str, rng: np.random.Generator) -> Rollout:
    sql = f"SELECT count(*) FROM singer WHERE country = 'France' AND age > {i}"
    question = f"How many singers from the country with the most concerts are older than {i}?"
    inputs = {"db_schema": SCHEMA, "question": question}
    shots = METHODS[optimizer][2]
    shown = tuple({"question": f"{question} ({j})", "sql": sql} for j in range(min(i, shots)))
    writes = optimizer == "drpg" and i > 0
    rules = tuple(
        Rule(f"On {topic}, return exactly the columns asked for, as in case {i}.{j}.")
        for j, topic in enumerate(rng.permutation(TOPICS)[:5])
    )
    latency = float(rng.lognormal(0.2, 0.4))
    return Rollout(
        rollout_name(i + 1),
        i + 1,
        inputs,
        {"sql": sql},
        key=question,
        trace=(Call("predict", inputs, {"sql": sql}),),
        guidance=Guidance(
            policies={"predict": Policy("predict", rules)} if writes else {},
            shots={"predict": shown} if shown else {},
            retrieved={"correct": tuple(rollout_name(j + 1) for j in range(min(i, shots)))},
            usage=Usage(1, 1400, int(rng.integers(80, 140))) if writes else Usage(),
        ),
        usage=Usage(1, 500 + 60 * len(shown), int(rng.integers(30, 90))),
        seconds=latency * (1.8 if writes else 1.0),
    )


def measure(root: Path, out: Path, names: list[str]) -> tuple[float, float, float]:
    """Run the command; return its seconds, its processor seconds and its peak memory in MB."""
    command = [sys.executable, "-m", "drpg_dspy", "report", *names, "--out", str(out)]
    started = time.perf_counter()
    subprocess.run(
        command, check=True, env={**os.environ, "DRPG_RUNS": str(root)}, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--benchmarks", type=int, default=3)
    parser.add_argument("--models", type=int, default=7)
    parser.add_argument("--methods", type=int, default=2, choices=range(1, len(REPORTED) + 1))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="keep runs and report in this folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        root = folder / "runs"
        names = make_runs(
            root,
            options.benchmarks,
            options.models,
            options.methods,
            options.steps,
            options.seed,
        )
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        seconds, cpu, peak = measure(root, folder / "report", names)
        page = (folder / "report" / "index.html").stat().st_size
    result: dict[str, Any] = {
        "runs": len(names),
        "steps": options.steps,
        "files_mb": round(size / 1e6, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_mb": round(peak),
        "page_mb": round(page / 1e6, 2),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print("  ".join(f"{name} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
