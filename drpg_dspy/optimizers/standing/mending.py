"""Violations that can be put right without a language model and without another word."""

from __future__ import annotations

import re

from drpg_dspy.constraints import CaseRule, EndRule, NoCommasRule, Rule, StartRule
from drpg_dspy.constraints.measures import COMMAS

__all__ = ["mended"]

_MARKS = ".,;:!?…"
_COMMAS = re.escape(COMMAS)
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_AT_LINE_END = re.compile(rf"[ \t]*[{_COMMAS}][ \t]*(?=\n|\Z)")
_BETWEEN = re.compile(rf"[ \t]*[{_COMMAS}][ \t]*")


def mended(answer: str, rule: Rule) -> str:
    """Return an answer that satisfies a rule, or the answer itself where that takes a writer.

    Letters change their case, commas become dashes, and what the answer is to begin or end with
    is put there; nothing is left out but commas.

    >>> mended("First, 1,000 crabs, then none,", NoCommasRule())
    'First – 1000 crabs – then none'
    >>> mended("Here are two tools.", StartRule("Google"))
    'Google – Here are two tools.'
    >>> mended("Is that all there is.", EndRule("?"))
    'Is that all there is?'
    >>> mended("We hope to hear from you.", EndRule("Yours, Anna"))
    'We hope to hear from you. Yours, Anna'
    """
    if not answer.strip():
        return answer
    if isinstance(rule, CaseRule):
        return answer.upper() if rule.upper else answer.lower()
    if isinstance(rule, NoCommasRule):
        text = _AT_LINE_END.sub("", _GROUPED.sub("", answer))
        return _BETWEEN.sub(" – ", text)
    if isinstance(rule, StartRule) and rule.whole:
        between = " " if rule.text.rstrip()[-1:] in _MARKS else " – "
        return f"{rule.text}{between}{answer.lstrip()}"
    if isinstance(rule, EndRule):
        given = answer.rstrip()
        if len(rule.text) == 1 and rule.text in _MARKS:
            return f"{given.rstrip(_MARKS)}{rule.text}"
        return f"{given} {rule.text}"
    return answer
