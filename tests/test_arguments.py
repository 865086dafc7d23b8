"""Whatever is given where something else belongs is named, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import DRPG, OnlinePolicyOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.arguments import checked_path, number, whole
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import CaseWriter
from drpg_dspy.retrieval import CallableEmbedder, HashingEmbedder
from drpg_dspy.streaming import Budget, run_stream
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.tracking import JSONLTracker


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with dspy.context(lm=ScriptedLM(lambda messages: fields(answer="x"))):
        yield


def learner(**options: Any) -> OnlinePolicyOptimizer:
    return OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), **options)


def stream(metric: Any = lambda example, prediction: 1, **options: Any) -> Any:
    examples = [dspy.Example(question="q").with_inputs("question")]
    return run_stream(learner(), options.pop("examples", examples), metric, **options)


def sqlite(*arguments: Any, **options: Any) -> SQLiteMemory:
    return SQLiteMemory(*(arguments or ("m.sqlite", HashingEmbedder())), **options)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "k as text": (lambda: DRPG(k="x"), "k must be a whole number of at least 1, got 'x'"),
    "k of nothing": (lambda: SelfStreamICL(k=0), "at least 1, got 0"),
    "a policy LM by name": (lambda: DRPG(policy_lm="openai/gpt"), "policy_lm"),
    "a writer by name": (lambda: DRPG(writer="case"), "writer"),
    "an unknown contrast": (lambda: DRPG(contrast="x"), "contrast"),
    "a flag as text": (lambda: DRPG(previous_policy="yes"), "previous_policy"),
    "no room for a rule": (lambda: CaseWriter(5, 3), "max_rule_chars"),
    "a number as a file": (lambda: sqlite(5), "path must be a path, got 5"),
    "a number as an embedder": (lambda: sqlite("a", 5), "embedder must have"),
    "a bare function as an embedder": (lambda: sqlite("a", len), "CallableEmbedder"),
    "a threshold as text": (lambda: sqlite(threshold="x"), r"threshold must lie in \(0, 1\]"),
    "a learner's threshold": (lambda: learner(threshold=2), r"threshold must lie in \(0, 1\]"),
    "no threshold": (lambda: sqlite(threshold=None), "threshold"),
    "a timeout as text": (lambda: sqlite(timeout="x"), "timeout must be more than 0"),
    "a dimension as text": (lambda: HashingEmbedder("x"), "dimension"),
    "a dimension of nothing": (lambda: CallableEmbedder(len, "len", 0), "dimension"),
    "a file as a memory": (lambda: learner(memory="x.sqlite"), "memory must be a Memory"),
    "a field as a key": (lambda: learner(key="question"), "key must be a function"),
    "a metric of one argument": (lambda: learner(metric=lambda p: 1), r"function of \(p\)"),
    "a metric of six": (lambda: learner(metric=lambda a, b, c, d, e, f: 1), "five at most"),
    "a metric's class": (lambda: learner(metric=dict), "the class"),
    "a number as a metric": (lambda: learner(metric=5), "metric must be callable"),
    "no folder to save to": (lambda: learner().save(None), "folder"),
    "no folder to load from": (lambda: learner().load(None), "folder"),
    "feedback that says nothing": (lambda: learner().feedback("x"), "got neither"),
    "feedback that says two things": (lambda: learner().feedback("x", 1, labels=2), "got both"),
    "inputs as text": (lambda: learner().predict_one("q"), "mapping of names"),
    "no inputs": (lambda: learner().attempt_one(None), "mapping of names"),
    "inputs without names": (lambda: learner().attempt_one({1: 2}), "mapping of names"),
    "a number as a log": (lambda: JSONLTracker(5), "path must be a path"),
    "a budget as text": (lambda: Budget(lm_calls="x"), "lm_calls"),
    "no stream": (lambda: stream(examples=None), "list of dspy.Example"),
    "a stream of numbers": (lambda: stream(examples=[1]), "Step 1"),
    "a stream without a metric": (lambda: stream(None), "needs a metric"),
    "a stream's metric of one argument": (lambda: stream(lambda p: 1), r"\(p\)"),
    "a delay as text": (lambda: stream(delay="x"), "delay"),
    "retries as text": (lambda: stream(retries="x"), "retries"),
    "a budget as a number": (lambda: stream(budget=5), "Budget"),
    "failures as text": (lambda: stream(stop_after_failures="x"), "stop_after_failures"),
    "a stream without a learner": (lambda: run_stream(5, [], len), "OnlinePolicyOptimizer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named(case: str) -> None:
    call, message = WRONG[case]

    with pytest.raises(ValueError, match=message):
        call()


def test_right_arguments_are_given_back() -> None:
    assert (whole("k", 3, 3), number("x", 1, 0, 1), checked_path("p", "a/b")) == (
        3,
        1.0,
        Path("a/b"),
    )
