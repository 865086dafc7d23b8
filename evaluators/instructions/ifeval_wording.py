"""IFEval: instructions on words, length and language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable

from evaluators._fields import shown
from evaluators.instructions.libraries import language, punkt_sentences, tokens
from evaluators.instructions.registry import (
    Finding,
    count,
    instruction,
    letter,
    relation,
    text,
    texts,
)
from evaluators.instructions.text import words

__all__: list[str] = []

_PARAGRAPH_BREAK = re.compile(r"\s?\*\*\*\s?")
_ENDS_FIRST_WORD = re.compile(r"[.,?!'\"]")


def _compared(number: int, relation: str, bound: int, what: str = "") -> Finding:
    followed = number >= bound if relation == "at least" else number < bound
    return Finding(followed, f"{number} {what}".rstrip())


def _matches(keyword: str, response: str, *, whole: bool = False) -> int:
    """Count a keyword in any case; it may be a pattern, and stand inside a longer word."""
    edge = r"\b" if whole else ""
    try:
        pattern = re.compile(f"{edge}{keyword}{edge}", re.IGNORECASE)
    except re.error:
        pattern = re.compile(f"{edge}{re.escape(keyword)}{edge}", re.IGNORECASE)
    return sum(1 for _ in pattern.finditer(response))


def _words(keyword: str, response: str) -> int:
    """Count a keyword in any case where it is no part of a longer word; it is no pattern."""
    wanted, heard = (unicodedata.normalize("NFC", text) for text in (keyword, response))
    return len(re.findall(rf"(?<!\w){re.escape(wanted)}(?!\w)", heard, re.IGNORECASE))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


Times = Callable[[str, str], int]
_WHOLE_WORDS = {"times": _words}


@instruction(
    "keywords:existence", "each of the keywords {keywords}", None, _WHOLE_WORDS, keywords=texts
)
def _keywords(response: str, keywords: tuple[str, ...], times: Times = _matches) -> Finding:
    missing = [word for word in keywords if not times(word, response)]
    return Finding(not missing, f"no {_quoted(missing)}")


@instruction(
    "keywords:frequency",
    "the keyword '{keyword}' {relation} {frequency} times",
    None,
    _WHOLE_WORDS,
    keyword=text,
    frequency=count,
    relation=relation,
)
def _keyword_frequency(
    response: str, keyword: str, frequency: int, relation: str, times: Times = _matches
) -> Finding:
    return _compared(times(keyword.strip(), response), relation, frequency)


@instruction(
    "keywords:forbidden_words", "none of the words {forbidden_words}", forbidden_words=texts
)
def _forbidden_words(response: str, forbidden_words: tuple[str, ...]) -> Finding:
    used = [word for word in forbidden_words if _matches(word, response, whole=True)]
    return Finding(not used, _quoted(used))


@instruction(
    "keywords:letter_frequency",
    "the letter '{letter}' {let_relation} {let_frequency} times",
    letter=letter,
    let_frequency=count,
    let_relation=relation,
)
def _letter_frequency(response: str, letter: str, let_frequency: int, let_relation: str) -> Finding:
    return _compared(Counter(response.lower())[letter], let_relation, let_frequency)


@instruction(
    "length_constraints:number_sentences",
    "{relation} {num_sentences} sentences",
    num_sentences=count,
    relation=relation,
)
def _number_of_sentences(response: str, num_sentences: int, relation: str) -> Finding:
    return _compared(len(punkt_sentences(response)), relation, num_sentences)


@instruction(
    "length_constraints:number_words",
    "{relation} {num_words} words",
    num_words=count,
    relation=relation,
)
def _number_of_words(response: str, num_words: int, relation: str) -> Finding:
    return _compared(len(words(response)), relation, num_words)


@instruction(
    "length_constraints:number_paragraphs",
    "exactly {num_paragraphs} paragraphs set apart by ***",
    num_paragraphs=count,
)
def _number_of_paragraphs(response: str, num_paragraphs: int) -> Finding:
    parts = [part.strip() for part in _PARAGRAPH_BREAK.split(response)]
    if not all(parts[1:-1]):
        return Finding(False, "an empty paragraph between two breaks")
    number = sum(map(bool, parts))
    return Finding(number == num_paragraphs, str(number))


@instruction(
    "length_constraints:nth_paragraph_first_word",
    "exactly {num_paragraphs} paragraphs set apart by an empty line, number {nth_paragraph} "
    "of them beginning with '{first_word}'",
    num_paragraphs=count,
    nth_paragraph=count,
    first_word=text,
)
def _nth_paragraph_first_word(
    response: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> Finding:
    parts = response.split("\n\n")
    number = sum(bool(part.strip()) for part in parts)
    # The place counts empty parts too, although their number does not.
    paragraph = parts[nth_paragraph - 1].strip() if 1 <= nth_paragraph <= number else ""
    if not paragraph:
        return Finding(False, f"{number} paragraphs, none at that place")
    opening = paragraph.split()[0].lstrip("'").lstrip('"')
    first = _ENDS_FIRST_WORD.split(opening)[0].lower()
    followed = number == num_paragraphs and first == first_word.lower()
    return Finding(followed, f"{number} paragraphs, that one beginning with '{first}'")


@instruction(
    "change_case:capital_word_frequency",
    "words in capital letters {capital_relation} {capital_frequency} times",
    capital_frequency=count,
    capital_relation=relation,
)
def _capital_words(response: str, capital_frequency: int, capital_relation: str) -> Finding:
    number = sum(token.isupper() for token in tokens(response))
    return _compared(number, capital_relation, capital_frequency)


@instruction("change_case:english_capital", "an English text in capital letters only")
def _capitals_only(response: str) -> Finding:
    return _cased(response, response.isupper(), "lower-case letters")


@instruction("change_case:english_lowercase", "an English text without any capital letter")
def _no_capitals(response: str) -> Finding:
    return _cased(response, response.islower(), "capital letters")


def _cased(response: str, right: bool, otherwise: str) -> Finding:
    if not right:
        lacks_letters = response.upper() == response.lower()
        return Finding(False, "no letters" if lacks_letters else otherwise)
    spoken = language(response)
    return Finding(spoken in ("en", None), f"the language '{spoken}'")


@instruction(
    "language:response_language",
    "a response wholly in the language '{language}'",
    language=text,
)
def _response_language(response: str, language: str) -> Finding:
    spoken = _language_of(response)
    return Finding(spoken in (language, None), f"the language '{spoken}'")


_language_of = language  # the argument of the same name hides it above


@instruction("startend:end_checker", "an end that reads '{end_phrase}'", end_phrase=text)
def _ends_with(response: str, end_phrase: str) -> Finding:
    end = response.strip().strip('"').lower()
    wanted = end_phrase.strip().lower()
    return Finding(end.endswith(wanted), f"'{shown(response.strip()[-len(wanted) :])}'")
