"""Programs with databases or code to judge, answered by a real small model on real data."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import dspy
import pytest

from drpg_dspy import OnlinePolicyOptimizer, SelfStreamICL, weights
from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.streaming import run_stream

SMALL = "smollm2-135m"
DATA = Path(os.environ.get("DRPG_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


@pytest.fixture(scope="module")
def lm() -> dspy.LM:
    """The small model, once for all of them."""
    pytest.importorskip("xllamacpp", reason="the extra local-lm is not installed")
    if weights.find(SMALL) is None:
        pytest.skip(f"{SMALL} is not in the cache; get it with: drpg lm pull {SMALL}")
    from drpg_dspy.local_lm import LocalLM

    return LocalLM(SMALL, context=2048, threads=1, max_tokens=8)


@pytest.mark.local_lm
@pytest.mark.filterwarnings("ignore:BIRD dev")  # says which databases are absent
@pytest.mark.parametrize("name", ["spider", "cosql", "bird", "ds1000"])
def test_a_small_model_is_run_and_judged(name: str, lm: dspy.LM) -> None:
    benchmark = importlib.import_module(f"programs.{name}")
    try:
        examples = list(benchmark.load(DATA, limit=1))
    except BenchmarkDataMissing as error:
        pytest.skip(str(error))
    learner = OnlinePolicyOptimizer(benchmark.program(), SelfStreamICL(k=1), key=benchmark.key)
    with dspy.context(lm=lm):
        summary = run_stream(learner, examples, benchmark.evaluator(DATA))
    learner.close()

    assert (summary.n, summary.failed) == (1, 0)
    assert summary.answering.prompt_tokens > 200
