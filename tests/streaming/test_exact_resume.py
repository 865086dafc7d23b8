"""Killed at any point and continued, a run is the one that was never interrupted."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.analysis import steps_table
from drpg_dspy.memory import SQLiteMemory

LAB = Path(__file__).with_name("crash_lab.py")
STEPS = 12
SIGKILL = -9


class Lab:
    """Runs jobs in processes that may die."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(LAB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # forked children start in milliseconds
        )

    def run(self, name: str, variant: str, delay: int, **kill: int) -> dict[str, Any]:
        job = {
            "memory": str(self.folder / f"{name}.sqlite"),
            "variant": variant,
            "n": STEPS,
            "delay": delay,
            "kill": kill,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer.get("error")
        return answer

    def table(self, name: str) -> list[dict[str, Any]]:
        memory = SQLiteMemory(self.folder / f"{name}.sqlite", read_only=True)
        table = steps_table(memory)
        memory.close()
        return table


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("crash"))
    yield lab
    assert lab.process.stdin is not None
    lab.process.stdin.close()
    lab.process.wait(timeout=30)


@pytest.mark.parametrize(
    ("variant", "delay", "points"),
    [
        ("drpg", 0, 20),
        ("drpg", 3, 8),
        ("previous_policy", 0, 6),
        ("previous_policy", 3, 4),
        ("case_writer", 0, 8),
        ("case_writer", 3, 4),
        ("icl", 0, 4),
    ],
)
def test_a_run_killed_anywhere_resumes_to_the_same_table(
    crash: Lab, variant: str, delay: int, points: int
) -> None:
    whole = f"{variant}-{delay}"
    ran = crash.run(whole, variant, delay)
    expected = crash.table(whole)
    assert [row["step"] for row in expected] == list(range(1, STEPS + 1))
    assert ran["summary"]["failed"] == ran["summary"]["not_judged"] == 1
    assert 0 < ran["summary"]["correct"] < ran["summary"]["judged"]

    # Half the points lie inside LM calls, half between two statements of the database, some of
    # them in the middle of a transaction.
    chosen = random.Random(f"{variant} {delay}")
    for point in range(points):
        kind = "lm" if point % 2 else "sql"
        at = chosen.randint(1, ran[kind])
        name = f"{whole}-{point}"
        assert crash.run(name, variant, delay, **{kind: at})["code"] == SIGKILL
        assert crash.run(name, variant, delay)["code"] == 0
        assert crash.table(name) == expected, f"killed at {kind} {at}"


@pytest.mark.parametrize(("variant", "delay"), [("drpg", 0), ("drpg", 3), ("case_writer", 0)])
def test_a_run_killed_again_and_again_ends_as_if_nothing_had_been(
    crash: Lab, variant: str, delay: int
) -> None:
    whole, name = f"again-{variant}-{delay}", f"killed-{variant}-{delay}"
    crash.run(whole, variant, delay)

    kills = 0
    while crash.run(name, variant, delay, lm=5)["code"] == SIGKILL:
        kills += 1
        assert kills < 100

    assert kills >= 3
    assert crash.table(name) == crash.table(whole)
