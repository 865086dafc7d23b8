"""How answers are measured: words, sentences, paragraphs, and the marks of Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = [
    "COMMAS",
    "count_headings",
    "count_list_items",
    "count_paragraphs",
    "count_sentences",
    "count_words",
    "holds_json",
    "is_json",
    "occurrences",
    "sentence_ends",
    "table_sizes",
]

COMMAS = ",،，、"
"""Commas of all scripts."""

_SOLID = re.compile(r"[^\W_]")  # a letter or a digit
_BLANK = re.compile(r"\n[ \t]*\n")
_HEADING = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t]+\S.*|\*\*[^*\n]+\*\*:?|__[^_\n]+__:?)[ \t]*$", re.M
)
_BULLET = re.compile(r"^[ \t]*[-*+•][ \t]+\S", re.M)
_NUMBERED = re.compile(r"^[ \t]*\d{1,3}[.)][ \t]+\S", re.M)
_ITEM_OR_HEADING = re.compile(r"^[ \t]*(?:[-*+•][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|\|)")
_RULER = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)
# What ends a sentence: marks, closing quotes and brackets with them, then a space or the end.
_STOP = re.compile(r"[.!?…。！？]+[\"'”’)\]*_]*(?=\s|$)|[。！？]+")
_ABBREVIATION = 12  # characters before a mark in which an abbreviation is looked for
_ITEM_NUMBER = re.compile(r"\s*\d{1,3}\.")
_NO_STOP = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|inc|ltd|co|fig|approx)"
    r"|\b[a-z](?:\.[a-z])*)\.$",
    re.I,
)
_INITIALS = re.compile(r"\b[a-z](?:\.[a-z])+\.$", re.I)  # U.S., p.m.: may end a sentence
_OPENER = re.compile(
    r"\s*(?:he|she|it|we|they|you|i|the|this|that|these|those|there|then|but|and|so|in|on|at|if"
    r"|when|while|however|his|her|its|our|their|my|a|an|no|yes|what|why|how|who)\b",
    re.I,
)
_NUMERO = re.compile(r"\bno\.$", re.I)  # before a number, else the answer "No."


def count_words(text: str) -> int:
    """Count what stands between spaces and holds a letter or a digit.

    >>> count_words("- Don't panic: it's a well-known **bug** – 3.5 km")
    8
    """
    return sum(1 for piece in text.split() if piece.isalnum() or _SOLID.search(piece))


def count_sentences(text: str) -> int:
    """Count sentences that hold a letter or a digit.

    A sentence ends at a full stop, question or exclamation mark; not within numbers and
    addresses, nor after titles, initials and common abbreviations unless the text ends there.
    List items, headings, table rows and blank lines end one as well.

    >>> count_sentences("Dr. Lee paid $3.50, i.e. little. Why? Nobody knows!")
    3
    >>> count_sentences("Is it safe? No. It is No. 5 of our list.")
    3
    >>> count_sentences("He came from the U.S. He left at 5 p.m. for the U.S. Senate.")
    2
    >>> count_sentences("# Title\\n- first item\\n- second item")
    3
    """
    return len(sentence_ends(text))


def sentence_ends(text: str) -> list[int]:
    """Return where the sentences of :func:`count_sentences` end: offsets in the text.

    >>> text = "Dr. Lee left. Why?\\n\\nNobody knows"
    >>> [text[:end] for end in sentence_ends(text)]
    ['Dr. Lee left.', 'Dr. Lee left. Why?', 'Dr. Lee left. Why?\\n\\nNobody knows']
    """
    return [end for start, stop in _blocks(text) for end in _ends_in(text, start, stop)]


def count_paragraphs(text: str) -> int:
    """Count blocks set apart by blank lines that hold text and are more than a heading.

    >>> count_paragraphs("# Title\\n\\nOne.\\nStill one.\\n\\n---\\n\\nTwo.")
    2
    """
    blocks = (block.strip() for block in _BLANK.split(text))
    return sum(1 for block in blocks if _SOLID.search(block) and not _HEADING.fullmatch(block))


def count_list_items(text: str) -> tuple[int, int]:
    """Count list items: those with a bullet, and those with a number.

    >>> count_list_items("1. one\\n2) two\\n- three")
    (1, 2)
    """
    return len(_BULLET.findall(text)), len(_NUMBERED.findall(text))


def count_headings(text: str) -> int:
    """Count Markdown headings; a line that is bold as a whole is one.

    >>> count_headings("# One\\ntext\\n**Two**\\n#no heading")
    2
    """
    return len(_HEADING.findall(text))


def table_sizes(text: str) -> list[tuple[int, int]]:
    """Return the rows (without the heading) and columns of each Markdown table.

    >>> table_sizes("| a | b |\\n|---|---|\\n| 1 | 2 |\\n| 3 | 4 |")
    [(2, 2)]
    """
    lines = text.splitlines()
    found = []
    for number in range(1, len(lines)):
        head, ruler = lines[number - 1], lines[number]
        if "|" not in head or "-" not in ruler or not _RULER.match(ruler):
            continue
        rows = 0
        for line in lines[number + 1 :]:
            if "|" not in line:
                break
            rows += 1
        found.append((rows, len(head.strip().strip("|").split("|"))))
    return found


def is_json(text: str) -> bool:
    """Tell whether a text as a whole, or all but a fence around it, is a JSON object or list.

    >>> is_json('```json\\n{"a": 1}\\n```'), is_json('"a"'), is_json('So: {"a": 1}')
    (True, False, False)
    """
    bare = text.strip()
    if fenced := _FENCE.fullmatch(bare):
        bare = fenced[1].strip()
    return bare[:1] in ("{", "[") and _reads(bare)


def holds_json(text: str) -> bool:
    """Tell whether a text is JSON, or one of its fenced blocks is.

    >>> holds_json('See:\\n```json\\n[1]\\n```\\nDone.')
    True
    """
    return is_json(text) or any(is_json(block) for block in _FENCE.findall(text))


def occurrences(keyword: str, text: str) -> int:
    """Count a keyword as a whole word or phrase, whatever its case and the spaces in it.

    >>> occurrences("new York", "New\\nYork, NEW YORK and New Yorkers")
    2
    """
    parts = [re.escape(part) for part in keyword.split()]
    pattern = r"\s+".join(parts)
    before = r"(?<!\w)" if keyword[:1].isalnum() else ""
    after = r"(?!\w)" if keyword[-1:].isalnum() else ""
    return len(re.findall(before + pattern + after, text, re.IGNORECASE))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that no sentence goes across: where each begins and ends."""
    begin = here = 0
    alone = False
    for line in text.splitlines(keepends=True):
        if not line.strip() or alone or _ITEM_OR_HEADING.match(line):
            yield begin, here
            begin = here
        here += len(line)
        alone = not line.strip() or bool(_HEADING.match(line))
    yield begin, here


def _ends_in(text: str, begin: int, end: int) -> Iterator[int]:
    block = text[begin:end].rstrip()
    start = 0
    for stop in _STOP.finditer(block):
        tail = block[max(start, stop.end() - _ABBREVIATION) : stop.end()]
        numbered = stop.end() - start < _ABBREVIATION and _ITEM_NUMBER.fullmatch(tail)
        ahead = block[stop.end() :].lstrip()[:1]
        goes_on = _NO_STOP.search(tail) and not _begins_anew(tail, block[stop.end() :])
        if numbered or (ahead and goes_on):
            continue
        if ahead.isdigit() and _NUMERO.search(tail):
            continue
        if _SOLID.search(block, start, stop.end()):
            yield begin + stop.end()
        start = stop.end()
    if _SOLID.search(block, start):
        yield begin + len(block)


def _begins_anew(tail: str, rest: str) -> bool:
    """Tell whether a sentence begins after initials: "in the U.S. He left", "at 5 p.m. The bus"."""
    first = rest.lstrip()[:1]
    return first.isupper() and bool(_INITIALS.search(tail) and _OPENER.match(rest))


def _reads(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
