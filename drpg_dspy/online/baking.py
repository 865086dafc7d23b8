"""What was learned, baked into a plain program: instructions and demos, nothing of ours."""

from __future__ import annotations

from typing import Any

import dspy

from drpg_dspy.injection import detach, routes
from drpg_dspy.judging import judge
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online.defaults import temporary_file
from drpg_dspy.types import OPEN_FIELD, Guidance

__all__ = ["bake", "compile_online"]

_HEADING = "Rules learned from feedback:"
_LEFT_OUT = "(not shown)"


def bake(program: dspy.Module, guidance: Guidance) -> dspy.Module:
    """Detach a program and write a guidance into it for good.

    The policy of a route is appended to its instructions, its examples to its demos. An open
    policy or examples field stays in the signature, empty.

    Args:
        program: An attached program; changed in place.
        guidance: What it is to keep.

    Returns:
        The program.
    """
    predictors = routes(program)
    detach(program)
    for name, predictor in predictors.items():
        policy = guidance.policies.get(name)
        if policy is not None and policy.text:
            instructions = f"{predictor.signature.instructions}\n\n{_HEADING}\n{policy.text}"
            predictor.signature = predictor.signature.with_instructions(instructions)
        shown = predictor.signature.input_fields
        ours = {
            field for field, info in shown.items() if (info.json_schema_extra or {}).get(OPEN_FIELD)
        }
        # A demo that lacks an input is moved and labelled incomplete by the adapters.
        blank = {field: "" if field in ours else _LEFT_OUT for field in shown}
        predictor.demos = [
            *predictor.demos,
            *(dspy.Example(**{**blank, **shot}) for shot in guidance.shots.get(name, ())),
        ]
    return program


def compile_online(
    learner: Any, student: dspy.Module, trainset: list[Any], valset: list[Any] | None
) -> dspy.Module:
    """Make one prequential pass with a learner of its own and bake what it learned.

    Args:
        learner: Whose optimizer, metric, key and embedder are used; not changed.
        student: The program; copied, never changed.
        trainset: Examples, in the order in which they are met.
        valset: Where given, decides between the learned program and the student.
    """
    copy = student.deepcopy()
    optimizer = type(learner.optimizer)(**learner.optimizer.get_params())
    memory = SQLiteMemory(
        temporary_file(optimizer), learner.memory.embedder, threshold=learner.memory.threshold
    )
    fresh = type(learner)(copy, optimizer, memory=memory, metric=learner.metric, key=learner.key)
    for example in trainset:
        rollout = fresh.predict_one(dict(example.inputs().items()))
        if not rollout.failed:
            fresh.learn_one(rollout, judge(learner.metric, example, rollout.answer))
    learned = bake(copy, optimizer.consolidate(memory))
    fresh.close()
    if valset and _total(learned, valset, learner.metric) <= _total(
        student, valset, learner.metric
    ):
        return student.deepcopy()
    return learned


def _total(program: Any, examples: list[Any], metric: Any) -> float:
    verdicts = (judge(metric, example, program(**example.inputs())) for example in examples)
    return sum(verdict.score for verdict in verdicts if verdict.judged)
