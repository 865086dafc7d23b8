"""Which rules cannot both hold, whatever the answer."""

from __future__ import annotations

import itertools

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
from drpg_dspy.constraints.measures import COMMAS, count_words, occurrences
from drpg_dspy.constraints.rules import amount

__all__ = ["clash", "first_clash", "literal_of", "own_clash"]

_UNITS = ("paragraphs", "sentences", "words")  # each of the one before holds one of the next
_SHAPES = {"json", "list", "table", "headings"}


def clash(one: Rule, other: Rule) -> str:
    """Say why no answer satisfies both rules; ``""`` = one may.

    >>> clash(LengthRule("words", 0, 199), LengthRule("words", 300))
    'at most 199 words and at least 300 words'
    >>> clash(CaseRule(upper=True), CaseRule(upper=False))
    'upper case and lower case'
    >>> clash(NoCommasRule(), EndRule("Yours, Anna"))
    "no commas and 'Yours, Anna'"
    >>> clash(LengthRule("words", 0, 199), KeywordRule("Python"))
    ''
    """
    return _one_way(one, other) or _one_way(other, one)


def _one_way(one: Rule, other: Rule) -> str:
    if isinstance(one, LengthRule):
        return _length(one, other)
    if isinstance(one, CaseRule) and isinstance(other, CaseRule) and one.upper != other.upper:
        return "upper case and lower case"
    if isinstance(one, NoCommasRule):
        literal = literal_of(other)
        return f"no commas and {literal!r}" if any(c in literal for c in COMMAS) else ""
    if isinstance(one, KeywordRule):
        return _keyword(one, other)
    if isinstance(one, FormatRule):
        return _format(one, other)
    if isinstance(one, StartRule) and isinstance(other, StartRule):
        return _edges(one.text, other.text, "begin with", first=True)
    if isinstance(one, EndRule) and isinstance(other, EndRule):
        return _edges(one.text, other.text, "end with", first=False)
    return ""


def _length(one: LengthRule, other: Rule) -> str:
    said = _said(one)
    if isinstance(other, LengthRule):
        finer, coarser = _UNITS.index(one.unit), _UNITS.index(other.unit)
        if one.most is not None and finer >= coarser and other.least > one.most:
            return f"{said} and {_said(other)}"
        return ""
    if one.most is None:
        return ""
    if one.unit == "words":
        times = max(1, other.least) if isinstance(other, KeywordRule) else 1
        words = times * count_words(literal_of(other))
        brought = f"{literal_of(other)!r} ({amount(words, 'words')})"
        return f"{said} and {brought}" if words > one.most else ""
    if isinstance(other, FormatRule) and other.kind == "list" and other.most != 0:
        items = other.least if other.counted else 2
        return f"{said} and {amount(items, 'list items')}" if items > one.most else ""
    return ""


def _said(one: LengthRule) -> str:
    said = bounds(one.least, one.most)
    return f"{said} {one.unit.rstrip('s') if said.endswith(' 1') else one.unit}"


def _keyword(one: KeywordRule, other: Rule) -> str:
    """Compare how often a word may occur with how often another requirement brings it in."""
    if one.most is None:
        return ""
    times = other.least if isinstance(other, KeywordRule) else 1
    brought = times * occurrences(one.keyword, literal_of(other))
    if brought <= one.most:
        return ""
    return f"{one.keyword!r} {bounds(0, one.most)} and {literal_of(other)!r}"


def _format(one: FormatRule, other: Rule) -> str:
    wanted = one.most != 0
    if isinstance(other, FormatRule):
        if one.kind == other.kind and one.counted == other.counted:
            apart = one.most is not None and other.least > one.most
            none = not wanted and other.most != 0
            return (
                f"{one.kind}: {bounds(one.least, one.most)} and {bounds(other.least, other.most)}"
                if apart or none
                else ""
            )
        if not wanted or other.most == 0:
            return f"{one.kind} and no {one.kind}" if one.kind == other.kind else ""
        whole_json = one.kind == "json" and not one.within
        if (whole_json or one.kind == "paragraphs") and other.kind in _SHAPES - {one.kind}:
            return f"{one.kind} and {other.kind}"
        if whole_json and other.kind == "paragraphs":
            return "json and paragraphs"
        return ""
    if one.kind == "json" and wanted and not one.within:
        if isinstance(other, StartRule) and not other.text.lstrip().startswith(("{", "[")):
            return f"json and begin with {other.text!r}"
        if isinstance(other, EndRule) and not other.text.rstrip().endswith(("}", "]")):
            return f"json and end with {other.text!r}"
    return ""


def _edges(one: str, other: str, verb: str, *, first: bool) -> str:
    a, b = (" ".join(text.split()).casefold() for text in (one, other))
    fits = a.startswith(b) or b.startswith(a) if first else a.endswith(b) or b.endswith(a)
    return "" if fits else f"{verb} {one!r} and {verb} {other!r}"


def literal_of(rule: Rule) -> str:
    """Return the text that a rule brings into every answer; ``""`` = none."""
    if isinstance(rule, KeywordRule):
        return rule.keyword if rule.least > 0 else ""
    return rule.text if isinstance(rule, (StartRule, EndRule)) else ""


def first_clash(ones: tuple[Rule, ...], others: tuple[Rule, ...]) -> str:
    """Return the first reason why two sets of rules cannot both hold; ``""`` = none is found."""
    pairs = itertools.product(ones, others)
    return next(filter(None, (clash(one, other) for one, other in pairs)), "")


def own_clash(rules: tuple[Rule, ...]) -> str:
    """Return the first reason why rules of one text cannot all hold; ``""`` = none is found.

    >>> own_clash((LengthRule("words", 0, 49), LengthRule("words", 100)))
    'at most 49 words and at least 100 words'
    """
    pairs = itertools.combinations(rules, 2)
    return next(filter(None, (clash(one, other) for one, other in pairs)), "")
