"""The rules that constraints come down to, and how an answer is checked against each.

Every rule is pure: the same answer, the same verdict, no language model. An answer that is empty
satisfies none of them: what was asked for is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drpg_dspy.constraints.base import Check
from drpg_dspy.constraints.measures import (
    COMMAS,
    count_headings,
    count_list_items,
    count_paragraphs,
    count_sentences,
    count_words,
    holds_json,
    is_json,
    occurrences,
    table_sizes,
)

__all__ = [
    "CaseRule",
    "EndRule",
    "FormatRule",
    "KeywordRule",
    "LengthRule",
    "NoCommasRule",
    "Rule",
    "StartRule",
    "Unit",
    "amount",
    "bounds",
]

Unit = Literal["words", "sentences", "paragraphs"]
Kind = Literal["list", "json", "table", "headings", "paragraphs"]

_COUNT = {"words": count_words, "sentences": count_sentences, "paragraphs": count_paragraphs}
_OPENING = " \t\r\n\"'“”‘’«*_>"
_CLOSING = " \t\r\n\"'“”‘’»*_)]"
_MARKS = ".,;:!?…"
_SHOWN = 40
_REACH = 200  # characters beyond the asked text that are looked at, for spaces and marks


def bounds(least: int, most: int | None) -> str:
    """Say a range in words.

    >>> bounds(0, 120), bounds(3, None), bounds(2, 2), bounds(90, 110), bounds(0, 0)
    ('at most 120', 'at least 3', 'exactly 2', '90 to 110', 'none')
    """
    if most is None:
        return f"at least {least}"
    if most == 0:
        return "none"
    if least == most:
        return f"exactly {least}"
    return f"at most {most}" if least <= 0 else f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class LengthRule:
    """So many words, sentences or paragraphs.

    Attributes:
        unit: What is counted (:mod:`drpg_dspy.constraints.measures` says how).
        least: No fewer.
        most: No more; ``None`` = no limit.
    """

    unit: Unit
    least: int = 0
    most: int | None = None

    def count(self, answer: str) -> int:
        """Return the length of an answer in the rule's unit."""
        return _COUNT[self.unit](answer)

    def check(self, answer: str) -> Check:
        """Check one answer."""
        return _in_range(self.count(answer), self.unit, self.least, self.most)


@dataclass(frozen=True, slots=True)
class KeywordRule:
    """A word or phrase that occurs so many times, whatever its case; ``most`` = 0 forbids it.

    Attributes:
        keyword: The word or phrase.
        least, most: How often.
    """

    keyword: str
    least: int = 1
    most: int | None = None

    def check(self, answer: str) -> Check:
        """Check one answer."""
        found = occurrences(self.keyword, answer)
        return _in_range(found, f"times {self.keyword!r}", self.least, self.most)


@dataclass(frozen=True, slots=True)
class FormatRule:
    """The shape of the answer.

    Attributes:
        kind: ``"list"``: two list items or more; ``"json"``: an object or list and nothing
            else; ``"table"``: a Markdown table; ``"headings"``: one or more; ``"paragraphs"``:
            running text without lists, tables, headings or JSON.
        counted: What ``least`` and ``most`` count: list items, headings, a table's rows or
            columns.
        least, most: How many; ``most`` = 0 forbids the kind.
        marks: Of list items: ``"bullet"``, ``"number"``, or either.
        within: JSON may be one part of the answer.
    """

    kind: Kind
    counted: Literal["", "items", "headings", "rows", "columns"] = ""
    least: int = 0
    most: int | None = None
    marks: Literal["", "bullet", "number"] = ""
    within: bool = False

    def check(self, answer: str) -> Check:
        """Check one answer."""
        if self.kind == "json":
            return self._json(answer)
        if self.kind == "table":
            return self._table(answer)
        if self.kind == "headings":
            least = self.least if self.counted else 1
            return _in_range(count_headings(answer), "headings", least, self.most)
        bullets, numbers = count_list_items(answer)
        if self.kind == "list":
            found = {"bullet": bullets, "number": numbers}.get(self.marks, bullets + numbers)
            what = f"{self.marks}ed list items".strip() if self.marks else "list items"
            least = self.least if self.counted else 2
            return _in_range(found, what, least, self.most)
        return _running_text(answer, bullets + numbers)

    def _json(self, answer: str) -> Check:
        found = holds_json(answer) if self.within or self.most == 0 else is_json(answer)
        where = "holds" if self.within or self.most == 0 else "is"
        return Check(found is not (self.most == 0), f"{where if found else where + ' no'} JSON")

    def _table(self, answer: str) -> Check:
        sizes = table_sizes(answer)
        said = amount(len(sizes), "tables")
        if self.most == 0 or not sizes:
            return Check(bool(sizes) is not (self.most == 0), said)
        if self.counted not in ("rows", "columns"):
            return Check(True, said)
        place = 0 if self.counted == "rows" else 1
        for size in sizes:
            check = _in_range(size[place], f"table {self.counted}", self.least, self.most)
            if not check.satisfied:
                return check
        return check


@dataclass(frozen=True, slots=True)
class StartRule:
    """The answer begins with a text, whatever its case; quotes and bold marks before it pass.

    Attributes:
        text: What it begins with.
        whole: No letter or digit may follow at once; False for "begin with the letter P".
    """

    text: str
    whole: bool = True

    def check(self, answer: str) -> Check:
        """Check one answer."""
        wanted = " ".join(self.text.split())
        given = " ".join(answer[: _REACH + len(self.text)].split())
        for shown in (given, given.lstrip(_OPENING)):
            if _begins(shown, wanted, self.whole):
                return Check(True, f"begins with {wanted!r}")
        return Check(False, f"begins with {given[:_SHOWN]!r}, {wanted!r} asked" if given else EMPTY)


@dataclass(frozen=True, slots=True)
class EndRule:
    """The answer ends with a text, whatever its case.

    After a word, marks of punctuation pass; after any text, closing quotes and bold marks do.

    Attributes:
        text: What it ends with: words, or a mark.
        whole: No letter or digit may stand right before; False for "end with the letter z".
    """

    text: str
    whole: bool = True

    def check(self, answer: str) -> Check:
        """Check one answer."""
        given = " ".join(answer.rstrip()[-_REACH - len(self.text) :].split())
        wanted = " ".join(self.text.split()).casefold()
        marked = wanted[-1:] in _MARKS
        shown = given.rstrip(_CLOSING if marked else _CLOSING + _MARKS).casefold()
        for tail in (given.casefold(), shown):
            head = tail[: len(tail) - len(wanted)]
            apart = not (self.whole and wanted[:1].isalnum() and head[-1:].isalnum())
            if tail.endswith(wanted) and apart:
                return Check(True, f"ends with {self.text!r}")
        tail = given[-_SHOWN:]
        return Check(False, f"ends with {tail!r}, {self.text!r} asked" if given else EMPTY)


@dataclass(frozen=True, slots=True)
class NoCommasRule:
    """No comma, of whatever script."""

    def check(self, answer: str) -> Check:
        """Check one answer."""
        if not answer.strip():
            return Check(False, EMPTY)
        found = sum(answer.count(mark) for mark in COMMAS)
        return Check(not found, amount(found, "commas"))


@dataclass(frozen=True, slots=True)
class CaseRule:
    """All letters upper case, or all lower case.

    Attributes:
        upper: Which of the two.
    """

    upper: bool

    def check(self, answer: str) -> Check:
        """Check one answer; one without any letter satisfies neither."""
        asked, other = ("upper", "lower") if self.upper else ("lower", "upper")
        wrong = sum(map(str.islower if self.upper else str.isupper, answer))
        if not wrong and not (answer.isupper() if self.upper else answer.islower()):
            return Check(False, f"no {asked}-case letter")
        return Check(not wrong, amount(wrong, f"{other}-case letters"))


Rule = LengthRule | KeywordRule | FormatRule | StartRule | EndRule | NoCommasRule | CaseRule
"""What a constraint's text says that can be checked without a model."""

EMPTY = "the answer is empty"


def amount(n: int, what: str) -> str:
    """Say a number of things, which are named in the plural.

    >>> amount(1, "list items"), amount(2, "words"), amount(1, "times 'yes, always'")
    ('1 list item', '2 words', "1 time 'yes, always'")
    """
    one = f"time{what.removeprefix('times')}" if what.startswith("times") else what.rstrip("s")
    return f"{n} {one if n == 1 else what}"


def _in_range(found: int, what: str, least: int, most: int | None) -> Check:
    good = found >= least and (most is None or found <= most)
    said = amount(found, what)
    return Check(good, said if good else f"{said}, {bounds(least, most)} asked")


def _running_text(answer: str, items: int) -> Check:
    parts = {"list items": items, "tables": len(table_sizes(answer))}
    parts["headings"] = count_headings(answer)
    found = [amount(count, name) for name, count in parts.items() if count]
    if is_json(answer):
        found.append("JSON")
    if found or not count_paragraphs(answer):
        return Check(False, f"{', '.join(found) or 'no text'}, paragraphs of text asked")
    return Check(True, amount(count_paragraphs(answer), "paragraphs"))


def _begins(given: str, wanted: str, whole: bool) -> bool:
    if not given.casefold().startswith(wanted.casefold()):
        return False
    after = given[len(wanted) : len(wanted) + 1]
    return not (whole and wanted[-1:].isalnum() and after.isalnum())
