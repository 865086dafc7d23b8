"""The laws, run over every optimizer that exists."""

from __future__ import annotations

import inspect

import pytest

from drpg_dspy import optimizers
from drpg_dspy.optimizers import (
    DRPG,
    CaseWriter,
    GrowPrompt,
    Holdout,
    MAMStreamICL,
    MemPrompt,
    OnlineOptimizer,
    QuoteWriter,
    SelfRefine,
    SelfStreamICL,
    ZeroShot,
)
from drpg_dspy.testing.contracts import OptimizerContract

VARIANTS = {
    "zero_shot": lambda: ZeroShot(),
    "self_stream_icl": lambda: SelfStreamICL(k=3),
    "grow_prompt": lambda: GrowPrompt(last=3),
    "mem_prompt": lambda: MemPrompt(k=3),
    "mam_stream_icl": lambda: MAMStreamICL([None, None, None], k=3),
    "self_refine": lambda: SelfRefine(),
    "self_refine guarded": lambda: Holdout(SelfRefine(rounds=2), share=0.4),
    "drpg": lambda: DRPG(k=4),
    "drpg odd k": lambda: DRPG(k=5),
    "drpg wrong only": lambda: DRPG(k=4, contrast="wrong"),
    "drpg correct only": lambda: DRPG(k=4, contrast="correct"),
    "drpg previous policy": lambda: DRPG(k=4, previous_policy=True),
    "drpg no feedback": lambda: DRPG(k=4, use_feedback=False),
    "drpg feedback text": lambda: DRPG(k=4, feedback_text=True),
    "drpg case writer": lambda: DRPG(k=4, writer=CaseWriter(), feedback_text=True),
    "drpg quote writer": lambda: DRPG(k=4, writer=QuoteWriter(), feedback_text=True),
    "drpg guarded": lambda: Holdout(DRPG(k=4), share=0.4),
    "drpg policy only": lambda: DRPG(k=4, shots=0),
}


@pytest.fixture(params=list(VARIANTS))
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestEveryOptimizer(OptimizerContract):
    @pytest.fixture(autouse=True)
    def _choose(self, variant: str) -> None:
        self.variant = variant

    def make(self) -> OnlineOptimizer:
        return VARIANTS[self.variant]()


def test_every_exported_optimizer_is_under_the_laws() -> None:
    exported = {
        value
        for value in vars(optimizers).values()
        if inspect.isclass(value)
        and issubclass(value, OnlineOptimizer)
        and value is not OnlineOptimizer
    }

    assert exported == {type(make()) for make in VARIANTS.values()}
