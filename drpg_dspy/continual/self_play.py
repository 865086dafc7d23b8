"""Self-play: the model answers tasks of its own and judges itself, without any test data."""

from __future__ import annotations

import dspy

from drpg_dspy.constraints import Check

__all__ = ["TASKS", "SelfJudge", "tasks_for"]

TASKS = (
    "Explain to a new colleague how to book a meeting room.",
    "Describe what makes a good breakfast.",
    "Tell a visitor what there is to see in a small harbour town.",
    "Give advice to someone who plants tomatoes for the first time.",
    "Summarise why regular breaks help when one works at a desk.",
    "Describe how a bicycle tyre is mended.",
    "Say what one should think of before adopting a cat.",
    "Explain what a library does for its town.",
)
"""Synthetic tasks; none is in any benchmark. The same for all methods, in this order."""


def tasks_for(step: int, count: int) -> list[str]:
    """Return the tasks that a method practises on at a step.

    >>> tasks_for(0, 1) == [TASKS[0]], tasks_for(7, 2) == [TASKS[7], TASKS[0]]
    (True, True)
    """
    return [TASKS[(step + place) % len(TASKS)] for place in range(count)]


class _Verify(dspy.Signature):
    """Check whether the response meets the requirement, and say what is missing."""

    requirement: str = dspy.InputField()
    response: str = dspy.InputField()
    met: bool = dspy.OutputField(desc="True if the response meets the requirement, else False.")
    reason: str = dspy.OutputField(desc="One short sentence.")


class SelfJudge:
    """The backbone judging its own answers, as RECAP's self-play methods do.

    One call of the LM that is current. It is lenient with itself: near-perfect self-play and
    flat test results are what the paper found.
    """

    def __init__(self) -> None:
        self._verify = dspy.Predict(_Verify)

    def check(
        self, constraint_type: str, constraint_text: str, answer: str, prompt: str = ""
    ) -> Check:
        """Judge one answer; ``satisfied`` is ``None`` where the reply gives no verdict."""
        if not answer.strip():
            return Check(False, "the answer is empty", "judge")
        found = self._verify(requirement=constraint_text, response=answer)
        met = found.met if isinstance(found.met, bool) else None
        return Check(met, str(found.reason or ""), "judge")
