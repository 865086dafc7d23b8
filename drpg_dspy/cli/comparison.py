"""Two runs over the same questions side by side: what a method changed, better or not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from drpg_dspy.analysis import RunSummary, summarise
from drpg_dspy.analysis.statistics import mcnemar
from drpg_dspy.cli.layout import block, clean, clip, columns, count, heading, minutes, plural, share
from drpg_dspy.memory.base import Memory
from drpg_dspy.types import Feedback, Rollout

__all__ = ["Flips", "compare_text", "flips"]

_CHANCE = 0.05
Step = tuple[Rollout, Feedback | None]


@dataclass(frozen=True, slots=True)
class Flips:
    """Questions whose verdict differs between two runs; pairs of (before, after).

    Attributes:
        fixed: Wrong before, right after.
        broken: Right before, wrong after.
        compared: Questions that both runs judged.
    """

    fixed: tuple[tuple[Step, Step], ...]
    broken: tuple[tuple[Step, Step], ...]
    compared: int


def flips(before: Memory, after: Memory) -> Flips:
    """Compare verdicts step by step; steps that either run did not judge are left out."""
    first = {rollout.step: (rollout, feedback) for rollout, feedback in before.rollouts()}
    fixed: list[tuple[Step, Step]] = []
    broken: list[tuple[Step, Step]] = []
    compared = 0
    for rollout, feedback in after.rollouts():
        old = first.get(rollout.step)
        if old is None or old[1] is None or feedback is None:
            continue
        if not (old[1].judged and feedback.judged) or old[0].inputs != rollout.inputs:
            continue
        compared += 1
        was, now = before.is_correct(old[1]), after.is_correct(feedback)
        if was != now:
            (fixed if now else broken).append((old, (rollout, feedback)))
    return Flips(tuple(fixed), tuple(broken), compared)


def compare_text(before: tuple[str, Memory], after: tuple[str, Memory]) -> str:
    """Say what two runs measured: figures, first policies, and a question that changed.

    Args:
        before: Name and memory of the baseline.
        after: Name and memory of the method.
    """
    names = (before[0], after[0])
    memories = (before[1], after[1])
    summaries = (summarise(memories[0]), summarise(memories[1]))
    changed = flips(*memories)
    parts = [_figures(names, summaries), _outcome(names, summaries, changed)]
    parts.append(_policies(memories[1]))
    if example := _example(names, changed):
        parts.append(example)
    return "\n\n".join(parts)


def _figures(names: tuple[str, str], summaries: tuple[RunSummary, RunSummary]) -> str:
    pairs = zip(_column(summaries[0]), _column(summaries[1]), strict=True)
    table = [(label, before, after) for (label, before), (_, after) in pairs]
    return columns(table, ("", *names))


def _column(run: RunSummary) -> list[tuple[str, str]]:
    steps = max(run.n, 1)
    policy = run.policy_writing + run.learning
    return [
        ("right", f"{run.correct} of {run.settled}"),
        ("score", share(run.score)),
        ("not judged, failed", f"{run.not_judged}, {run.failed}"),
        ("tokens in a question", count(run.usage.prompt_tokens / steps)),
        ("  of it for policies", count(policy.prompt_tokens / steps)),
        ("tokens out a question", count(run.usage.completion_tokens / steps)),
        ("  of it for policies", count(policy.completion_tokens / steps)),
        ("LM calls", count(run.usage.calls)),
        ("time", minutes(run.seconds)),
    ]


def _outcome(
    names: tuple[str, str], summaries: tuple[RunSummary, RunSummary], changed: Flips
) -> str:
    """Say plainly which was better, and how little or much that proves."""
    fixed, broken = len(changed.fixed), len(changed.broken)
    difference = summaries[1].score - summaries[0].score
    if math.isnan(difference):
        verdict = "There are no two scores to compare."
    elif difference == 0:
        verdict = f"{names[1]} scored the same as {names[0]} in this run."
    else:
        word = "more" if difference > 0 else "less"
        points = f"{100 * abs(difference):.1f} points"
        verdict = f"{names[1]} scored {points} {word} than {names[0]} in this run."
    if fixed == broken == 0:
        return f"{heading(verdict)}\nNo question's verdict differs."
    chance = mcnemar(fixed, broken).two_sided
    return (
        f"{heading(verdict)}\nOf {plural(changed.compared, 'question')} that both runs judged, "
        f"only {names[1]} got {plural(fixed, 'question')} right, only "
        f"{names[0]} {plural(broken, 'question')} (exact McNemar test, two-sided: "
        f"p {f'= {chance:.3f}' if chance >= 0.001 else '< 0.001'}"
        f"{'; chance alone may do that' if chance > _CHANCE else ''})."
    )


def _policies(memory: Memory, most: int = 3) -> str:
    versions = memory.policies()
    if not versions:
        return f"{heading('No policy was learned.')} The writer's replies held no usable rule."
    lines = [heading(f"The first of {plural(len(versions), 'policy', 'policies')} it wrote")]
    for policy in versions[:most]:
        lines.append(f"  {policy.route}@{policy.version}, at step {policy.step}")
        lines.extend(f"    - {clean(rule.text)}" for rule in policy.rules)
    return "\n".join(lines)


def _example(names: tuple[str, str], changed: Flips) -> str:
    pairs = changed.fixed or changed.broken
    if not pairs:
        return ""
    (old, old_verdict), (new, new_verdict) = pairs[-1]
    title = "A question whose answer changed" + ("" if changed.fixed else ", for the worse")
    return "\n".join(
        [
            f"{heading(title)} (step {new.step})",
            f"  {clip(new.key, 100)}",
            *_answer(names[0], old, old_verdict, right=not changed.fixed),
            *_answer(names[1], new, new_verdict, right=bool(changed.fixed)),
        ]
    )


def _answer(name: str, rollout: Rollout, feedback: Feedback | None, right: bool) -> Iterator[str]:
    yield f"  {'✓' if right else '✗'} {name}"
    for value in (rollout.outputs or {}).values():
        yield block(value, "      ", 8)
    if feedback is not None and feedback.text and not right:
        yield f"      reviewer: {clip(feedback.text, 100)}"
