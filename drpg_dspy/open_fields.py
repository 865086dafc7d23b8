"""Fields of a signature that this library fills: where policy and examples stand in a prompt."""

from __future__ import annotations

from typing import Any

import dspy

__all__ = [
    "JUDGED_SHOTS_DESC",
    "OPEN_FIELD",
    "POLICY_DESC",
    "SHOTS_DESC",
    "PolicyField",
    "ShotsField",
]

POLICY_DESC = "Rules learned from feedback on earlier inputs. Follow each one that applies."
"""How the policy field is described to the model."""

SHOTS_DESC = "Earlier inputs of this kind with answers that were judged correct."
"""How a field for examples is described to the model."""

JUDGED_SHOTS_DESC = (
    "Earlier inputs of this kind, each with the answer that was given and the verdict on it. "
    "Do as the correct ones do, and do not repeat what was judged wrong."
)
"""How it is described where wrong answers stand among the examples."""

OPEN_FIELD = "drpg_open_field"
"""Key in a field's ``json_schema_extra`` that marks it as ours: ``"policy"`` or ``"shots"``."""


def PolicyField(desc: str = POLICY_DESC) -> Any:
    """Declare the place of the policy in a signature.

    A program that declares no such field gets one put first; one that does decides where the
    policy stands in its prompt. Outside this library the field is empty.

    Args:
        desc: How the field is described to the model.

    >>> class Answer(dspy.Signature):
    ...     "Answer the question."
    ...     policy: str = PolicyField()
    ...     question: str = dspy.InputField()
    ...     answer: str = dspy.OutputField()
    """
    return _open_field(desc, "policy")


def ShotsField(desc: str = SHOTS_DESC) -> Any:
    """Declare that retrieved examples are shown as one text in this field.

    Without it they travel as DSPy demos, one pair of chat messages each. One text costs about
    a third of the tokens, because the field markers are not repeated for every example.

    Args:
        desc: How the field is described to the model.
    """
    return _open_field(desc, "shots")


def _open_field(desc: str, kind: str) -> Any:
    info = dspy.InputField(desc=desc, default="")
    info.json_schema_extra[OPEN_FIELD] = kind
    return info
