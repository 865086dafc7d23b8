"""Programs and models that the tests of constraints share."""

from __future__ import annotations

import dspy

from drpg_dspy import OnlinePolicyOptimizer
from drpg_dspy.testing import ScriptedLM, fields

LEARNED = "Name the town in every answer."
UNDER_200 = "Keep the answer under 200 words."
UNDER_5 = "Keep the answer under 5 words."


def qa() -> dspy.Module:
    return dspy.Predict("question -> answer")


def play(draft: str, *repairs: str, rule: str = LEARNED, judge: str = "") -> ScriptedLM:
    """A model that answers with a draft, repairs it in turn, writes one rule, and compares."""
    left = list(repairs)

    def reply(messages: list[dict[str, str]]) -> str:
        system = messages[0]["content"]
        if "first answer was" in system:
            return fields(answer=left.pop(0) if len(left) > 1 else left[0])
        if "coach" in system:
            return f'{{"rules": ["{rule}"]}}'
        if "contradict" in system or "cannot be followed" in system:
            return judge
        return fields(answer=draft)

    return ScriptedLM(reply)


def policy(online: OnlinePolicyOptimizer, route: str = "self") -> str:
    given = online.propose({"question": "How far?"}).policies.get(route)
    return "" if given is None else given.text
