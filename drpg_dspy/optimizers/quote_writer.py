"""Rules without a language model: what reviewers said, in their own words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.rules import parse_rules
from drpg_dspy.optimizers.writers import CaseView, PolicyWriter, Written, merge_rule
from drpg_dspy.retrieval.contrastive import ContrastiveHits
from drpg_dspy.types import Feedback, ProgramCard, Rule

__all__ = ["QuoteWriter", "advice"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])")


class QuoteWriter(PolicyWriter):
    """Quotes reviewers: each sentence of advice on the nearest wrong cases becomes a rule.

    Costs no LM call at all. A reviewer who writes "amounts are in cents" has written the rule
    already, and a small policy writer makes it worse: on the embedded stream a 1.5 B model
    turned such remarks into their opposite now and then. Without feedback in words there is
    nothing to quote, so DRPG needs ``feedback_text=True`` with it.

    Rules that several wrong cases lead to come first, then those of nearer cases.
    """

    needs_feedback_text: ClassVar[bool] = True

    def write(
        self,
        cases: ContrastiveHits,
        previous: Sequence[Rule],
        view: CaseView,
        card: ProgramCard,
        memory: MemoryView,
    ) -> Written:
        """Collect the advice on the wrong cases."""
        counts: Counter[str] = Counter()
        rules: list[Rule] = []
        for hit in cases.wrong:
            experience = hit.experience
            sentences = _SENTENCE_END.split(advice(experience.feedback))
            parsed = parse_rules(
                [s for s in sentences if s.strip()],
                max_rules=self.max_rules,
                max_rule_chars=self.max_rule_chars,
            )
            counts.update({k: n for k, n in parsed.counts.items() if k != "rules_unparsable"})
            for text in parsed.texts:
                author = experience.feedback.author
                merge_rule(rules, Rule(text, author=author, sources=(experience.id,)))
        rules.sort(key=lambda rule: -len(rule.sources))  # stable: nearer cases stay first
        return Written(tuple(rules[: self.max_rules]), counts=dict(counts))


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
