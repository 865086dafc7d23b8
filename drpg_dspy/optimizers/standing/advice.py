"""What to do otherwise than in an answer that violated a rule, as an instruction to its writer.

Small models count sentences better than words, and follow an order better than a complaint.
"""

from __future__ import annotations

from drpg_dspy.constraints import (
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
from drpg_dspy.constraints.measures import (
    count_paragraphs,
    count_sentences,
    count_words,
    occurrences,
)

__all__ = ["advice"]

_COUNT = {"words": count_words, "sentences": count_sentences, "paragraphs": count_paragraphs}
_AIM = 0.8
"""Of an upper limit on words: what to aim for, since models write more than they are asked to."""
_SENTENCE = 14
"""Words of a short sentence."""

_SHAPES = {
    "json": "Write it as JSON and nothing else: no text before it or after it.",
    "table": "Write it as a Markdown table.",
    "headings": "Put a heading above each part: a line that begins with '## '.",
    "paragraphs": "Write it as running text: no list, no table, no heading.",
}
_LISTS = {
    "": "Write it as a list, each point on a line of its own that begins with '- '.",
    "bullet": "Write it as a list, each point on a line of its own that begins with '- '.",
    "number": "Write it as a numbered list: '1. ', '2. ' and so on, each on a line of its own.",
}


def advice(rule: Rule, answer: str) -> str:
    """Return the instruction that makes the next answer satisfy a rule.

    >>> advice(LengthRule("sentences", 0, 2), "One. Two. Three.")
    'Write 2 sentences at most: it had 3 sentences.'
    >>> advice(KeywordRule("budget", 2), "A budget.")
    "Write sentences that use 'budget' 2 times: it did so 1 time."
    >>> advice(FormatRule("list", "items", 5), "x")
    "Write it as a list, each point on a line of its own that begins with '- '. At least 5 items."
    """
    if isinstance(rule, LengthRule):
        return _length(rule, answer)
    if isinstance(rule, KeywordRule):
        return _keyword(rule, answer)
    if isinstance(rule, FormatRule):
        return _format(rule)
    if isinstance(rule, StartRule | EndRule) and not rule.whole:
        where = "first word begin" if isinstance(rule, StartRule) else "last word end"
        return f"Let the {where} with the letter {rule.text}"
    if isinstance(rule, StartRule):
        return f"Let the very first words be: {rule.text}"
    if isinstance(rule, EndRule):
        return f"Let the very last words be: {rule.text}"
    if isinstance(rule, NoCommasRule):
        return "Use no comma at all: make two sentences, or use a dash."
    return f"Write every letter in {_case(rule)} case."


def _case(rule: CaseRule) -> str:
    return "upper" if rule.upper else "lower"


def _length(rule: LengthRule, answer: str) -> str:
    found, unit = _COUNT[rule.unit](answer), rule.unit
    too_long = rule.most is not None and found > rule.most
    limit = rule.most if rule.most is not None and too_long else rule.least
    had = f"it had {found} {unit if found != 1 else unit[:-1]}"
    if unit != "words":
        return f"Write {limit} {unit} at {'most' if too_long else 'least'}: {had}."
    aim = max(rule.least, 1, int(limit * _AIM)) if too_long else int(limit * (2 - _AIM))
    aim = aim if rule.most is None else min(aim, rule.most)
    sentences = max(1, aim // _SENTENCE)
    said = f"{sentences} short sentences" if sentences > 1 else "one short sentence"
    allowed = f"at most {limit} are allowed" if too_long else f"at least {limit} are needed"
    return f"Write about {aim} words, {said}: {had}, {allowed}."


def _keyword(rule: KeywordRule, answer: str) -> str:
    found = occurrences(rule.keyword, answer)
    if rule.most == 0:
        return f"Say it without {rule.keyword!r}: use other words."
    limit = rule.least if found < rule.least else rule.most
    word = "" if found < rule.least else "at most "
    return (
        f"Write sentences that use {rule.keyword!r} {word}{_times(limit or 0)}: it did so "
        f"{_times(found)}."
    )


def _format(rule: FormatRule) -> str:
    if rule.most == 0:
        return f"Do without any {'JSON' if rule.kind == 'json' else rule.kind}."
    shape = _LISTS[rule.marks] if rule.kind == "list" else _SHAPES[rule.kind]
    if not rule.counted:
        return shape
    said = bounds(rule.least, rule.most)
    return f"{shape} {said[0].upper()}{said[1:]} {rule.counted}."


def _times(n: int) -> str:
    return "1 time" if n == 1 else f"{n} times"
