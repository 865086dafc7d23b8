"""IFBench: instructions on how many, and in what proportion."""

from __future__ import annotations

import re
from collections.abc import Callable

from evaluators._fields import shown
from evaluators.instructions.libraries import punkt_sentences, tokens
from evaluators.instructions.registry import (
    Finding,
    count,
    instruction,
    of_prompt,
    percentage,
    text,
)
from evaluators.instructions.text import (
    PUNCTUATION,
    pieces,
    sentences,
    trimmed,
    unpunctuated,
    words,
)

__all__: list[str] = []

Cut = Callable[[str], list[str]]

_CONJUNCTIONS = frozenset("and but for nor or so yet".split())
_PRONOUNS = frozenset(
    """i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs
    themselves""".split()
)
_LATER_PRONOUNS = _PRONOUNS | frozenset(
    """this that these those who whom whose which what whoever whomever whatever whichever
    anybody anyone anything everybody everyone everything nobody nothing somebody someone
    something each either neither both all some any none""".split()
)
_BY_PUNKT = {"cut": punkt_sentences}
# The list that the prompts give.
_NAMES = """Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte
    Alexander Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail
    Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David Hannah
    Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan""".split()
# English function words. Words are cut at apostrophes, so that what is left of contractions
# stands here as well.
_STOP_WORDS = frozenset(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves what which who whom this
    that these those am is are was were be been being have has had having do does did doing a an
    the and but if or because as until while of at by for with about against between into through
    during before after above below to from up down in out on off over under again further then
    once here there when where why how all any both each few more most other some such no nor not
    only own same so than too very s t can will just don should now d ll m o re ve y ain aren
    couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won
    wouldn""".split()
)
_NUMBER = re.compile(r"\d+")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_INTERROBANGS = ("?!", "!?")
_MARKS = ".,!?;:"
_TIMES = (1, 2, 3, 5, 7)
_TRIGRAM, _TOLERANCE = 3, 2.0


@instruction(
    "count:word_count_range",
    "{min_words} to {max_words} words",
    min_words=count,
    max_words=count,
)
def _word_range(response: str, min_words: int, max_words: int) -> Finding:
    number = len(words(response))
    return Finding(min_words <= number <= max_words, f"{number}")


@instruction("count:unique_word_count", "at least {N} different words", N=count)
def _unique_words(response: str, N: int) -> Finding:
    number = len({trimmed(word) for word in response.lower().split()})
    return Finding(number >= N, f"{number}")


@instruction(
    "count:conjunctions",
    "at least {small_n} different coordinating conjunctions (and, but, for, nor, or, so, yet)",
    small_n=count,
)
def _conjunctions(response: str, small_n: int) -> Finding:
    # Forms count, as they stand with capitals and punctuation: "And" beside "and," is two.
    forms = {word for word in response.split() if trimmed(word).lower() in _CONJUNCTIONS}
    used = sorted({trimmed(form).lower() for form in forms})
    return Finding(len(forms) >= small_n, f"only: {', '.join(used) or 'none'}")


@instruction("count:person_names", "at least {N} different names of the given list", N=count)
def _person_names(response: str, N: int) -> Finding:
    number = sum(re.search(rf"\b{name}\b", response) is not None for name in _NAMES)
    return Finding(number >= N, f"{number}")


@instruction(
    "count:pronouns",
    "at least {N} pronouns",
    {"cut": tokens, "pronouns": _LATER_PRONOUNS},
    N=count,
)
def _pronouns(
    response: str, N: int, cut: Cut = pieces, pronouns: frozenset[str] = _PRONOUNS
) -> Finding:
    heard = cut(response.lower().replace("/", " "))  # he/she is two; pieces make its of it's
    number = sum(word in pronouns for word in heard)
    return Finding(number >= N, f"{number}")


@instruction("count:numbers", "exactly {N} numbers", N=count)
def _numbers(response: str, N: int) -> Finding:
    # Without punctuation 1,000.5 is one number, and so is 2020-21; the 4 of 4th is one as well.
    number = len(_NUMBER.findall(unpunctuated(response)))
    return Finding(number == N, f"{number}")


@instruction(
    "count:punctuation",
    "each of the marks . , ! ? ; : and the interrobang (?!)",
)
def _punctuation(response: str) -> Finding:
    both = next((pair for pair in _INTERROBANGS if pair in response), "")
    if not both and "‽" not in response:
        return Finding(False, "no interrobang")
    # The marks of one interrobang do not count a second time.
    rest = response.replace(both, "", 1) if both else response
    missing = [mark for mark in _MARKS if mark not in rest]
    return Finding(not missing, f"no further {' '.join(missing)}")


@instruction("count:words_japanese", "every {N}th word in Japanese", N=count)
def _japanese_words(response: str, N: int) -> Finding:
    heard = response.split()
    for place in range(N, len(heard) + 1, N) if N else ():
        word = trimmed(heard[place - 1])
        if word and not word.isdigit() and not _JAPANESE.search(word):
            return Finding(False, f"'{shown(word, 40)}' as word {place}")
    return Finding(True)


@instruction(
    "count:keywords_multiple",
    "'{keyword1}' once, '{keyword2}' twice, '{keyword3}' three times, '{keyword4}' five times, "
    "'{keyword5}' seven times",
    **dict.fromkeys(("keyword1", "keyword2", "keyword3", "keyword4", "keyword5"), text),
)
def _keywords_multiple(response: str, **keywords: str) -> Finding:
    lower = response.lower()
    found = {word: lower.count(word.strip().lower()) for word in keywords.values()}
    followed = all(
        found[keywords[f"keyword{place}"]] == times for place, times in enumerate(_TIMES, 1)
    )
    return Finding(followed, ", ".join(f"'{word}' {number}×" for word, number in found.items()))


@instruction(
    "ratio:stop_words", "stop words as {percentage:g} % of all words at most", percentage=percentage
)
def _stop_words(response: str, percentage: float) -> Finding:
    heard = words(response)
    if not heard:
        return Finding(False, "no words")
    share = 100 * sum(word.lower() in _STOP_WORDS for word in heard) / len(heard)
    return Finding(share <= percentage, f"{share:.1f} %")


@instruction(
    "ratio:overlap",
    "an overlap of {percentage:g} % (±2) of the response's character trigrams with the reference",
    percentage=percentage,
    reference_text=of_prompt,
)
def _overlap(response: str, percentage: float, reference_text: str) -> Finding:
    own, other = _trigrams(response), _trigrams(reference_text)
    if not own:
        return Finding(False, "fewer than three characters")
    share = len(own & other) / len(own) * 100
    followed = percentage - _TOLERANCE <= share <= percentage + _TOLERANCE
    return Finding(followed, f"{share:.1f} %")


def _trigrams(text: str) -> set[str]:
    return {text[at : at + _TRIGRAM] for at in range(len(text) - _TRIGRAM + 1)}


@instruction(
    "ratio:sentence_type",
    "two declarative sentences (.) for each question (?)",
    _BY_PUNKT,
    {"least": 1},
)
def _sentence_types(response: str, cut: Cut = sentences, least: int = 0) -> Finding:
    said, asked, _ = _marks(cut(response))
    return Finding(said == 2 * asked and asked >= least, f"{said} to {asked}")


@instruction(
    "ratio:sentence_balance",
    "as many sentences ending in . as in ? and in !, one count for all",
    _BY_PUNKT,
)
def _sentence_balance(response: str, cut: Cut = sentences) -> Finding:
    said, asked, exclaimed = _marks(cut(response))
    return Finding(said == asked == exclaimed, f"{said}, {asked} and {exclaimed}")


def _marks(found: list[str]) -> tuple[int, int, int]:
    ends = [sentence[-1:] for sentence in found]
    return ends.count("."), ends.count("?"), ends.count("!")


@instruction(
    "ratio:sentence_words",
    "three sentences of the same number of characters, with all different words",
    _BY_PUNKT,
)
def _sentence_lengths(response: str, cut: Cut = sentences) -> Finding:
    lengths = [len(sentence.strip()) for sentence in cut(response)]
    followed = len(lengths) == 3 and len(set(lengths)) == 1
    return Finding(followed, f"sentences of {shown(', '.join(map(str, lengths)), 60)} characters")


def _spoken(text: str) -> list[str]:
    """Return the tokens in which a letter or a digit stands."""
    return [token for token in tokens(text) if any(map(str.isalnum, token))]


@instruction(
    "words:words_position",
    "'{keyword}' as the second and the second to last word",
    {"lenient": True},
    {"lenient": True, "cut": _spoken},
    keyword=text,
)
def _second_words(response: str, keyword: str, lenient: bool = False, cut: Cut = tokens) -> Finding:
    heard, wanted = cut(response), keyword.strip()
    if lenient:
        heard, wanted = [word.lower() for word in heard], wanted.lower()
        if heard and heard[-1] in PUNCTUATION:
            # A mark at the end is no word any longer, one at the second place still is.
            heard.pop()
    if len(heard) < 2:
        return Finding(False, "fewer than two words")
    followed = heard[1] == heard[-2] == wanted
    return Finding(followed, f"'{shown(heard[1], 40)}' and '{shown(heard[-2], 40)}'")


@instruction(
    "words:keywords_specific_position",
    "'{keyword}' in sentence {n} as word {m} of it",
    {"cut": punkt_sentences, "lenient": True},
    {"lenient": True},
    keyword=text,
    n=count,
    m=count,
)
def _word_in_sentence(
    response: str, keyword: str, n: int, m: int, cut: Cut = sentences, lenient: bool = False
) -> Finding:
    found = cut(response)
    if not 1 <= n <= len(found):
        return Finding(False, f"{len(found)} sentences")
    heard, wanted = tokens(found[n - 1]), keyword.strip()
    if lenient:
        heard, wanted = [word.lower() for word in _spoken(found[n - 1])], wanted.lower()
    if not 1 <= m <= len(heard):
        return Finding(False, f"{len(heard)} words in that sentence")
    return Finding(heard[m - 1] == wanted, f"'{shown(heard[m - 1], 40)}'")
