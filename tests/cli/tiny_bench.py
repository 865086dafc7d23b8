"""A benchmark of twelve sums with one house rule, and the models that play in it.

Tests copy this file into their working directory and name it on the command line:
``drpg run tiny_bench:BENCHMARK --lm scripted/tiny_bench:calculator``.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import LMAuthError

from drpg_dspy.testing import ScriptedLM
from drpg_dspy.types import Benchmark

RULE = "End every answer with the word units."
CRASH_AFTER = Path("crash_after")
"""Where it exists, the model is interrupted once it has answered as many questions."""
HANG_AFTER = Path("hang_after")
"""Where it exists, the model says so in ``hanging`` and never answers the next question."""


def load(data: Any = None, *, exclude_db: tuple[str, ...] = (), **options: Any) -> list[Any]:
    """Return the sums; ``exclude_db`` leaves out an id, to show that options arrive."""
    sums = [
        dspy.Example(id=f"sum-{n}", question=f"What is {n} plus {n}?", gold=f"{2 * n} units")
        for n in range(1, 13)
    ]
    return [example.with_inputs("question") for example in sums if example.id not in exclude_db]


def program() -> dspy.Module:
    """Return the plain program."""
    return dspy.Predict("question -> answer")


def evaluator(data: Any = None, compare: str = "exact") -> Any:
    """Judge an answer by its text, or with ``loose`` by its number alone."""

    def judge(example: Any, pred: Any, trace: Any = None, *_: Any) -> Any:
        said, gold = str(pred.answer), example.gold
        right = said.split()[0] == gold.split()[0] if compare == "loose" else said == gold
        return dspy.Prediction(score=float(right), feedback="" if right else f"Expected {gold}.")

    return judge


def read_predictions(path: Path, examples: list[Any]) -> list[Any]:
    """Read one answer a line."""
    return [dspy.Prediction(answer=line) for line in Path(path).read_text().splitlines()]


BENCHMARK = Benchmark(
    name="tiny_bench",
    title="Twelve sums",
    paper="none",
    licence="Apache-2.0",
    metric="exact match",
    k=2,
    load=load,
    program=program,
    evaluator=evaluator,
    key=lambda inputs: str(inputs["question"]),
    compares=("exact", "loose"),
    read_predictions=read_predictions,
)
NOT_A_BENCHMARK = 42

_answered = 0


def calculator() -> ScriptedLM:
    """Adds correctly; says *units* only where a rule or an example does; writes one rule."""
    return ScriptedLM(_calculate, model="scripted/calculator")


def dead() -> ScriptedLM:
    """Never answers."""
    return ScriptedLM(_refuse, model="scripted/dead")


def locked() -> ScriptedLM:
    """Refuses every request until there is a file ``key``; then it is the calculator."""
    return ScriptedLM(_ask_for_key, model="scripted/locked")


def coached() -> ScriptedLM:
    """The calculator, which also knows what to say as the coach of a module."""
    return ScriptedLM(_coach, model="scripted/coached")


def clumsy() -> ScriptedLM:
    """Cannot add 7 to anything."""
    return ScriptedLM(_stumble, model="scripted/clumsy")


def no_model() -> int:
    """Return something that is no model."""
    return 42


def _calculate(messages: list[dict[str, str]]) -> str:
    global _answered
    prompt = "\n".join(message["content"] for message in messages)
    if "wrong_case" in prompt:
        return json.dumps({"rules": [RULE]})
    _answered += 1
    if CRASH_AFTER.exists() and _answered > int(CRASH_AFTER.read_text()):
        raise KeyboardInterrupt
    if HANG_AFTER.exists() and _answered > int(HANG_AFTER.read_text()):
        Path("hanging").touch()
        time.sleep(3600)
    a, b = map(int, re.findall(r"What is (\d+) plus (\d+)", prompt)[-1])
    told = "units" in prompt
    answer = f"{a + b} units" if told else str(a + b)
    return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"


def _coach(messages: list[dict[str, str]]) -> str:
    if "You coach" in messages[0]["content"]:
        return json.dumps({"rules": [RULE], "upstream": ""})
    return _calculate(messages)


def _ask_for_key(messages: list[dict[str, str]]) -> str:
    if not Path("key").exists():
        raise LMAuthError("This key was revoked.", model="scripted/locked")
    return _calculate(messages)


def _stumble(messages: list[dict[str, str]]) -> str:
    if "7 plus" in messages[-1]["content"]:
        raise KeyError("seven")
    return _calculate(messages)


def _refuse(messages: list[dict[str, str]]) -> str:
    raise ConnectionError("the server is down")
