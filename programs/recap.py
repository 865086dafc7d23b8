"""RECAP: constraints on every answer that are added, edited and deleted while the program runs.

At each step of a schedule one constraint changes; the method adapts to it before it sees a test
prompt, and then every constraint in force is checked on the answers to the same prompts, and
those no longer in force as shadows. ``drpg recap`` runs this protocol
(:mod:`drpg_dspy.continual`), ``drpg recap-report`` compares methods on the metrics of
:mod:`evaluators.continual`. ``drpg run recap`` is the plain stream: prompts with the constraints
of their step, judged by how many of them are met.

Paper:      "RECAP: Regression Evaluation for Continual Adaptation of Prompts", 2026,
            arXiv 2606.06698.
Licence:    Apache-2.0 (prompts of MulDimIF, schedules ours).
Source:     Data/test.json of Junjie-Ye/MulDimIF (1,200 rows, of which 400 list their rules apart
            from the instruction); or, with the package ``datasets``, a data set of the hub:
            ``allenai/tulu-3-sft-personas-instruction-following`` or RECAST-30K.
Sizes:      three schedules of 15, 20 and 20 steps; prompts as many as asked for (50 a step in
            the paper).
Example:    prompt      How does a heat pump work?
                        Requirements that the response must meet:
                        - Keep the answer under 40 words.
            constraints [{"type": "Length", "text": "Keep the answer under 40 words."}]
Metric:     the share of constraints in force that are met (:mod:`evaluators.constraints`),
            ``compare="share"``; ``"all"`` asks for every one.
Deviations: the paper's prompts and tables of types and schedules are not public. The types named
            there are kept, the others ours; the schedules keep its counts, the edited and
            deleted types it names and the lengths of its windows, the texts are ours, one text a
            step for all prompts (the paper's values differ from prompt to prompt). A refusal
            meets no constraint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from drpg_dspy.constraints import Constraint, Schedule
from drpg_dspy.types import Benchmark, PolicyField, ShotsField
from evaluators.constraints import SCORINGS, ConstraintsMet
from programs._recap_prompts import HUB, load_prompts
from programs._recap_schedules import generate, named_schedules, schedule

__all__ = [
    "BENCHMARK",
    "HUB",
    "evaluator",
    "generate",
    "key",
    "load",
    "load_prompts",
    "named_schedules",
    "program",
    "schedule",
]

_HEADING = "Requirements that the response must meet:"


class Respond(dspy.Signature):
    """Respond to the prompt, and meet every requirement to the letter."""

    examples: str = ShotsField()
    policy: str = PolicyField(desc="Requirements and advice that hold for the response.")
    prompt: str = dspy.InputField()
    response: str = dspy.OutputField(desc="What the prompt asks for, without any comment on it.")


class Recap(dspy.Module):
    """One call: prompt in, response out."""

    task_description = (
        "Respond to prompts of all kinds under requirements on the response that change over time."
    )

    def __init__(self) -> None:
        super().__init__()
        self.respond = dspy.Predict(Respond)

    def forward(self, prompt: str) -> dspy.Prediction:
        """Respond to one prompt."""
        return self.respond(prompt=prompt)


def load(
    data: str | os.PathLike[str] | None = None,
    *,
    schedule_name: str = "rule-only-15",
    prompts: int = 8,
    seed: int = 0,
    hub: str | None = None,
    limit: int | None = None,
) -> list[dspy.Example]:
    """Return a schedule as a stream: step after step, the same prompts each.

    Args:
        data: The folder of the prompts; ``None`` = look in the usual places.
        schedule_name: See :func:`schedule`.
        prompts: How many a step.
        seed: Of their choice.
        hub: Take prompts from a data set of the hub.
        limit: Keep the first so many examples.

    Raises:
        BenchmarkDataMissing: The data is not there; the message says what gets it.
        ValueError: An argument cannot be used; the message names it.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    plan = schedule(schedule_name)
    chosen = load_prompts(data, prompts, seed, hub)
    stream = (_example(plan, step, one) for step in range(len(plan.steps)) for one in chosen)
    return list(stream)[:limit]


def program() -> dspy.Module:
    """Return the program: one predictor, ``respond``."""
    return Recap()


def evaluator(
    data: str | os.PathLike[str] | None = None, compare: str = "share", **options: Any
) -> ConstraintsMet:
    """Return the judge.

    Args:
        data: Not looked at: the examples carry what is judged by.
        compare: ``"share"`` or ``"all"``.
        options: Passed on to :class:`evaluators.constraints.ConstraintsMet`.
    """
    return ConstraintsMet(compare, **options)


def key(inputs: Mapping[str, Any]) -> str:
    """Return the text that is embedded: the prompt without its requirements."""
    return str(inputs["prompt"]).partition(f"\n\n{_HEADING}")[0]


def _example(plan: Schedule, step: int, one: dspy.Example) -> dspy.Example:
    active: Sequence[Constraint] = plan.active(step)
    lines = [one.prompt, "", _HEADING, *(f"- {each.text}" for each in active)]
    return dspy.Example(
        id=f"{step:02d}-{one.id}",
        prompt="\n".join(lines) if active else one.prompt,
        step=step,
        constraints=[{"type": each.type, "text": each.text} for each in active],
        category=active[-1].type if active else "none",
    ).with_inputs("prompt")


BENCHMARK = Benchmark(
    name="recap",
    title="RECAP: constraints that come, change and go",
    paper="RECAP, 2026, arXiv 2606.06698",
    licence="Apache-2.0",
    metric="constraints met",
    k=3,
    load=load,
    program=program,
    evaluator=evaluator,
    key=key,
    compares=SCORINGS,
)
"""All of it, for ``drpg run recap``."""
