"""Rules without a language model: what reviewers said, in their own words."""

from __future__ import annotations

import logging
import re
from typing import ClassVar

from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.rules import ParsedRules, parse_rules
from drpg_dspy.optimizers.writers import CaseView, CollectingWriter
from drpg_dspy.types import Experience, Feedback, ProgramCard

__all__ = ["QuoteWriter", "advice"]

_log = logging.getLogger(__name__)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])")


class QuoteWriter(CollectingWriter):
    """Quotes reviewers: each sentence of advice on the nearest wrong cases becomes a rule.

    Costs no LM call at all. A reviewer who writes "amounts are in cents" has written the rule
    already, and a small policy writer makes it worse: on the embedded stream a 1.5 B model
    turned such remarks into their opposite now and then. Without feedback in words there is
    nothing to quote, so DRPG needs ``feedback_text=True`` with it.

    Args:
        max_rules: A policy holds at most this many rules, at least 1.
        max_rule_chars: Each is at most this long, at least 20.

    Raises:
        ValueError: One of them is no whole number, or too small.
    """

    needs_feedback_text: ClassVar[bool] = True

    _warned = False

    def learn(
        self, experience: Experience, view: CaseView, card: ProgramCard, memory: MemoryView
    ) -> None:
        """Say, once, that there is nothing to quote where a judge's words are findings alone."""
        said = experience.feedback
        if experience.correct or self._warned or not said.text.strip() or advice(said):
            return
        self._warned = True
        _log.warning(
            "QuoteWriter makes no rule of what %r said: %.80r. A judge's advice is what stands "
            'before a blank line, as in feedback="Use euros.\\n\\nExpected 5, got 500."; what '
            "stands behind it, or without one, is about this answer alone. This is said once.",
            said.author,
            said.text,
        )

    def rules_of(self, experience: Experience, memory: MemoryView) -> ParsedRules:
        """Return the sentences of advice that the case was given."""
        sentences = [s for s in _SENTENCE_END.split(advice(experience.feedback)) if s.strip()]
        if not sentences:
            return ParsedRules()
        return parse_rules(sentences, max_rules=self.max_rules, max_rule_chars=self.max_rule_chars)

    def author_of(self, experience: Experience) -> str:
        """Return who gave the advice."""
        return experience.feedback.author


def advice(feedback: Feedback) -> str:
    """Return the part of a feedback's text that is advice.

    What a person says is advice as a whole. A judge that has advice puts it before a blank line
    and its findings on this one answer behind; without a blank line there are only findings.

    >>> advice(Feedback(0.0, text="Use euros.", author="person"))
    'Use euros.'
    >>> advice(Feedback(0.0, text="Use euros.\\n\\nRow 1 differs: got 6650, expected 66.5."))
    'Use euros.'
    >>> advice(Feedback(0.0, text="Row 1 differs: got 6650, expected 66.5."))
    ''
    """
    if feedback.author.startswith("person"):
        return feedback.text
    head, blank, _ = feedback.text.partition("\n\n")
    return head if blank else ""
