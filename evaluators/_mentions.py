"""Where a text names an option of a numbered list: by number, by name, as its answer, or not.

Texts are looked at folded (:func:`folded`): without case and accents.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

__all__ = ["Mention", "Options", "answer_places", "folded", "joined"]

How = Literal["pair", "clash", "name", "asked", "opened", "number"]

# A number of the list: no part of a word, a decimal, a negative number, an age or a duration.
# "35.0" is one where it stands as an answer.
_NUMBER = re.compile(
    r"(?<![\w.,\-])(\d{1,9})(\.0+)?(?!\w|[.,]\d|\s*[%°]|\s*-?\s*"
    r"(?:years?|y/?o|ans|months?|weeks?|days?|hours?|degrees?|celsius|mg|cm|mm|bpm)\b)"
)
# It is meant as the answer where it opens a line as in "35." or follows a word like "answer".
_OPENING = " \t*#<([{\"'>-"
_WINDOW = 80  # characters before and after a mention that are looked at
_ASKED_FOR = re.compile(
    r"(?:\b(?:answer|option|choice|number|diagnosis|diagnostic|numero|no|n|boxed)\b[^\w\n]*"
    r"(?:(?:is|therefore|thus|hence|then|clearly|probably|most|likely)\b[^\w\n]*)*|<)$"
)
_CLOSES = re.compile(r"[*\"'\]}]*(?:[.):>]|\s*(?:\n|$))")
_JOINED = re.compile(r"[\W\d_]*(?:[,;/&+]|\b(?:or|and|ou|et|vs|versus)\b)[\W\d_]*")
_HEADS = re.compile(r"[*\"'\]}>]*[.):\-][\s*\"'<(\[]*")  # between a number and its name
_BRACKET = re.compile(r"[\s*\"']*[(\[<]\s*(?:(?:option|number|no|n)\b[.°:]?\s*)?#?")
_BRACKETED = re.compile(r"\s*[)\]>]")
_NUMBERING = re.compile(r"\d+[.)][ \t*\"'<(\[#]*(?=\S)")  # up to the text of a numbered line
_NOTHING_MORE = re.compile(r"[.*\"'>)\]]*[ \t]*(?:\n|$)")

# -- negation: words that stand right before or after what they rule out, in one clause ---------

_FILLERS = (
    "a an the any be been is it this that likely probably really necessarily have has having to "
    "with for of evidence sign signs symptom symptoms feature features consistent compatible "
    "indicative suggestive typical suggest suggests indicate indicates support supports option "
    "number diagnosis answer case choice fit think believe patient due caused by de du la le un "
    "une il elle agit s d l"
).split()
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never|nor|neither|no|cannot|without|unlike|against|rul(?:e|es|ed|ing)\s+out|"
    r"exclud(?:e|es|ed|ing)|reject(?:s|ed|ing)?|rather\s+than|instead\s+of|as\s+opposed\s+to|"
    r"more\s+likely\s+than|pas|ni|sans|aucune?|plutot\s+que|exclure|exclut|ecarter?)|n't)\b"
    rf"(?:[\s*_\"'(\[<]+(?:{'|'.join(_FILLERS)})\b)*[\s*_\"'(\[<#]*$"
)
_UNDENIED = re.compile(
    r"(?:\bnot|\bcannot|n't|\bnever|\bwithout|\b(?:hard|difficult)\s+to)"
    r"(?:\s+(?:be|been|fully|completely|entirely|yet))*\s*$"
)
_NUMBER_SIGN = re.compile(r"\bno\b[\s*_\"'(\[<#]*$")  # "no 35" is number 35
_VERB = (
    r"(?:(?:is|was|are|were|(?:has|have)\s+been|(?:can|could|may|would)\s+be|can|could|seems?|"
    r"appears?|looks?|remains?|est|semble)\s*)"
)
_FITS = (
    r"(?:likely|probable|possible|consistent|compatible|supported|present|it|fit|match|explain|"
    r"correct|right|good|best|most|answer|diagnosis)\b"
)
_DENIED_AFTER = re.compile(
    rf"[ \t*_\"')\]>]*(?P<open>[:(–—-][ \t]*)?(?P<verb>{_VERB})?"
    r"(?:(?:therefore|thus|also|now|very|highly|quite|much|more|most|considered|then|so|too)\s+)*"
    r"(?:unlikely|improbable|ruled\s+out|excluded|rejected|less\s+likely|peu\s+probable|"
    rf"(?:exclu|ecarte)e?s?|(?:not|n't|pas)\s+(?:(?:be|a|the|very|as|really|so)\s+)*{_FITS}|"
    rf"(?:does|do|did|would)(?:\s+not|n't)\s+{_FITS})\b|"
    r"[ \t*_\"')\]>]*(?:does|do|did|would)(?:\s+not|n't)[ \t]*(?:[.;,\n]|$)"
)
_AND = re.compile(r"\b(?:and|et)\b")
_EITHER = re.compile(r"[\s*_\"'()\[\]<>]*(?:or|nor|ou|ni|and|et)[\s*_\"'()\[\]<>]*")

# -- where the answer is announced ---------------------------------------------------------------

_MARKER = re.compile(
    r"\b(?:answer|diagnosis|diagnostic|reponse|conclusion)\b[ \t*_\"')\]]*"
    r"(?:(?P<sign>[:=]|->|→|[ \t][–—-](?=\s)|(?=\n))|\b(?:is|est)\b)"
)
_OTHERS = re.compile(
    r"\b(?:differential|alternative|secondary|other|previous|possible|rejected|wrong|incorrect|no)"
    r"[\s*_]*$"
)
_CONTENT = re.compile(r"[^\s*_#:]")


class Mention(NamedTuple):
    """A place in a text that names an option.

    Attributes:
        start, end: Where it stands.
        number: The number of the option named; one outside the list is kept as it is.
        how: ``"pair"`` (a number beside its own name), ``"clash"`` (beside another one's),
            ``"name"`` (also the bare number that is all an item of a list says), ``"asked"`` (a
            number after a word like *answer*), ``"opened"`` (one that opens a line) or
            ``"number"`` (any other).
    """

    start: int
    end: int
    number: int
    how: How


class Options:
    """The options of a list, found in texts.

    Args:
        options: Names in the order of their numbers, from 1, each with further names.

    Raises:
        ValueError: Two options share a name, or one has no letter.
    """

    def __init__(self, options: Mapping[str, Iterable[str]]) -> None:
        numbers = _numbers_by_name(options)
        self._count = len(options)
        self._pattern = _any_of(numbers)
        self._numbers = {"".join(words): number for words, number in numbers.items()}

    def mentions(self, text: str) -> tuple[list[Mention], list[Mention]]:
        """Return what a folded text names, in its order, and what it says that it is not.

        >>> found, denied = Options({"Croup": [], "Flu": []}).mentions("not croup; it is 2. flu")
        >>> [(m.number, m.how) for m in found], [m.number for m in denied]
        ([(2, 'pair')], [1])
        """
        everything = _without_numbering(text, self._all(text), self._count)
        denied = _denied(text, everything)
        return [m for m in everything if m not in denied], [m for m in everything if m in denied]

    def _all(self, text: str) -> list[Mention]:
        names = [
            Mention(m.start(), m.end(), self._numbers[_squashed(m.group())], "name")
            for m in self._pattern.finditer(text)
        ]
        found: list[Mention] = []
        for match in _NUMBER.finditer(text):
            number, start, end = int(match[1]), match.start(), match.end()
            if any(name.start <= start < name.end for name in names):
                continue  # part of a name
            how = _standing(text, start, end)
            if match[2] and how == "number":
                continue  # a measure such as 37.0
            mention = Mention(start, end, number, how)
            beside = self._beside(text, mention, names)
            if beside is not None:
                names.remove(beside)
                how = "pair" if beside.number == number else "clash"
                mention = Mention(min(start, beside.start), max(end, beside.end), number, how)
            found.append(mention)
        return sorted([*found, *names])

    def _beside(self, text: str, number: Mention, names: Sequence[Mention]) -> Mention | None:
        """Return the name that a number belongs to, rightly or not."""
        after = next((name for name in names if name.start >= number.end), None)
        if after is not None:
            between = text[number.end : after.start]
            own = after.number == number.number and not re.search(r"[^\W_]", between)
            opens = number.how == "asked" or _opens_line(text, number.start)
            heads = _HEADS.fullmatch(between) or (opens and between.isspace())
            if own or (heads and 1 <= number.number <= self._count):
                return after
        before = next((name for name in reversed(names) if name.end <= number.start), None)
        if before is None or not 1 <= number.number <= self._count:
            return None
        opened = _BRACKET.fullmatch(text, before.end, number.start)
        return before if opened and _BRACKETED.match(text, number.end) else None


def answer_places(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where a folded text announces its answer, last place first.

    A place runs to the end of its line, or is the next line with anything in it; the third value
    says whether it is set off (``Answer: …``) or part of a sentence (``the answer is …``).

    >>> text = "1. fever\\nfinal answer:\\n\\n35. flu"
    >>> [text[begin:end] for begin, end, _ in answer_places(text)]
    ['35. flu']
    """
    for match in reversed(list(_MARKER.finditer(text))):
        if _OTHERS.search(text, max(0, match.start() - _WINDOW), match.start()):
            continue
        begin = match.end()
        end = _line_end(text, begin)
        if not _CONTENT.search(text, begin, end):
            content = _CONTENT.search(text, end)
            if content is None:
                continue
            begin = text.rfind("\n", 0, content.start()) + 1
            end = _line_end(text, content.start())
        yield begin, end, match["sign"] is not None


def joined(text: str, left: Mention, right: Mention) -> bool:
    """Tell whether two mentions stand beside each other as equals: *A or B*, *A / B*."""
    return bool(_JOINED.fullmatch(text, left.end, right.start))


def folded(text: str) -> str:
    """Return a text without case and accents, other characters in their places."""
    spelled = text.replace("œ", "oe").replace("Œ", "Oe").replace("\u2019", "'")
    apart = unicodedata.normalize("NFKD", spelled)
    return "".join(c for c in apart if not unicodedata.combining(c)).casefold()


def _standing(text: str, start: int, end: int) -> How:
    if _ASKED_FOR.search(text, max(0, start - _WINDOW), start):
        return "asked"
    return "opened" if _opens_line(text, start) and _CLOSES.match(text, end) else "number"


def _opens_line(text: str, start: int) -> bool:
    before = text[max(0, start - _WINDOW) : start]
    line = before.rpartition("\n")[2]
    return not line.strip(_OPENING) and (len(line) < len(before) or start < _WINDOW)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _without_numbering(text: str, found: list[Mention], count: int) -> list[Mention]:
    """Leave out numbers that only number the lines of a list, from 1.

    Of a single line *1.* that is so where a number of the options is all that it says.
    """
    run: list[Mention] = []
    numbering: set[Mention] = set()
    items: dict[Mention, Mention] = {}
    for place, mention in enumerate(found):
        head = _NUMBERING.match(text, mention.start)
        if head is None or not _opens_line(text, mention.start):
            continue
        run = [*run, mention] if mention.number == len(run) + 1 else [mention]
        if run[0].number != 1:
            run = []
            continue
        item = found[place + 1] if place + 1 < len(found) else None
        if item is not None and _is_all_of_line(text, head.end(), item, count):
            items[item] = item._replace(how="name")
            numbering.add(mention)
        if len(run) > 1:
            numbering.update(run)
    kept = (m for m in found if m not in numbering or m.how in ("pair", "clash", "name"))
    return [items.get(mention, mention) for mention in kept]


def _is_all_of_line(text: str, begin: int, item: Mention, count: int) -> bool:
    bare = item.start == begin and item.how == "number" and 1 <= item.number <= count
    return bare and bool(_NOTHING_MORE.match(text, item.end))


def _denied(text: str, found: Sequence[Mention]) -> set[Mention]:
    before = {m for m in found if _is_denied_before(text, m)}
    after = {
        mention
        for mention, following in itertools.pairwise([*found, None])
        if mention is not None and _is_denied_after(text, mention, following)
    }
    pairs = [
        (left, right)
        for left, right in itertools.pairwise(found)
        if _EITHER.fullmatch(text, left.end, right.start)
    ]
    for left, right in pairs:  # "not A or B"
        if left in before and not _AND.search(text, left.end, right.start):
            before.add(right)
    for left, right in reversed(pairs):  # "A and B are unlikely"
        if right in after:
            after.add(left)
    return before | after


def _is_denied_before(text: str, mention: Mention) -> bool:
    first = max(0, mention.start - _WINDOW)
    denial = _DENIED_BEFORE.search(text, first, mention.start)
    if denial is None or _UNDENIED.search(text, first, denial.start()):
        return False
    by_number = text[mention.start].isdigit()
    return not (by_number and _NUMBER_SIGN.search(text, first, mention.start))


def _is_denied_after(text: str, mention: Mention, following: Mention | None) -> bool:
    """Tell whether a mention is followed by the words that rule it out."""
    denial = _DENIED_AFTER.match(text, mention.end, mention.end + _WINDOW)
    if denial is None:
        return False
    if denial["verb"] or following is None or following.start < denial.end():
        return True
    # In "A - less likely B" the words belong to what follows.
    return bool(re.search(r"\w|[.;:,\n)]", text[denial.end() : following.start]))


def _squashed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _numbers_by_name(options: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], int]:
    """Return the number of every name; names are taken as their words."""
    numbers: dict[tuple[str, ...], int] = {}
    for number, (name, others) in enumerate(options.items(), 1):
        for written in (name, *others):
            words = tuple(re.findall(r"[^\W_]+", folded(written)))
            if not words:
                raise ValueError(f"{written!r} is no name of a diagnosis: it has no letter.")
            if numbers.setdefault(words, number) != number:
                raise ValueError(f"Two diagnoses share the name {written!r}; one is {name!r}.")
    return numbers


def _any_of(names: Iterable[tuple[str, ...]]) -> re.Pattern[str]:
    # Longest first: of two names that begin alike, the longer one is meant.
    longest_first = sorted(names, key=lambda words: len("".join(words)), reverse=True)
    spaced = (r"[\W_]*".join(words) for words in longest_first)
    return re.compile(rf"(?<![^\W\d])(?<![^\W\d]-)(?:{'|'.join(spaced)})(?![^\W_]|-[^\W\d])")
