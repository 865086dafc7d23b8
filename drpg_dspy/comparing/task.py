"""What all columns of a comparison share: program, examples, metric, models, budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import dspy

from drpg_dspy.injection import routes
from drpg_dspy.memory import Embedder
from drpg_dspy.plain import digest
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.streaming.schedule import fingerprint, stream_order
from drpg_dspy.streaming.settings import identity, lm_identity

__all__ = ["Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """What is compared on.

    Attributes:
        program: The user's; copied for each column.
        trainset: What columns learn from, in this order under the first seed.
        testset: The held-out questions.
        metric: Judges both.
        budget: What one column may spend on learning under one seed.
        lm: Who answers.
        prompt_lm: Who writes instructions, reflects and writes policies.
        embedder: Of the online methods' memories.
        key: The text embedded for a call's inputs; ``None`` = the library's choice.
        threshold: Scores from here on are right.
        threads: Examples that an offline optimizer evaluates side by side.
        experiment, tracking_uri: Of MLflow; no experiment = no tracking.
        say: Told one line at a time what goes on.
    """

    program: dspy.Module
    trainset: tuple[dspy.Example, ...]
    testset: tuple[dspy.Example, ...]
    metric: Callable[..., Any]
    budget: Budget
    lm: dspy.BaseLM
    prompt_lm: dspy.BaseLM
    embedder: Embedder
    key: Callable[[Mapping[str, Any]], str] | None = None
    threshold: float = 0.5
    threads: int = 1
    experiment: str = ""
    tracking_uri: str | None = None
    say: Callable[[str], None] = field(default=lambda line: None)

    def examples(self, seed: int) -> list[dspy.Example]:
        """Return the training examples in the order of a seed; 0 is the order as given."""
        order = stream_order(len(self.trainset), seed or None)
        return [self.trainset[place] for place in order]

    @property
    def calls(self) -> int:
        """LM calls that one run of the program makes, as its predictors suggest."""
        return max(1, len(routes(self.program)))

    def settings(self) -> dict[str, Any]:
        """Return what must be the same for two columns to be compared, as plain values."""
        return {
            "program": _program_digest(self.program),
            "trainset": fingerprint(self.trainset),
            "testset": fingerprint(self.testset),
            "metric": identity(self.metric, depth=0),
            "budget": {
                name: value
                for name in ("lm_calls", "tokens", "dollars", "seconds")
                if (value := getattr(self.budget, name)) is not None
            },
            "lm": lm_identity(self.lm),
            "prompt_lm": lm_identity(self.prompt_lm),
            "embedder": self.embedder.identity,
            "threshold": self.threshold,
        }


def _program_digest(program: dspy.Module) -> str:
    parts = [
        [
            name,
            predictor.signature.instructions,
            [
                [field, info.json_schema_extra["desc"], str(info.annotation)]
                for field, info in predictor.signature.fields.items()
            ],
            [repr(demo) for demo in predictor.demos],
        ]
        for name, predictor in routes(program).items()
    ]
    return digest(type(program).__name__, parts, length=12)
