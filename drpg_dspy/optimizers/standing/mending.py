"""Violations that can be put right without a language model, and nothing said is lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, get_args

from drpg_dspy.constraints import CaseRule, EndRule, NoCommasRule, Rule, StartRule
from drpg_dspy.constraints.measures import COMMAS, is_json

__all__ = ["MENDS", "Mend", "kind_of", "mended", "mends"]

Mend = Literal["case", "commas", "begin", "end", "length"]
"""What may be put right without a writer: letters' case, commas, what an answer begins and ends
with, and its length, by leaving its last sentences out (:mod:`.cutting`)."""

MENDS: tuple[Mend, ...] = get_args(Mend)

_MARKS = ".,;:!?…"
_COMMAS = re.escape(COMMAS)
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_AT_LINE_END = re.compile(rf"[ \t]*[{_COMMAS}][ \t]*(?=\n|\Z)")
_BETWEEN = re.compile(rf"[ \t]*[{_COMMAS}][ \t]*")

_MACHINE = re.compile(
    r"`[^`\n]+`|^[ \t]*(?:```|~~~)|https?://|\A\s*(?:select|insert|update|delete|create|with)\b.*"
    r"\b(?:from|into|set|table|as)\b|</\w+>",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
"""Code, addresses, SQL and markup: a machine reads them letter by letter."""

_TIGHT = re.compile(r"\w,\w")
"""A comma within a decimal, a list of columns or a line of CSV; prose puts a blank after it."""

_BLOCK_FIRST = re.compile(r"\s*(?:```|~~~|\||<\w)")
_BLOCK_LAST = re.compile(r"(?:```|~~~|\||>)\s*\Z")

_NUMBERS = re.compile(rf"(?<=\d)[ \t]*[{_COMMAS}][ \t]*(?=\d)")
"""Between numbers a dash would make a range of them."""

_NEEDLESS = re.compile(
    rf"""
    [ \t]*[{_COMMAS}](?=[ \t]+(?:and|or|but|nor|so|yet|because|while|which|who|where|when)\b)
    | (?:(?<=^)|(?<=[.!?]\s)|(?<=[-*•]\s)) (?P<opening>
        however|therefore|moreover|furthermore|additionally|finally|overall|instead|meanwhile
        |first|firstly|second|secondly|third|thirdly|next|then|also|still|thus|today|yes|no
        |in\ addition|in\ conclusion|in\ short|for\ example|for\ instance|of\ course|after\ all
      )[{_COMMAS}]
    | (?P<date>
        \b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)
        (?:\.|uary|ruary|ch|il|ust|ember|tember|ober)?[ \t]+\d\d?
      )[{_COMMAS}](?=[ \t]*\d{{4}}\b)
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
"""Commas that English does without: before a conjunction, after an opening, before a year."""


def mends(given: bool | Sequence[Mend]) -> frozenset[Mend]:
    """Return the kinds that are meant: all, none, or those that are named.

    Raises:
        ValueError: It is neither a bool nor a sequence of :data:`MENDS`.

    >>> sorted(mends(["case", "end"])), mends(False)
    (['case', 'end'], frozenset())
    """
    if isinstance(given, bool):
        return frozenset(MENDS if given else ())
    named: Any = given
    if isinstance(named, (list, tuple, set, frozenset)) and set(named) <= set(MENDS):
        return frozenset(named)
    raise ValueError(f"mend must be True, False or some of {list(MENDS)}, got {given!r}.")


def kind_of(rule: Rule) -> Mend | None:
    """Return how a rule's violation is put right; ``None`` = that takes a writer."""
    if isinstance(rule, StartRule | EndRule) and not rule.whole:
        return None
    kinds: dict[type, Mend] = {
        CaseRule: "case",
        NoCommasRule: "commas",
        StartRule: "begin",
        EndRule: "end",
    }
    return kinds.get(type(rule))


def mended(answer: str, rule: Rule) -> str:
    """Return an answer that satisfies a rule, or the answer itself where that takes a writer.

    Letters change their case. Commas go where English does without them, and become dashes (between
    numbers semicolons) elsewhere. What an answer is to begin or end with is put there. Nothing is
    left out but commas. What a machine may read stays as it is, and with it the answer: code, SQL,
    JSON, addresses, commas without a blank, a block or table at the end that would be touched.

    >>> mended("First, 1,000 crabs, then none,", NoCommasRule())
    'First 1000 crabs – then none'
    >>> mended("However, it rained on May 5, 2026, and we left.", NoCommasRule())
    'However it rained on May 5 2026 and we left.'
    >>> mended("In 1998, 2003, Rome", NoCommasRule())
    'In 1998; 2003 – Rome'
    >>> mended("Call `f(a, b)`.", NoCommasRule())
    'Call `f(a, b)`.'
    >>> mended("Here are two tools.", StartRule("Google"))
    'Google – Here are two tools.'
    >>> mended("Is that all there is.", EndRule("?"))
    'Is that all there is?'
    >>> mended("We hope to hear from you.", EndRule("Yours, Anna"))
    'We hope to hear from you. Yours, Anna'
    """
    if not answer.strip():
        return answer
    if (isinstance(rule, CaseRule | NoCommasRule) and _MACHINE.search(answer)) or is_json(answer):
        return answer
    if isinstance(rule, CaseRule):
        return answer.upper() if rule.upper else answer.lower()
    if isinstance(rule, NoCommasRule):
        if _TIGHT.search(_GROUPED.sub("", answer)):
            return answer
        text = _AT_LINE_END.sub("", _GROUPED.sub("", answer))
        text = _NEEDLESS.sub(lambda found: found["opening"] or found["date"] or "", text)
        text = _NUMBERS.sub("; ", text)
        return _BETWEEN.sub(" – ", text)
    if isinstance(rule, StartRule) and rule.whole and not _BLOCK_FIRST.match(answer):
        between = " " if rule.text.rstrip()[-1:] in _MARKS else " – "
        return f"{rule.text}{between}{answer.lstrip()}"
    if isinstance(rule, EndRule) and not _BLOCK_LAST.search(answer):
        given = answer.rstrip()
        if len(rule.text) == 1 and rule.text in _MARKS:
            return f"{given.rstrip(_MARKS)}{rule.text}"
        return f"{given} {rule.text}"
    return answer
