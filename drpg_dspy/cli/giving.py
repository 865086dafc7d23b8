"""What ``drpg feedback give`` does."""

from __future__ import annotations

from drpg_dspy.cli.app import wrong_if
from drpg_dspy.cli.chatter import quiet
from drpg_dspy.cli.named_learners import learner_named
from drpg_dspy.cli.steps import find_step
from drpg_dspy.exceptions import UnknownRollout
from drpg_dspy.memory import Memory
from drpg_dspy.types import Feedback

__all__ = ["give_feedback"]


def give_feedback(
    name: str, rollout: str, score: float | None, text: str, author: str
) -> tuple[int, str]:
    """Let a learner learn a person's verdict; without a score the one that stands is taken back.

    Args:
        name: A run or ``MODULE:ATTRIBUTE``, see :func:`.learner_named`.
        rollout: A rollout's id, or the number of its step.
        score: From 0 to 1, or NaN.
        text: What was wrong or right.
        author: Who says so.

    Returns:
        The step, and what was done, in words.

    Raises:
        click.BadParameter: There is no such learner, rollout or step, or the score is none.
    """
    with wrong_if("--score", ValueError):
        verdict = None if score is None else Feedback(score, text=text, author=author)
    with quiet(), learner_named(name) as learner:
        rollout_id, step = _rollout(learner.memory, rollout)
        if verdict is None:
            learner.retract(rollout_id)
        else:
            learner.learn_one(rollout_id, verdict)
        standing = learner.memory.feedback(rollout_id)
    if verdict is None:
        return step, "the verdict was taken back; it waits for feedback"
    if standing is not None and standing.error:
        return step, f"score {score:g} kept, but not learned from: {standing.error}"
    return step, f"score {score:g} kept"


def _rollout(memory: Memory, named: str) -> tuple[str, int]:
    with wrong_if("ROLLOUT", UnknownRollout, ValueError):
        try:
            return named, memory.rollout(named).step
        except UnknownRollout:
            if not named.isdigit():
                raise
        rollout, _ = find_step(memory, int(named))
        return rollout.id, rollout.step
