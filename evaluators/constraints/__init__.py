"""Constraints on answers, checked: 8 types by rule, 13 by a judging language model.

The rules themselves are part of the library (:mod:`drpg_dspy.constraints`), because an adapter
checks its own answers with them; here they are joined with a judge, and made a metric.
"""

from __future__ import annotations

from drpg_dspy.constraints import is_refusal
from evaluators.constraints.agreeing import CASES, LEAST_AGREEMENT, Agreement, Case, agreement
from evaluators.constraints.judge import CRITERIA, PROMPT_VERSION, ConstraintJudge
from evaluators.constraints.metric import SCORINGS, ConstraintsMet

__all__ = [
    "CASES",
    "CRITERIA",
    "LEAST_AGREEMENT",
    "PROMPT_VERSION",
    "SCORINGS",
    "Agreement",
    "Case",
    "ConstraintJudge",
    "ConstraintsMet",
    "agreement",
    "is_refusal",
]
