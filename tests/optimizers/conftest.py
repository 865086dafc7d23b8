from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dspy
import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import OnlineOptimizer
from drpg_dspy.retrieval import HashingEmbedder

Learn = Callable[..., OnlinePolicyOptimizer]


@pytest.fixture
def learner(tmp_path: Path) -> Learn:
    """Open a learner; the same name opens the same memory, as a new process would."""

    def make(
        optimizer: OnlineOptimizer, program: dspy.Module | None = None, name: str = "m"
    ) -> OnlinePolicyOptimizer:
        memory = SQLiteMemory(tmp_path / f"{name}.sqlite", HashingEmbedder())
        program = program or dspy.Predict("context, question -> answer")
        return OnlinePolicyOptimizer(program, optimizer, memory=memory)

    return make


@pytest.fixture
def teach() -> Callable[..., list[str]]:
    """Have a learner answer questions and be told a score for each; return the rollouts' ids."""

    def run(online: OnlinePolicyOptimizer, *cases: tuple[str, float]) -> list[str]:
        ids = []
        for question, score in cases:
            rollout = online.predict_one({"context": "LONG CONTEXT", "question": question})
            assert not rollout.failed, rollout.error
            online.learn_one(rollout, score)
            ids.append(rollout.id)
        return ids

    return run


class TwoRoutes(dspy.Module):
    """A query is written, then answered."""

    def __init__(self) -> None:
        super().__init__()
        self.query = dspy.Predict("question -> terms")
        self.reply = dspy.Predict("question, terms -> answer")

    def forward(self, question: str, context: str = "") -> dspy.Prediction:
        terms = self.query(question=question).terms
        return dspy.Prediction(answer=self.reply(question=question, terms=terms).answer)


@pytest.fixture
def two_routes() -> dspy.Module:
    return TwoRoutes()
