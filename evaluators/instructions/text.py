"""How texts are cut into words and sentences.

Each instruction counts in its own way, and whether a response passes often hangs on which. Four
ways are in use:

* *words* are runs of letters, digits and underscores: ``don't`` is two;
* *pieces* are what whitespace separates, mostly with ASCII punctuation taken off;
* *tokens* are those of the Penn Treebank, in which punctuation stands alone
  (:func:`~evaluators.instructions.libraries.tokens`);
* *sentences* are cut by the rules below, or by the Punkt model where IFEval limits their number
  and in IFBench's checks since 2026 (:func:`~evaluators.instructions.libraries.punkt_sentences`).
"""

from __future__ import annotations

import re
import string

__all__ = [
    "EDGES",
    "PUNCTUATION",
    "fold",
    "pieces",
    "sentences",
    "trimmed",
    "unpunctuated",
    "words",
]

PUNCTUATION = string.punctuation
"""The 32 marks of ASCII. Typographic quotes and dashes are none of them."""

EDGES = PUNCTUATION + " "
"""What is taken off the ends of a word; line breaks are not."""

_WORD = re.compile(r"\w+")
_UNPUNCTUATED = str.maketrans("", "", PUNCTUATION)

# Two characters of the private use area stand in for decisions already taken.
_DOT = "\ue000"  # a full stop that ends no sentence
_END = "\ue001"  # a sentence ends here

_OPENERS = (
    r"(?:Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|Wherever"
    r"|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s)"
)


def _rule(pattern: str, becomes: str) -> tuple[re.Pattern[str], str]:
    return re.compile(pattern), becomes.replace("·", _DOT).replace("|", _END)


# Applied one after the other, each to what the last one left, so that their order counts. In the
# second column · is a full stop that ends nothing, and | the end of a sentence.
_RULES = (
    _rule(r"(Mrs?|St|Ms|Dr)\.", r"\1·"),
    _rule(r"\.(?=com|net|org|io|gov|edu|me)", "·"),
    # Only every other point of 1.2.3 stands between two digits that are still free.
    _rule(r"([0-9])\.([0-9])", r"\1·\2"),
)
_ELLIPSIS = re.compile(r"\.{2,}")
_LATER_RULES = (
    _rule(r"Ph\.D\.", "Ph·D·"),
    _rule(r"\s([A-Za-z])\. ", r" \1· "),
    _rule(rf"((?:[A-Z]\.){{2,3}}) (?={_OPENERS})", r"\1| "),
    _rule(r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", r"\1·\2·\3·"),
    _rule(r"([A-Za-z])\.([A-Za-z])\.", r"\1·\2·"),
    _rule(rf" (Inc|Ltd|Jr|Sr|Co)\. (?={_OPENERS})", r" \1| "),
    _rule(r" (Inc|Ltd|Jr|Sr|Co)\.", r" \1·"),
    _rule(r" ([A-Za-z])\.", r" \1·"),
    # A closing quote belongs to the sentence whose mark it follows.
    _rule(r"\.”", "”."),
    _rule(r'\."', '".'),
    _rule(r'!"', '"!'),
    _rule(r'\?"', '"?'),
    _rule(r"([.?!])", r"\1|"),
)


def words(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores.

    >>> words("Don't panic: it's 3.5 km!")
    ['Don', 't', 'panic', 'it', 's', '3', '5', 'km']
    """
    return _WORD.findall(text)


def unpunctuated(text: str) -> str:
    """Return a text without any ASCII punctuation.

    >>> unpunctuated("well-known, “quoted”")
    'wellknown “quoted”'
    """
    return text.translate(_UNPUNCTUATED)


def pieces(text: str) -> list[str]:
    """Return what whitespace separates once ASCII punctuation is gone."""
    return unpunctuated(text).split()


def trimmed(word: str) -> str:
    """Return a word without punctuation and spaces at its ends."""
    return word.strip(EDGES)


def fold(text: str) -> str:
    """Return a text on one line, its words separated by single spaces."""
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """Cut a text into sentences at full stops, question and exclamation marks.

    A full stop ends no sentence in titles (Mr., Dr.), initials and abbreviations of letters
    (e.g., U.S.), company forms, numbers and web addresses. An ellipsis ends one. Line breaks end
    none, so that headings and list items run into what follows; each of two marks in a row ends
    a sentence of its own. A quote closed after the mark is put before it.

    >>> sentences('Dr. Lee paid $3.50 at shop.com. "Why?" Nobody knows... Really?!')
    ['Dr. Lee paid $3.50 at shop.com.', '"Why"?', 'Nobody knows...', 'Really?', '!']
    >>> sentences("A heading\\nwithout a mark"), sentences(" \\n ")
    (['A heading without a mark'], [])
    """
    marked = f" {text}  ".replace("\n", " ")
    for pattern, becomes in _RULES:
        marked = pattern.sub(becomes, marked)
    marked = _ELLIPSIS.sub(lambda dots: _DOT * len(dots[0]) + _END, marked)
    for pattern, becomes in _LATER_RULES:
        marked = pattern.sub(becomes, marked)
    found = [part.strip() for part in marked.replace(_DOT, ".").split(_END)]
    return found[:-1] if not found[-1] else found
