"""What wrapping a program costs a call of it: milliseconds, and LM calls.

    python benchmarks/wrapping.py [--calls 2000] [--json]

The same program is called plain and wrapped (ZeroShot, a SQLite memory), call by call in turn in
one process, so that a noisy machine slows both. The model is a function that answers at once:
what is measured is the library. Beside wall time stands the processor time of the thread.
Programs: one predictor, and a chain of three. ``extra_lm_calls`` counts the calls that the model
got beyond those of the plain program; ``same_prompts`` says that both sent the same prompts.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy import OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields


class Chain(dspy.Module):
    """Three predictors, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict("question -> notes")
        self.draft = dspy.Predict("question, notes -> draft")
        self.answer = dspy.Predict("question, draft -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        notes = self.plan(question=question).notes
        draft = self.draft(question=question, notes=notes).draft
        return self.answer(question=question, draft=draft)


PROGRAMS: dict[str, Callable[[], dspy.Module]] = {
    "one predictor": lambda: dspy.Predict("question -> answer"),
    "three predictors": Chain,
}


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return wall and processor time of a call, in milliseconds."""
    cpu, wall = time.thread_time(), time.perf_counter()
    call()
    return (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def summary(plain: list[float], wrapped: list[float]) -> dict[str, float]:
    """Return medians and 95th percentiles of both, and what is added."""
    figures = {}
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        before, after = (sorted(costs)[int(len(costs) * share)] for costs in (plain, wrapped))
        figures |= {
            f"plain_{name}_ms": round(before, 3),
            f"wrapped_{name}_ms": round(after, 3),
            f"added_{name}_ms": round(after - before, 3),
        }
    added = [after - before for before, after in zip(plain, wrapped, strict=True)]
    return {**figures, "median_of_differences_ms": round(statistics.median(added), 3)}


def measure(make: Callable[[], dspy.Module], calls: int, folder: Path) -> dict[str, Any]:
    """Call a program plain and wrapped, in turn."""
    model = ScriptedLM(lambda messages: fields(notes="n", draft="d", answer="a"))
    plain, program = make(), make()
    memory = SQLiteMemory(folder / "memory.sqlite", HashingEmbedder())
    walls: tuple[list[float], list[float]] = ([], [])
    cpus: tuple[list[float], list[float]] = ([], [])
    prompts: tuple[list[Any], list[Any]] = ([], [])
    with closing(memory), dspy.context(lm=model):
        online = OnlinePolicyOptimizer(program, ZeroShot(), memory=memory)
        for n in range(-20, calls):  # the first twenty warm up
            for arm, callee in enumerate((plain, online)):
                question = f"What is question {n} of this benchmark?"
                model.prompts.clear()
                wall, cpu = timed(lambda callee=callee, asked=question: callee(question=asked))
                if n >= 0:
                    walls[arm].append(wall)
                    cpus[arm].append(cpu)
                    prompts[arm].append([list(prompt) for prompt in model.prompts])
            plain.history.clear()
    lm_calls = [sum(map(len, sent)) for sent in prompts]
    return {
        "calls": calls,
        "wall": summary(*walls),
        "cpu": summary(*cpus),
        "extra_lm_calls": lm_calls[1] - lm_calls[0],
        "same_prompts": prompts[0] == prompts[1],
    }


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    figures = {}
    for name, make in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            figures[name] = measure(make, options.calls, Path(folder))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, found in figures.items():
        wall, cpu = found["wall"], found["cpu"]
        print(
            f"{name}: {wall['plain_p50_ms']} ms plain, {wall['wrapped_p50_ms']} ms wrapped, "
            f"{wall['added_p50_ms']} ms added (median; p95 {wall['added_p95_ms']} ms; "
            f"{cpu['added_p50_ms']} ms of processor time), {found['extra_lm_calls']} LM calls "
            f"added, prompts {'the same' if found['same_prompts'] else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
