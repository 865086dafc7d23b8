"""A process that runs streams in forked children and kills them: ``python crash_lab.py``.

Reads one job a line (JSON) from standard input and answers each with one line. Importing DSPy
once and forking keeps a hundred killed runs within seconds. A job is
``{"memory": path, "variant": name, "n": steps, "delay": d, "kill": {"lm": k} | {"sql": k}}``;
the child is sent ``SIGKILL`` inside its k-th LM call, or right before its k-th SQL statement.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, CaseWriter, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.streaming import Retry, run_stream
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields

VARIANTS: dict[str, Callable[[], OnlineOptimizer]] = {
    "zero_shot": lambda: ZeroShot(),
    "icl": lambda: SelfStreamICL(k=3),
    "drpg": lambda: DRPG(k=4),
    "previous_policy": lambda: DRPG(k=4, previous_policy=True),
    "case_writer": lambda: DRPG(k=4, writer=CaseWriter(), feedback_text=True),
}
UNREACHABLE = 5  # the step at which the server is dead
UNJUDGED = 8  # the step whose judge finds no verdict


def examples(n: int) -> list[dspy.Example]:
    return [
        dspy.Example(
            id=f"q{i}",
            question=f"What is item {i} of list {i % 3}, coloured {'red' if i % 2 else 'blue'}?",
            gold=str(i),
        ).with_inputs("question")
        for i in range(1, n + 1)
    ]


def metric(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> Any:
    """Judge by the answer alone, so that one other prompt anywhere changes all that follows."""
    if example.id == f"q{UNJUDGED}":
        raise EvaluationFailed("the database is gone")
    right = int(_hash(prediction.answer + example.gold), 16) % 2
    return dspy.Prediction(score=float(right), feedback=f"item {example.gold} is not that")


def reply(messages: list[Message]) -> str:
    prompt = json.dumps(messages)
    if f"What is item {UNREACHABLE} of" in messages[-1]["content"].rsplit("question", 1)[-1]:
        raise ConnectionError("no route to host")
    if "coach" in messages[0]["content"]:
        return json.dumps(
            {"rules": [f"Name {_hash(prompt)} first", f"Avoid list {_hash('2' + prompt)}"]}
        )
    return fields(answer=_hash(prompt))


def learner(memory: Path, variant: str, lm: ScriptedLM) -> OnlinePolicyOptimizer:
    program = dspy.Predict("question -> answer")
    program.lm = lm
    optimizer = VARIANTS[variant]()
    if isinstance(optimizer, DRPG):
        optimizer.policy_lm = lm
    return OnlinePolicyOptimizer(
        program, optimizer, memory=SQLiteMemory(memory, HashingEmbedder(32)), name="lab"
    )


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job to its end, or die on the way."""
    counts = {"lm": 0, "sql": 0}
    kill = job.get("kill") or {}

    def count(what: str) -> None:
        counts[what] += 1
        if counts[what] == kill.get(what):
            os.kill(os.getpid(), signal.SIGKILL)

    def script(messages: list[Message]) -> str:
        count("lm")
        return reply(messages)

    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        db = connect(*args, **kwargs)
        db.set_trace_callback(lambda _: count("sql"))
        return db

    sqlite3.connect = traced  # type: ignore[assignment]
    online = learner(Path(job["memory"]), job["variant"], ScriptedLM(script))
    summary = run_stream(
        online,
        examples(job["n"]),
        metric,
        delay=job.get("delay", 0),
        retries=Retry(1, sleep=lambda _: None),
    )
    online.close()
    return {**counts, "summary": summary.as_dict()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _fork(job: dict[str, Any]) -> dict[str, Any]:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return {"code": code, **(json.loads(text) if text else {})}
    try:
        text = json.dumps(run(job))
        code = 0
    except BaseException:  # noqa: BLE001 - handed to the parent as text
        text, code = json.dumps({"error": traceback.format_exc()}), 1
    os.write(write, text.encode())
    os._exit(code)


def main() -> None:
    logging.disable(logging.WARNING)
    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
