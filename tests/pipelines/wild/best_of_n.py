"""Three attempts, of which a reward picks the best."""

from __future__ import annotations

from typing import Any

import dspy


def short_enough(arguments: dict[str, Any], prediction: dspy.Prediction) -> float:
    return 1.0 / (1 + len(prediction.headline.split()))


def build() -> dspy.Module:
    writer = dspy.ChainOfThought("article -> headline")
    return dspy.BestOfN(module=writer, N=3, reward_fn=short_enough, threshold=0.9)
