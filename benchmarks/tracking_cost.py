"""What tracking costs the stream: a new policy version on every step, with and without MLflow.

    python benchmarks/tracking_cost.py [--steps 2147] [--think 0.02] [--no-drain]

Two arms in one process, on two memories: the same steps (record a rollout with a new policy,
commit its verdict, tell the writer), first without a tracker, then with MLflow on a SQLite
store. ``think`` is the pause between steps that stands for the program's LM call; it is not
counted, and while it lasts the writer works. Afterwards the writer is closed, which sends what
is left at full speed: the drain time. Prints JSON; seconds and milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.tracking import BackgroundWriter, MLflowTracker, RunInfo
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage


def rollout(step: int) -> Rollout:
    """Return a step with a policy of about 1.5 kB that no step had before."""
    rules = tuple(
        Rule(f"Rule {i} as of step {step}: " + "use the right join. " * 12) for i in "abcde"
    )
    policy = Policy("predict", rules, message=f"rewritten at step {step}")
    return Rollout(
        id=f"step-{step}",
        step=step,
        inputs={"db_schema": "CREATE TABLE t (id INTEGER);\n" * 40, "question": f"question {step}"},
        outputs={"sql": f"SELECT {step}"},
        guidance=Guidance(policies={"predict": policy}, usage=Usage(1, 1200, 90)),
        usage=Usage(1, 900, 40),
        created_at=time.time(),
        seconds=1.0,
    )


def run(memory: SQLiteMemory, steps: int, think: float, notify: Callable[[], None]) -> list[float]:
    """Return the milliseconds that each step cost its caller, thinking excluded."""
    costs = []
    for step in range(1, steps + 1):
        made = rollout(step)
        began = time.perf_counter()
        memory.record(made)
        notify()
        memory.commit(made.id, Feedback(float(step % 3 != 0)))
        notify()
        costs.append((time.perf_counter() - began) * 1000)
        time.sleep(think)
    return costs


def summary(costs: list[float]) -> dict[str, float]:
    """Return mean, median and 99th percentile, in milliseconds."""
    ordered = sorted(costs)
    return {
        "mean_ms": round(statistics.fmean(costs), 3),
        "p50_ms": round(statistics.median(costs), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
    }


def measure(folder: Path, steps: int, think: float, drain: bool) -> dict[str, Any]:
    """Run both arms and return the figures."""
    with closing(SQLiteMemory(folder / "plain.db")) as memory:
        plain = run(memory, steps, think, lambda: None)
    with closing(SQLiteMemory(folder / "tracked.db")) as memory:
        uri = f"sqlite:///{folder / 'mlflow.db'}"
        MLflowTracker("warm-up", tracking_uri=uri).start(RunInfo("makes the tables"))
        tracker = MLflowTracker("benchmark", tracking_uri=uri)
        writer = BackgroundWriter(memory, tracker, RunInfo("tracking-cost", routes=("predict",)))
        tracked = run(memory, steps, think, writer.notify)
        behind = writer.behind()
        began, cpu = time.perf_counter(), time.process_time()
        complete = writer.close(timeout=1200 if drain else 0)
        drained, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "steps": steps,
        "think_s": think,
        "without_tracker": summary(plain),
        "with_mlflow": summary(tracked),
        "added_mean_ms": round(statistics.fmean(tracked) - statistics.fmean(plain), 3),
        "added_p50_ms": round(statistics.median(tracked) - statistics.median(plain), 3),
        "events_behind_at_the_end": behind,
        "drain_s": round(drained, 1) if drain else None,
        "drain_cpu_s": round(cpu, 1) if drain else None,
        "complete": complete,
        "failures": writer.failures,
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Parse the arguments, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2147)
    parser.add_argument("--think", type=float, default=0.02, help="seconds between steps")
    parser.add_argument("--no-drain", action="store_true", help="do not wait for the rest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # MLflow puts the artifacts of a database store under ./mlruns
        figures = measure(Path(folder), options.steps, options.think, not options.no_drain)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
