"""English words without their endings: Porter's algorithm, with the changes that NLTK makes.

Source: Porter, "An algorithm for suffix stripping", Program 14(3), 1980. LoCoMo's script counts
stems from NLTK's default stemmer, which departs from the paper in a few rules and keeps a list
of irregular words; figures can only be compared when the stems are the same.

>>> [stem(word) for word in "caresses ponies running relational happy dying news".split()]
['caress', 'poni', 'run', 'relat', 'happi', 'die', 'news']
"""

from __future__ import annotations

import functools
from collections.abc import Callable

__all__ = ["stem"]

Condition = Callable[[str], bool]

_IRREGULAR = {
    "sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie",
    "news": "news", "innings": "inning", "inning": "inning", "outings": "outing",
    "outing": "outing", "cannings": "canning", "canning": "canning", "howe": "howe",
    "proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip


@functools.lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a word, in lower case."""
    word = word.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _derived(_y_to_i(_past(_plural(word))))
    for rules in (_STEP_3, _STEP_4):
        word = _replaced(word, rules)
    return _tidied(word)


def _is_consonant(word: str, place: int) -> bool:
    if word[place] in "aeiou":
        return False
    if word[place] == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return True


def _measure(root: str) -> int:
    """Return how often a consonant follows a vowel: the *m* of the paper."""
    kinds = [_is_consonant(root, place) for place in range(len(root))]
    return sum(kinds[i] and not kinds[i - 1] for i in range(1, len(kinds)))


def _has_vowel(root: str) -> bool:
    return any(not _is_consonant(root, place) for place in range(len(root)))


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_cvc(word: str) -> bool:
    n = len(word)
    if n == 2:  # NLTK's addition
        return not _is_consonant(word, 0) and _is_consonant(word, 1)
    return (
        n > 2
        and _is_consonant(word, n - 3)
        and not _is_consonant(word, n - 2)
        and _is_consonant(word, n - 1)
        and word[-1] not in "wxy"
    )


def _once(root: str) -> bool:
    return _measure(root) > 0


def _twice(root: str) -> bool:
    return _measure(root) > 1


def _replaced(word: str, rules: list[tuple[str, str, Condition]]) -> str:
    """Apply the first rule whose ending fits; where its condition fails nothing is done."""
    for ending, new, condition in rules:
        if word.endswith(ending):
            root = word[: len(word) - len(ending)]
            return root + new if condition(root) else word
    return word


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]  # dies: die
    for ending, new in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            return word[: len(word) - len(ending)] + new
    return word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending):
            root = word[: len(word) - len(ending)]
            if _has_vowel(root):
                return _restored(root)
            break
    return word


def _restored(root: str) -> str:
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _doubled(root):
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_cvc(root) else root


def _y_to_i(word: str) -> str:
    root = word[:-1]
    if word.endswith("y") and len(root) > 1 and _is_consonant(root, len(root) - 1):
        return root + "i"
    return word


def _derived(word: str) -> str:
    if word.endswith("alli") and _once(word[:-4]):
        return _derived(word[:-2])  # NLTK: formalli, formal, and again
    if word.endswith("logi"):
        return word[:-1] if _once(word[:-3]) else word
    return _replaced(word, _STEP_2)


def _tidied(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _ends_cvc(root)):
            word = root
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


_STEP_2: list[tuple[str, str, Condition]] = [
    (ending, new, _once)
    for ending, new in (
        ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"),
        ("izer", "ize"), ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"),
        ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"), ("ator", "ate"),
        ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
        ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"),
    )
]  # fmt: skip
_STEP_3: list[tuple[str, str, Condition]] = [
    (ending, new, _once)
    for ending, new in (
        ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"),
        ("ful", ""), ("ness", ""),
    )
]  # fmt: skip
_STEP_4: list[tuple[str, str, Condition]] = [
    ("al", "", _twice), ("ance", "", _twice), ("ence", "", _twice), ("er", "", _twice),
    ("ic", "", _twice), ("able", "", _twice), ("ible", "", _twice), ("ant", "", _twice),
    ("ement", "", _twice), ("ment", "", _twice), ("ent", "", _twice),
    ("ion", "", lambda root: _twice(root) and root[-1] in "st"),
    ("ou", "", _twice), ("ism", "", _twice), ("ate", "", _twice), ("iti", "", _twice),
    ("ous", "", _twice), ("ive", "", _twice), ("ize", "", _twice),
]  # fmt: skip
