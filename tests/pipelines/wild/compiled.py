"""Programs that DSPy's optimizers have compiled: their demos and instructions are the result."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.teleprompt import GEPA, BootstrapFewShot, MIPROv2

TRAINSET = [
    dspy.Example(ticket=f"ticket {i}: the lamp is broken", team="repairs").with_inputs("ticket")
    for i in range(8)
]


class Route(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.summary = dspy.ChainOfThought("ticket -> summary")
        self.team = dspy.Predict("ticket, summary -> team")

    def forward(self, ticket: str) -> dspy.Prediction:
        return self.team(ticket=ticket, summary=self.summary(ticket=ticket).summary)


def right(
    gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> dspy.Prediction:
    said = "Right." if gold.team == pred.team else f"It belongs to {gold.team}."
    return dspy.Prediction(score=float(gold.team == pred.team), feedback=said)


def passed(gold: Any, pred: Any, trace: Any = None) -> bool:
    return bool(gold.team == pred.team)


def by_bootstrap_few_shot() -> dspy.Module:
    return BootstrapFewShot(metric=passed, max_bootstrapped_demos=2, max_labeled_demos=2).compile(
        Route(), trainset=TRAINSET
    )


def by_miprov2() -> dspy.Module:
    optimizer = MIPROv2(
        metric=passed, auto=None, num_candidates=2, max_bootstrapped_demos=1, max_labeled_demos=1,
        num_threads=1, verbose=False,
    )  # fmt: skip
    return optimizer.compile(
        Route(), trainset=TRAINSET, valset=TRAINSET, num_trials=2, minibatch=False
    )


def by_gepa(reflection_lm: dspy.BaseLM) -> dspy.Module:
    optimizer = GEPA(metric=right, max_metric_calls=30, reflection_lm=reflection_lm, num_threads=1)
    return optimizer.compile(Route(), trainset=TRAINSET[:4], valset=TRAINSET[4:])
