"""The laws, run over every optimizer that exists."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from drpg_dspy import optimizers
from drpg_dspy.optimizers import (
    ACE,
    DRPG,
    JERP,
    NLPG,
    Ablation,
    CaseWriter,
    Combined,
    ConstraintAdapter,
    DynamicCheatsheet,
    Gate,
    Gated,
    GrowPrompt,
    Holdout,
    MAMStreamICL,
    MemPrompt,
    OnlineOptimizer,
    QuoteWriter,
    Replay,
    SelfRefine,
    SelfStreamICL,
    Shadow,
    ZeroShot,
)
from drpg_dspy.testing.contracts import OptimizerContract


def _list_of(inputs: Mapping[str, Any]) -> str:
    return str(inputs["question"])[-2]


def _odd(inputs: Mapping[str, Any], answer: Any) -> float:
    """Judge an old question's new answer by its length, so that trials end both ways."""
    return float(len(str(answer)) % 2)


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
    "drpg gated": lambda: Gated(DRPG(k=4), _odd, every=2, level=0.5, trial=Replay(4, 12)),
    "drpg shadowed": lambda: Gated(DRPG(k=4), _odd, every=2, level=0.5, trial=Shadow(2, 12)),
    "drpg guarded": lambda: Holdout(DRPG(k=4), share=0.4),
    "drpg policy only": lambda: DRPG(k=4, shots=0),
    "nlpg": lambda: NLPG(window=2, gate=Gate(calls=10, min_cases=1)),
    "nlpg defaults": lambda: NLPG(),
    "nlpg adopts": lambda: NLPG(window=2, gate=None),
    "nlpg watched": lambda: NLPG(window=1, gate=Gate(0.5, calls=10, watch=0.5, min_cases=1)),
    "nlpg categories": lambda: NLPG(window=2, gate=None, category=_list_of),
    "nlpg one policy": lambda: NLPG(window=2, gate=None, ablation=Ablation(routing=False)),
    "nlpg random route": lambda: NLPG(window=2, gate=None, ablation={"random_route": True}),
    "nlpg unmerged": lambda: NLPG(window=2, gate={"calls": 10}, ablation={"aggregate": False}),
    "dynamic_cheatsheet": lambda: DynamicCheatsheet(max_tokens=50),
    "dynamic_cheatsheet synthesis": lambda: DynamicCheatsheet(retrieved=3),
    "ace": lambda: ACE(max_tokens=60, rounds=2),
    "ace failures": lambda: ACE(only_failures=True, feedback_text=False),
    "ace guarded": lambda: Holdout(ACE(), share=0.4),
    "jerp": lambda: JERP(top=2, capacity=3),
    "jerp alone": lambda: JERP(references=0),
    "constraints": lambda: ConstraintAdapter(),
    "constraints unchecked": lambda: ConstraintAdapter(repair=0, on_conflict="refuse"),
    "constraints with drpg": lambda: Combined(ConstraintAdapter(), DRPG(k=4)),
    "constraints with ace guarded": lambda: Holdout(Combined(ConstraintAdapter(), ACE())),
    "nlpg guarded": lambda: Holdout(NLPG(window=1, gate=None), share=0.4),
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
