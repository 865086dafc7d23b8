"""IFBench: instructions on words, sentences and paragraphs, one after the other."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from evaluators._fields import shown
from evaluators.instructions.libraries import punkt_sentences, syllables, tokens, verb_first
from evaluators.instructions.registry import Finding, count, instruction, text
from evaluators.instructions.text import EDGES, pieces, sentences, unpunctuated

__all__: list[str] = []

Cut = Callable[[str], list[str]]

_BY_PUNKT = {"cut": punkt_sentences}
_ALPHABET = string.ascii_lowercase
_VOWELS = frozenset("aeiou")
_CONSONANTS = frozenset(_ALPHABET) - _VOWELS
_PALINDROMES, _PALINDROME_LENGTH = 10, 5
_LONGEST = 100  # lengths from here on count as not prime


@instruction(
    "words:alphabet",
    "words whose first letters run through the alphabet, each the next after the last one's",
)
def _alphabet(response: str) -> Finding:
    heard = pieces(response)
    last = heard[0][0].lower() if heard else ""
    if not last or last not in _ALPHABET:
        return Finding(False, f"'{shown(heard[0], 40)}' at the start" if heard else "no word")
    for word in heard[1:]:
        wanted = _ALPHABET[(_ALPHABET.index(last) + 1) % len(_ALPHABET)]
        if word[0].lower() != wanted:
            return Finding(False, f"'{shown(word, 40)}' where a word with '{wanted}' is due")
        last = wanted
    return Finding(True)


@instruction("words:vowel", "one paragraph, on one line, with three different vowels at most")
def _vowels(response: str) -> Finding:
    if "\n" in response.strip():
        return Finding(False, "several lines")
    used = sorted(_VOWELS & set(response.lower()))
    return Finding(len(used) <= 3, ", ".join(used))


@instruction("words:consonants", "two consonants side by side in every word")
def _consonants(response: str) -> Finding:
    for word in response.lower().split():
        if not any({*pair} <= _CONSONANTS for pair in pairwise(word)):
            return Finding(False, f"'{shown(word, 40)}'")
    return Finding(True)


@instruction(
    "words:palindrome",
    f"at least {_PALINDROMES} palindromes of {_PALINDROME_LENGTH} letters or more",
)
def _palindromes(response: str) -> Finding:
    found = [
        word
        for word in pieces(response.lower())
        if len(word) >= _PALINDROME_LENGTH and word == word[::-1]
    ]
    some = f": {shown(', '.join(found), 60)}" if found else ""
    return Finding(len(found) >= _PALINDROMES, f"{len(found)}{some}")


@instruction("words:prime_lengths", "only words whose number of letters is prime")
def _prime_lengths(response: str) -> Finding:
    odd = next((word for word in pieces(response) if not _is_prime(len(word))), None)
    return Finding(odd is None, f"'{shown(odd or '', 40)}' of {len(odd or '')} letters")


def _is_prime(number: int) -> bool:
    return 1 < number < _LONGEST and all(number % part for part in range(2, number))


@instruction("words:repeats", "no word more than {small_n} times", small_n=count)
def _repeats(response: str, small_n: int) -> Finding:
    word, number = max(
        Counter(pieces(response.lower())).items(), key=lambda item: item[1], default=("", 0)
    )
    return Finding(number <= small_n, f"'{shown(word, 40)}' {number} times")


@instruction("words:no_consecutive", "no two words in a row with the same first letter")
def _no_consecutive(response: str) -> Finding:
    for word, following in pairwise(pieces(response.lower())):
        if word[0] == following[0]:
            return Finding(False, f"'{shown(f'{word} {following}', 60)}'")
    return Finding(True)


@instruction("words:odd_even_syllables", "words of odd and even numbers of syllables in turn")
def _odd_even_syllables(response: str) -> Finding:
    for word, following in pairwise(pieces(response.lower())):
        one, other = syllables(word), syllables(following)
        if one % 2 == other % 2:
            said = shown(f"{word} {following}", 60)
            return Finding(False, f"'{said}' with {one} and {other}")
    return Finding(True)


@instruction("words:start_verb", "a verb as the first word")
def _start_verb(response: str) -> Finding:
    return Finding(*verb_first(response))


@instruction(
    "words:last_first", "each sentence beginning with the last word of the one before", _BY_PUNKT
)
def _last_first(response: str, cut: Cut = sentences) -> Finding:
    for sentence, following in pairwise(cut(response)):
        last = sentence.rstrip(EDGES).split()[-1:]
        first = following.lstrip(EDGES).split()[:1]
        if not last or not first or last[0].lower() != first[0].lower():
            said = f"'{shown(' '.join(last), 40)}' and then '{shown(' '.join(first), 40)}'"
            return Finding(False, said)
    return Finding(True)


@instruction("words:paragraph_last_first", "each paragraph ending with the word that begins it")
def _paragraph_last_first(response: str) -> Finding:
    for paragraph in response.lower().split("\n"):
        heard = paragraph.strip().strip(EDGES).split()
        if heard and heard[0] != heard[-1]:
            said = f"'{shown(heard[0], 40)}' at the start and '{shown(heard[-1], 40)}' at the end"
            return Finding(False, said)
    return Finding(True)


@instruction(
    "sentence:keyword",
    "the keyword '{word}' in sentence {N}",
    {"cut": punkt_sentences, "whole": True},
    word=text,
    N=count,
)
def _sentence_keyword(
    response: str, word: str, N: int, cut: Cut = sentences, whole: bool = False
) -> Finding:
    found = cut(response)
    if not 1 <= N <= len(found):
        return Finding(False, f"{len(found)} sentences")
    edge = r"\b" if whole else ""
    pattern = f"{edge}{re.escape(word.lower())}{edge}"
    followed = re.search(pattern, found[N - 1].lower()) is not None
    return Finding(followed, f"'{shown(found[N - 1], 80)}' there")


@instruction(
    "sentence:increment",
    "{small_n} more words in each sentence than in the one before",
    _BY_PUNKT,
    small_n=count,
)
def _sentence_increment(response: str, small_n: int, cut: Cut = sentences) -> Finding:
    lengths = [len(pieces(sentence)) for sentence in cut(response)]
    followed = all(following == length + small_n for length, following in pairwise(lengths))
    return Finding(followed, f"{shown(', '.join(map(str, lengths)), 60)} words")


@instruction(
    "sentence:alliteration_increment",
    "more words in a row with the same first letter in each sentence than in the one before",
    _BY_PUNKT,
)
def _alliteration_increment(response: str, cut: Cut = sentences) -> Finding:
    found = [_alliteration(sentence) for sentence in cut(response)]
    followed = all(one < other for one, other in pairwise(found))
    return Finding(followed, f"{shown(', '.join(map(str, found)), 60)} of them")


def _alliteration(sentence: str) -> int:
    """Count the words of a sentence that stand in a row with the same first letter."""
    # Whole rows are counted, every one of them: the sentence's sum grows, not its longest row.
    heard = [word.lstrip(EDGES) for word in sentence.lower().split()]
    letters = [word[0] for word in heard if word]
    same = [one == other for one, other in pairwise(letters)]
    starts = sum(now and not before for before, now in pairwise([False, *same]))
    return sum(same) + starts


@instruction(
    "format:newline",
    "every word on a line of its own",
)
def _newline(response: str) -> Finding:
    bare = unpunctuated(response).strip()
    lines, heard = len(list(filter(None, bare.split("\n")))), len(bare.split())
    return Finding(lines == heard, f"{heard} words on {lines} lines")


@instruction(
    "format:title_case",
    "a capital at the start of every word",
    {"single": True},
)
def _title_case(response: str, single: bool = False) -> Finding:
    low = [
        word
        for word in tokens(response)
        if word[0].islower() and (_is_one_case(word[1:]) or (single and len(word) == 1))
    ]
    return Finding(not low, f"'{shown(', '.join(low), 60)}'")


def _is_one_case(rest: str) -> bool:
    return rest.islower() or rest.isupper()
