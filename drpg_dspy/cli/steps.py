"""One step of a run, in words: what was retrieved, the policy, the answer, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drpg_dspy.cli.layout import (
    block,
    clean,
    clip,
    columns,
    count,
    heading,
    minutes,
    plural,
    ranges,
)
from drpg_dspy.memory.base import Memory
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Usage

__all__ = ["find_step", "mark", "step_as_plain", "step_as_text", "verdict_word"]

_PURPOSES = {
    "shots": "Examples shown to the program (R_t)",
    "correct": "Right cases retrieved for the policy (R'_t)",
    "wrong": "Wrong cases retrieved for the policy (R'_t)",
}
_MAX_LINES = 12


def find_step(memory: Memory, step: int) -> tuple[Rollout, Feedback | None]:
    """Return the rollout of a step with the feedback that stands.

    Raises:
        ValueError: The run has no such step; the message says which it has.
    """
    found: tuple[Rollout, Feedback | None] | None = None
    for rollout, feedback in memory.rollouts(after_step=step - 1):
        if rollout.step != step:
            break
        found = rollout, feedback  # a step that failed may have been tried again: the last stands
    if found is not None:
        return found
    steps = sorted({rollout.step for rollout, _ in memory.rollouts()})
    has = f"it has step{'s' * (len(steps) > 1)} {ranges(steps)}" if steps else "it has none yet"
    raise ValueError(f"This run has no step {step}; {has}.")


def verdict_word(memory: Memory, rollout: Rollout, feedback: Feedback | None) -> str:
    """Say in a word or two what became of a rollout."""
    if rollout.failed:
        return "failed"
    if feedback is None:
        return "waiting for feedback"
    if not feedback.judged:
        return "not judged"
    return "right" if memory.is_correct(feedback) else "wrong"


def mark(word: str) -> str:
    """Return a verdict as one sign."""
    return {"right": "✓", "wrong": "✗", "failed": "!"}.get(word, "?")


def step_as_text(memory: Memory, rollout: Rollout, feedback: Feedback | None, full: bool) -> str:
    """Return everything about one step, as paragraphs; long values are cut unless ``full``."""
    return "\n\n".join(_paragraphs(memory, rollout, feedback, None if full else _MAX_LINES))


def step_as_plain(memory: Memory, rollout: Rollout, feedback: Feedback | None) -> dict[str, Any]:
    """Return everything about one step for ``--json``, retrieved cases spelled out."""
    return {
        "step": rollout.step,
        "rollout_id": rollout.id,
        "verdict": verdict_word(memory, rollout, feedback),
        "inputs": rollout.inputs,
        "outputs": rollout.outputs,
        "error": rollout.error,
        "retrieved": {
            purpose: [_case_as_plain(memory, id) for id in ids]
            for purpose, ids in rollout.guidance.retrieved.items()
        },
        "policies": rollout.guidance.policies,
        "shots": rollout.guidance.shots,
        "counts": rollout.guidance.counts,
        "trace": rollout.trace,
        "feedback": feedback,
        "usage": {
            "answering": rollout.usage,
            "policy": rollout.guidance.usage,
            "learning": feedback.usage if feedback else Usage(),
        },
        "created_at": rollout.created_at,
        "seconds": rollout.seconds,
    }


def _paragraphs(
    memory: Memory, rollout: Rollout, feedback: Feedback | None, lines: int | None
) -> Iterator[str]:
    word = verdict_word(memory, rollout, feedback)
    yield heading(f"Step {rollout.step} {mark(word)} {word}") + f"   rollout {rollout.id}"
    yield _fields("Inputs", rollout.inputs, lines)
    retrieved = rollout.guidance.retrieved
    for purpose in sorted(retrieved, key=[*_PURPOSES, *retrieved].index):
        ids = retrieved[purpose]
        title = _PURPOSES.get(purpose, f"Retrieved as {purpose}")
        yield f"{heading(title)}: {len(ids)}\n{_cases(memory, ids)}".rstrip()
    yield _policy(memory, rollout.guidance)
    if rollout.failed:
        yield f"{heading('Answer')}\n  none: {clean(rollout.error)}"
    else:
        yield _fields("Answer", rollout.outputs or {}, lines)
    yield f"{heading('Verdict')}\n{_verdict(word, feedback, lines)}"
    yield f"{heading('Cost')}\n{_cost(rollout, feedback)}"


def _fields(title: str, values: Mapping[str, Any], lines: int | None) -> str:
    shown = [f"  {name}:\n{block(value, '    ', lines)}" for name, value in values.items()]
    return "\n".join([heading(title), *shown])


def _cases(memory: Memory, ids: tuple[str, ...]) -> str:
    rows = []
    for id in ids:
        rollout, feedback = memory.rollout(id), memory.feedback(id)
        word = verdict_word(memory, rollout, feedback)
        answer = " | ".join(str(value) for value in (rollout.outputs or {}).values())
        rows.append((f"  {mark(word)} step {rollout.step}", clip(rollout.key, 56), clip(answer)))
    return columns(rows)


def _policy(memory: Memory, guidance: Guidance) -> str:
    policies = [policy for policy in guidance.policies.values() if policy.rules]
    if not policies:
        return f"{heading('Policy (P_t)')}\n  none: the plain program's prompt was used"
    return "\n\n".join(_one_policy(memory, policy) for policy in policies)


def _one_policy(memory: Memory, policy: Policy) -> str:
    head = f"{heading('Policy (P_t)')} {policy.route}@{policy.version}, by {policy.author}"
    lines = []
    for rule in policy.rules:
        steps = ", ".join(f"step {memory.rollout(id).step}" for id in rule.sources)
        lines.append(f"  - {clean(rule.text)}" + (f"\n      from {steps}" if steps else ""))
    return "\n".join([head, *lines])


def _verdict(word: str, feedback: Feedback | None, lines: int | None) -> str:
    if feedback is None:
        return f"  {word}"
    score = f", score {feedback.score:g}" if feedback.judged else ""
    parts = [f"  {word}{score}, by {feedback.author}"]
    if feedback.judged and not feedback.informative:
        parts.append("  counts in the report, proves nothing: not learned from")
    if feedback.text:
        parts.append(block(feedback.text, "  ", lines))
    if feedback.error:
        parts.append(f"  nothing was written from it: {clean(feedback.error)}")
    return "\n".join(parts)


def _cost(rollout: Rollout, feedback: Feedback | None) -> str:
    spent = [("answering", rollout.usage), ("writing the policy", rollout.guidance.usage)]
    if feedback is not None and feedback.usage.calls:
        spent.append(("learning", feedback.usage))
    rows = [
        (
            f"  {what}",
            plural(usage.calls, "LM call"),
            f"{count(usage.prompt_tokens)} tokens in",
            f"{count(usage.completion_tokens)} out",
        )
        for what, usage in spent
    ]
    return f"{columns(rows)}\n  {minutes(rollout.seconds)} in all"


def _case_as_plain(memory: Memory, id: str) -> dict[str, Any]:
    rollout, feedback = memory.rollout(id), memory.feedback(id)
    return {
        "step": rollout.step,
        "rollout_id": id,
        "key": rollout.key,
        "outputs": rollout.outputs,
        "verdict": verdict_word(memory, rollout, feedback),
    }
