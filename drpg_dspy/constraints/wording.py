"""What stands in a constraint's text: numbers, limits, quotes and negations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["TOLERANCE", "Limit", "is_partial", "limits", "negated", "quoted", "with_digits"]

TOLERANCE = 0.10
"""How far "about" reaches, as a share of the number; at least one."""

_DIGITS = 9  # a longer number counts nothing that an answer has
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {
    **{word: number for number, word in enumerate(_SMALL)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
    "single": 1,
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "dozen": 12,
}
_NUMBER_WORD = "|".join(sorted(_VALUES, key=len, reverse=True))
_SPELLED = re.compile(
    rf"\b(?:a\s+)?(?:{_NUMBER_WORD}|hundred|thousand)"
    rf"(?:(?:[\s-]+|\s+and\s+)(?:{_NUMBER_WORD}|hundred|thousand))*\b",
    re.I,
)
_DASH = r"\s*(?:-|–|—|to|and)\s*"
# Longer phrases first: "no more than" holds "more than".
_AT_MOST = (
    r"at\s+(?:the\s+)?most|(?:no|not|never|n['’]t)\s+(?:\w+\s+){0,2}?(?:more|longer|greater)\s+than"
    r"|(?:not|never|n['’]t|without)\s+(?:\w+\s+){0,2}?(?:exceed(?:ing)?|over|above|past|beyond)"
    r"|<=|≤|⩽|(?:a\s+)?max(?:imum)?(?:\s+length)?(?:\s+of)?|up\s+to|within"
    r"|(?:limit(?:ed)?|capped?)\s+(?:\w+\s+){0,3}?(?:to|at)"
)
_AT_LEAST = (
    r"at\s+(?:the\s+)?least|(?:no|not|never|n['’]t)\s+(?:\w+\s+){0,2}?(?:less|fewer|shorter)\s+than"
    r"|>=|≥|⩾|(?:a\s+)?min(?:imum)?(?:\s+length)?(?:\s+of)?"
)
_UNDER = r"<|under|below|(?:less|fewer|shorter)\s+than"
_OVER = r">|over|above|(?:more|longer|greater)\s+than|exceed(?:s|ing)?"
_ABOUT = r"about|around|approximately|approx\.?|roughly|nearly|close\s+to|circa|some|~|≈|≃"
_EXACTLY = r"exactly|precisely|just|only"
_BOUND = re.compile(
    rf"(?P<between>between|from)?\s*"
    rf"(?:(?P<most>{_AT_MOST})|(?P<least>{_AT_LEAST})|(?P<under>{_UNDER})|(?P<over>{_OVER})"
    rf"|(?P<about>{_ABOUT})|(?P<exactly>{_EXACTLY}))?\s*(?:of\s+|the\s+|an?\s+)*"
    rf"(?P<number>\d[\d,]*)(?:{_DASH}(?P<second>\d[\d,]*))?\+?"
    rf"(?P<plus>(?<=\+)|\s+or\s+more|\s+and\s+more)?(?P<minus>\s+or\s+(?:less|fewer))?",
    re.I,
)
_NOT = re.compile(
    r"\b(?:no|none|not|never|without|avoid(?:ing)?|exclud(?:e|es|ing)|omit(?:s|ting)?|refrain(?:ing)?"
    r"|forbidden|leave\s+out|free\s+of|cannot)\b|n['’]t\b",
    re.I,
)
_NEXT = re.compile(r"[,.;:!?]|\b(?:and|but|or|in|with|of)\b", re.I)
_PARTIAL = re.compile(
    r"\b(?:each|every|per|any|if|when|whenever|unless|except|either|the\s+(?:first|second|third"
    r"|last|opening|closing)\s+(?:paragraph|sentence|section|line|item)s?|title|caption)\b",
    re.I,
)
_NOT_ANY = re.compile(r"(?:\b(?:no|not|never|without|avoid)|n['’]t)\s+(?:\w+\s+)?any\b", re.I)
_QUOTES = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|«([^»\n]{1,200})»|`([^`\n]{1,200})`"
    r"|(?<!\w)['‘]([^\n]{1,200}?)['’](?!\w)"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A range that a text states.

    Attributes:
        least, most: Its ends; ``most`` = ``None``: none.
        exact: A bare number, without "at least", "about" or the like.
        start, end: Where in the text it stands.
    """

    least: int
    most: int | None
    exact: bool
    start: int
    end: int


def with_digits(text: str) -> str:
    """Return a text with its spelled numbers as digits.

    >>> with_digits("at most twenty-five words, mentioned twice, in a single paragraph")
    'at most 25 words, mentioned 2 times, in 1 paragraph'
    >>> with_digits("one hundred and fifty words")
    '150 words'
    """
    return _SPELLED.sub(_as_digits, text)


def limits(text: str) -> Iterator[Limit]:
    """Yield every range that a text states in digits, in order.

    One that is denied is turned round where that is plain, and else left out.

    >>> [(one.least, one.most) for one in limits("under 200, or between 3 and 5, about 100, 7+")]
    [(0, 199), (3, 5), (90, 110), (7, None)]
    >>> [(one.least, one.most) for one in limits("Do not use it more than 2 times.")]
    [(0, 2)]
    """
    for match in _BOUND.finditer(text):
        if max(len(match["number"]), len(match["second"] or "")) > _DIGITS:
            continue
        found = _limit(match)
        if not _denied(text, found):
            yield found
        elif match["over"]:  # "do not use it more than twice"
            yield Limit(0, found.least - 1, False, found.start, found.end)
        elif match["under"]:
            yield Limit((found.most or 0) + 1, None, False, found.start, found.end)


def quoted(text: str, *, edge: bool = False) -> list[str]:
    """Return what stands in quotes, without a mark at its end that belongs to the sentence.

    Args:
        text: The text.
        edge: It says what an answer begins or ends with: where nothing follows the quotes, a
            comma or colon within them belongs to the words ("Dear Anna,").

    >>> quoted("Include 'climate change', “the UN.” and the writer's name.")
    ['climate change', 'the UN']
    """
    found = []
    for match in _QUOTES.finditer(text):
        inner = next(part for part in match.groups() if part).strip()
        last = not text[match.end() :].strip(" .")
        if edge and last and inner[-1:] in (",", ":", ";") and len(inner) > 1:
            found.append(inner)
        elif bare := inner.rstrip(".,;:"):
            found.append(bare)
        elif inner:
            found.append(inner)
    return found


def negated(text: str) -> bool:
    """Tell whether a text forbids something.

    >>> negated("Don't use commas."), negated("Mention coffee.")
    (True, False)
    """
    return bool(_NOT.search(text))


def is_partial(text: str) -> bool:
    """Tell whether a text speaks of a part of the answer, or sets a condition.

    >>> is_partial("Each paragraph has at most 3 sentences."), is_partial("Use 3 sentences.")
    (True, False)
    """
    return bool(_PARTIAL.search(_NOT_ANY.sub(" ", text)))


def _as_digits(match: re.Match[str]) -> str:
    words = re.split(r"[\s-]+", match[0].lower())
    total, current, seen = 0, 0, False
    for word in words:
        if word in ("a", "and"):
            continue
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        elif seen and word == "dozen":
            current *= 12
        else:
            current += _VALUES[word]
        seen = True
    number = total + current
    if words[-1] in ("once", "twice", "thrice"):
        return f"{number} times"
    return str(number)


def _limit(match: re.Match[str]) -> Limit:
    number, (start, end) = _whole(match["number"]), match.span()
    if match["second"]:
        low, high = sorted((number, _whole(match["second"])))
        return Limit(low, high, False, start, end)
    if match["most"] or match["minus"]:
        return Limit(0, number, False, start, end)
    if match["least"] or match["plus"] is not None:
        return Limit(number, None, False, start, end)
    if match["under"]:
        return Limit(0, number - 1, False, start, end)
    if match["over"]:
        return Limit(number + 1, None, False, start, end)
    if match["about"]:
        room = max(1, math.floor(number * TOLERANCE))
        return Limit(max(0, number - room), number + room, False, start, end)
    return Limit(number, number, not match["exactly"], start, end)


def _denied(text: str, limit: Limit) -> bool:
    """Tell whether a negation before a range belongs to it, and not to something said before."""
    before = text[: limit.start]
    ends = [found.end() for found in _NOT.finditer(before)]
    return bool(ends) and not _NEXT.search(before[ends[-1] :])


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))
