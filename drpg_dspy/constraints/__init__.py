"""Constraints: requirements that people add, edit and withdraw, and the rules that check them.

>>> RuleCheck().check("Length", "Keep the answer under 5 words.", "One two three.")
Check(satisfied=True, detail='3 words', by='rule')
"""

from __future__ import annotations

from drpg_dspy.constraints.base import (
    JUDGED_TYPES,
    MAX_TEXT,
    RULE_TYPES,
    TYPES,
    Check,
    Constraint,
    ConstraintCheck,
    known_type,
)
from drpg_dspy.constraints.parsing import RuleCheck, parse_rule
from drpg_dspy.constraints.refusals import is_refusal
from drpg_dspy.constraints.rules import (
    CaseRule,
    EndRule,
    FormatRule,
    KeywordRule,
    LengthRule,
    NoCommasRule,
    Rule,
    StartRule,
    bounds,
)
from drpg_dspy.constraints.schedule import Operation, Schedule, Shadow, read_schedule

__all__ = [
    "JUDGED_TYPES",
    "MAX_TEXT",
    "RULE_TYPES",
    "TYPES",
    "CaseRule",
    "Check",
    "Constraint",
    "ConstraintCheck",
    "EndRule",
    "FormatRule",
    "KeywordRule",
    "LengthRule",
    "NoCommasRule",
    "Operation",
    "Rule",
    "RuleCheck",
    "Schedule",
    "Shadow",
    "StartRule",
    "bounds",
    "is_refusal",
    "known_type",
    "parse_rule",
    "read_schedule",
]
