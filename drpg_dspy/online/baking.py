"""What was learned, baked into a plain program: instructions and demos, nothing of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import dspy

from drpg_dspy.exceptions import CompileFailed
from drpg_dspy.injection import attach_like, detach, routes
from drpg_dspy.judging import judge
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online.restoring import answer_of
from drpg_dspy.types import OPEN_FIELD, SHOT_VERDICT, Guidance

__all__ = ["bake", "check_examples", "compile_online"]

logger = logging.getLogger(__name__)

_HEADING = "Rules learned from feedback:"
_LEFT_OUT = "(not shown)"


def bake(program: dspy.Module, guidance: Guidance) -> dspy.Module:
    """Detach a program and write a guidance into it for good.

    The policy of a route is appended to its instructions, its examples to its demos, but for
    those that were judged wrong: a plain program cannot show a verdict. An open policy or
    examples field stays in the signature, empty.

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
        shots = (dict(shot) for shot in guidance.shots.get(name, ()))
        right = [shot for shot in shots if shot.pop(SHOT_VERDICT, "correct") == "correct"]
        predictor.demos = [
            *predictor.demos,
            *(dspy.Example(**{**blank, **shot}) for shot in right),
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

    Raises:
        CompileFailed: The program answered none of the examples, or none could be judged.
    """
    copy = student.deepcopy()
    optimizer = learner.optimizer.fresh()
    attach_like(copy, learner.program)
    memory = SQLiteMemory(":memory:", learner.memory.embedder, threshold=learner.memory.threshold)
    fresh = type(learner)(copy, optimizer, memory=memory, metric=learner.metric, key=learner.key)
    _pass_once(fresh, trainset)
    guidance = optimizer.consolidate(memory)
    rules = sum(len(policy.rules) for policy in guidance.policies.values())
    shots = sum(map(len, guidance.shots.values()))
    logger.info("The compiled program keeps %d rules and %d examples.", rules, shots)
    if not rules and not shots:
        logger.warning(
            "Nothing that was learned did more good than harm: the compiled program is the student."
        )
    learned = bake(copy, guidance)
    fresh.close()
    if valset:
        before = _total(student, valset, learner.metric)
        after = _total(learned, valset, learner.metric)
        logger.info("On the valset: %g before, %g after, of %d.", before, after, len(valset))
        if after <= before:
            return student.deepcopy()
    return learned


def check_examples(name: str, examples: Any) -> list[Any]:
    """Return examples as a list, each checked to be one.

    Raises:
        ValueError: Not a list of ``dspy.Example`` with inputs; the message names the place.
    """
    if isinstance(examples, (str, bytes)) or not isinstance(examples, Iterable):
        raise ValueError(f"{name} must be a list of dspy.Example, got {examples!r}.")
    found = list(examples)
    for place, example in enumerate(found):
        if not isinstance(example, dspy.Example):
            raise ValueError(f"{name}[{place}] must be a dspy.Example, got {example!r}.")
        if getattr(example, "_input_keys", None) is None:
            raise ValueError(
                f"{name}[{place}] has no inputs set; mark them: example.with_inputs('question')."
            )
    return found


def _pass_once(learner: Any, trainset: list[Any]) -> None:
    failures: list[str] = []
    unjudged: list[str] = []
    correct = 0
    for example in trainset:
        rollout = learner.predict_one(dict(example.inputs().items()))
        if rollout.failed:
            failures.append(rollout.error)
            continue
        verdict = judge(learner.metric, example, answer_of(rollout, learner.card))
        if not verdict.judged:
            unjudged.append(verdict.text)
        correct += learner.memory.is_correct(verdict)
        learner.learn_one(rollout, verdict)
    n = len(trainset)
    logger.info(
        "%d of %d right, %d failed, %d not judged.", correct, n, len(failures), len(unjudged)
    )
    if len(failures) == n:
        raise CompileFailed(f"The program failed on all {n} examples; the first: {failures[0]}")
    if len(failures) + len(unjudged) == n:
        raise CompileFailed(f"The metric judged none of {n} answers; the first: {unjudged[0]}")


def _total(program: Any, examples: list[Any], metric: Any) -> float:
    total = 0.0
    for example in examples:
        try:
            answer = program(**example.inputs())
        except Exception as error:  # noqa: BLE001 - one example may fail: it scores nothing
            logger.warning("A valset example failed: %s: %s", type(error).__name__, error)
            continue
        verdict = judge(metric, example, answer)
        total += verdict.score if verdict.judged else 0.0
    return total
