"""Short answers judged by exact match and F1, with the figures of the HotpotQA script.

Source: ``hotpot_evaluate_v1.py`` of the repository hotpotqa/hotpot (Yang et al., EMNLP 2018),
whose normalisation is SQuAD's: lower case, no ASCII punctuation, no *a*, *an*, *the*, single
spaces. :func:`exact_match`, :func:`token_f1` and :func:`facts_match` give its figures, to the
last digit, for every pair of texts.

>>> exact_match("The Beatles!", "beatles"), token_f1("yes, it is", "yes")
(True, 0.0)
"""

from __future__ import annotations

import itertools
import json
import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output, shown
from evaluators.judgement import Judge, Judgement

__all__ = [
    "SCORINGS",
    "ExactMatch",
    "answer_text",
    "exact_match",
    "facts_match",
    "normalized",
    "token_f1",
]

SCORINGS = {"repaired": "1", "faithful": "1"}
"""The scorings with their versions, the default first."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_YES_NO = ("yes", "no", "noanswer")
_NOT_ASKED = object()
_COMPLETED = "[[ ## completed ## ]]"
# A sign counts only where nothing stands before it: "F-16" and "1-2" hold no negative number.
_SIGN = r"(?:(?<![^\s(\[{\"'$])-)?"
_NUMBER = re.compile(
    rf"{_SIGN}(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|{_SIGN}(?<![\w.])\.\d+"
)


def normalized(text: str) -> str:
    """Return a text as the official script compares it.

    >>> normalized("The  U.S. Navy's an  example")
    'us navys example'
    >>> normalized("10,000"), normalized("3.5"), normalized("A")
    ('10000', '35', '')
    """
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, gold: str) -> bool:
    """Tell whether two texts are equal once normalised."""
    return normalized(prediction) == normalized(gold)


def token_f1(prediction: str, gold: str) -> float:
    """Return the F1 of the words that two texts share, in [0, 1], repeated words counted.

    As the official script has it, ``yes``, ``no`` and ``noanswer`` share nothing with a longer
    text, and two texts without any word share nothing, equal as they are.

    >>> token_f1("in Paris", "Paris")
    0.6666666666666666
    """
    return _harmonic(*_words_shared(prediction, gold))


def facts_match(prediction: Any, gold: Any) -> tuple[bool, float]:
    """Return exact match and F1 of supporting facts.

    Facts are pairs of a title and the number of a sentence, from 0: a list of pairs, the
    mapping ``{"title": […], "sent_id": […]}`` of the Hugging Face hub, or either as JSON. What
    is no pair is one wrong fact.

    >>> facts_match([["Kiss", 0], ["Kiss", 0], ["Moon", 2]], [["Kiss", 0]])
    (False, 0.6666666666666666)
    """
    match, precision, recall = _facts_shared(prediction, gold)
    return match, _harmonic(precision, recall)


def answer_text(value: Any) -> str | None:
    """Return the answer in what a program returned; ``None`` where there is none.

    * A text is the answer, unless a JSON object with an ``answer`` stands in it: then that is.
      Broken JSON is a text like any other.
    * True and False are *yes* and *no*; a whole float is written without its point.
    * A list of one is its element; the elements of a longer one are joined by commas, so that
      a second answer is never dropped in silence.

    >>> answer_text('Here: {"answer": "Paris"}'), answer_text('{"answer": "Paris"')
    ('Paris', '{"answer": "Paris"')
    >>> answer_text(True), answer_text(3.0), answer_text(["4", "4"]), answer_text(None)
    ('yes', '3', '4, 4', None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _text_answer(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping):
        return _plain_answer(
            value["answer"] if "answer" in value else json.dumps(dict(value), default=str)
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(filter(None, map(_plain_answer, value))) if value else None
    return str(value)


class ExactMatch(Judge):
    """Judge a short answer by exact match.

    A metric for ``dspy.Evaluate``, MIPROv2, GEPA and the rest: call it with an example that has
    an ``answer`` and a prediction that has an ``answer`` (or is one). :func:`answer_text` says
    what counts as the answer.

    Two scorings. ``"repaired"``, the default, is the official exact match, save where removing
    articles leaves nothing of a text (the gold answer *A*): there the articles stay, so that
    *the* is not right for *A*. ``"faithful"`` is StreamBench's released code: the official
    exact match throughout, JSON found by counting braces; where that code ends the run (a
    closing brace before any opening one, a JSON answer that is no text), the step is not judged.

    A verdict is a :class:`~evaluators.judgement.Judgement` with

    * ``score``: 1.0, 0.0, or NaN when the gold answer is empty or no text;
    * ``feedback``: what was expected, what was got, and how they differ;
    * ``informative``: False for a match that teaches nothing true: the normalisation made one
      number of two (3.5 and 35), or left nothing to compare;
    * ``kind``: ``"match"``, ``"collision"``, ``"no answer"``, ``"yes or no"``, ``"too long"``,
      ``"incomplete"``, ``"overlap"``, ``"notation"``, ``"different"`` or ``"not judged"``;
    * ``subscores``: ``em`` and ``f1``, always the official script's for the answer found;
      ``sp_em``, ``sp_f1``, ``joint_em`` and ``joint_f1`` where both example and prediction have
      ``supporting_facts`` (a prediction's may be ``None``: no fact is right then);
    * ``compare``, ``compare_version``: the scoring.

    A gold answer that is a list has several parts, all of which must be given, in any order and
    as often as they occur (alternatives are not meant).

    Args:
        compare: ``"repaired"`` or ``"faithful"``.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN, for ``dspy.Evaluate`` and
            optimizers that average scores.

    Raises:
        ValueError: An unknown scoring; when called, the example or the prediction has no
            ``answer``.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.

    >>> import dspy
    >>> judge = ExactMatch()
    >>> judge(dspy.Example(answer="Paris"), dspy.Prediction(answer="Paris, France")).feedback
    'Expected: Paris, got: Paris, France. The expected words are in it, with others: give the
    shortest answer alone.'
    """

    scorings = SCORINGS

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        expected, given = label(example, "answer"), output(prediction, "answer")
        gold = _parts(expected)
        got = self._answers(given, gold)
        return self._judge(got, gold, _facts_scores(example, prediction, got, gold))

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        facts = _facts_scores(example, prediction, None, [])
        return self._verdict(math.nan, "not judged", feedback, facts, False)

    def _answers(self, given: Any, gold: Sequence[str]) -> list[str] | None:
        """Return the parts of the answer; ``None`` where none was given."""
        if len(gold) > 1 and isinstance(given, (list, tuple)):
            return [text for text in map(answer_text, given) if text is not None]
        if self.compare == "faithful" and isinstance(given, str):
            return [_released_answer(_unmarked(given))]
        text = answer_text(given)
        return None if text is None else [text]

    def _judge(
        self, got: list[str] | None, gold: list[str], facts: Mapping[str, float]
    ) -> Judgement:
        wanted, text = ", ".join(gold), ", ".join(got or [])
        official = got is not None and _same(got, gold, normalized)
        scores = {"em": float(official), "f1": token_f1(text, wanted), **facts}
        right = official
        if got is not None and self.compare == "repaired":
            right = _same(got, gold, _kept)
        if not right:
            kind, reason = _fault(got, text, wanted)
            said = shown(text) or "no answer"
            feedback = f"Expected: {wanted}, got: {said}. {reason}".rstrip()
            return self._verdict(0.0, kind, feedback, scores)
        if caveat := _caveat(text, wanted):
            feedback = f"Counts as a match, but proves nothing: {caveat}."
            return self._verdict(1.0, "collision", feedback, scores, False)
        return self._verdict(1.0, "match", f"Correct: {wanted}.", scores)


def _same(got: Sequence[str], gold: Sequence[str], form: Any) -> bool:
    return sorted(map(form, got)) == sorted(map(form, gold))


def _kept(text: str) -> str:
    """Return the normalised text, with its articles or punctuation where nothing else is left."""
    lower = " ".join(text.lower().split())
    return normalized(text) or " ".join(lower.translate(_NO_PUNCTUATION).split()) or lower


def _fault(got: Sequence[str] | None, text: str, wanted: str) -> tuple[str, str]:
    """Name the difference between a wrong answer and the right one."""
    if got is None or not text.strip():
        return "no answer", ""
    words, gold_words = normalized(text).split(), normalized(wanted).split()
    got_no, want_no = words[:1] in (["yes"], ["no"]), gold_words in (["yes"], ["no"])
    if want_no and words[:1] == gold_words:
        return "too long", f"Say {gold_words[0]} and nothing else."
    if want_no and not got_no:
        return "yes or no", "The question wants yes or no."
    if got_no and len(words) == 1 and not want_no:
        return "yes or no", "The question does not want yes or no, but what it asks for."
    if _numbers(text) and _numbers(text) == _numbers(wanted) and len(words) == len(gold_words):
        return "notation", "The same number, written in another way."
    shared = sum((Counter(words) & Counter(gold_words)).values())
    if shared and shared == len(gold_words):
        reason = "The expected words are in it, with others: give the shortest answer alone."
        return "too long", reason
    if shared and shared == len(words):
        return "incomplete", "Some of the expected words are missing."
    if shared:
        return "overlap", "Only some of the words agree."
    return "different", ""


def _caveat(text: str, wanted: str) -> str:
    """Say why a match of two texts that differ teaches nothing; ``""`` when it does."""
    if _numbers(text) != _numbers(wanted):
        return (
            f"without punctuation {shown(text)} and {wanted} look alike, yet the numbers in "
            "them are not the same"
        )
    if _kept(text) != _kept(wanted):
        return f"nothing but articles and punctuation stands in {shown(text)} and in {wanted}"
    return ""


def _numbers(text: str) -> list[Decimal]:
    return [Decimal(found.replace(",", "")) for found in _NUMBER.findall(text)]


def _text_answer(text: str) -> str:
    text = _unmarked(text)
    start = text.find("{")
    if start >= 0:
        try:
            found, _ = json.JSONDecoder(parse_constant=_no_json).raw_decode(text, start)
        except (ValueError, RecursionError):  # broken JSON is a text like any other
            return text
        if "answer" in found:
            return _plain_answer(found["answer"])
    return text


def _unmarked(text: str) -> str:
    # Small models close an answer on its own line, and DSPy leaves the marker in the value.
    return text.rstrip().removesuffix(_COMPLETED)


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _plain_answer(value: Any) -> str:
    """Return an answer found inside another value; a text there is not searched again."""
    return value if isinstance(value, str) else answer_text(value) or ""


def _released_answer(reply: str) -> str:
    """Find the answer as StreamBench's released code does.

    Raises:
        EvaluationFailed: That code ends the run here.
    """
    start = depth = 0
    for place, character in enumerate(reply):
        if character == "{":
            start = place if depth == 0 else start
            depth += 1
        elif character == "}":
            depth -= 1
            if depth < 0:
                raise EvaluationFailed("the released code ends the run at a stray closing brace.")
            if depth == 0:
                return _released_json(reply, reply[start : place + 1])
    return reply


def _released_json(reply: str, found: str) -> str:
    try:
        value = json.loads(found).get("answer", found)
    except (ValueError, RecursionError):
        return reply
    if not isinstance(value, str):
        raise EvaluationFailed(f"the released code ends the run at an answer like {value!r}.")
    return value


def _parts(gold: Any) -> list[str]:
    parts = list(gold) if isinstance(gold, (list, tuple)) else [gold]
    if parts and all(isinstance(part, str) and part.strip() for part in parts):
        return parts
    raise EvaluationFailed(f"the gold answer must be a text that is not empty, got {gold!r}.")


def _facts_scores(
    example: Any, prediction: Any, got: Sequence[str] | None, gold: Sequence[str]
) -> dict[str, float]:
    """Return the figures of supporting facts, alone and jointly with the answer.

    A prediction whose facts are ``None`` has none right; one without the field is not asked.
    """
    wanted = getattr(example, "supporting_facts", None)
    given = getattr(prediction, "supporting_facts", _NOT_ASKED)
    if wanted is None or given is _NOT_ASKED:
        return {}
    match, precision, recall = _facts_shared([] if given is None else given, wanted)
    text, gold_text = ", ".join(got or []), ", ".join(gold)
    of_words, of_gold = _words_shared(text, gold_text)
    exact = got is not None and _same(got, gold, normalized)
    return {
        "sp_em": float(match),
        "sp_f1": _harmonic(precision, recall),
        "joint_em": float(match and exact),
        "joint_f1": _harmonic(of_words * precision, of_gold * recall),
    }


def _words_shared(prediction: str, gold: str) -> tuple[float, float]:
    """Return precision and recall of the words of an answer."""
    got, wanted = normalized(prediction), normalized(gold)
    if got != wanted and (got in _YES_NO or wanted in _YES_NO):
        return 0.0, 0.0
    words, gold_words = got.split(), wanted.split()
    same = sum((Counter(words) & Counter(gold_words)).values())
    return (same / len(words), same / len(gold_words)) if same else (0.0, 0.0)


def _facts_shared(prediction: Any, gold: Any) -> tuple[bool, float, float]:
    """Return exact match, precision and recall of supporting facts."""
    got, wanted = _facts(prediction), _facts(gold)
    true = len(got & wanted)
    precision = true / len(got) if got else 0.0
    return got == wanted, precision, true / len(wanted) if wanted else 0.0


def _harmonic(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


def _facts(value: Any) -> set[tuple[Any, ...]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {(value,)} if value.strip() else set()
    if isinstance(value, Mapping):
        titles, sentences = value.get("title"), value.get("sent_id")
        if isinstance(titles, (list, tuple)) and isinstance(sentences, (list, tuple)):
            value = list(itertools.zip_longest(titles, sentences))
    if not isinstance(value, (list, tuple, set, frozenset)):
        return {(repr(value),)}
    return {_fact(item) for item in value}


def _fact(item: Any) -> tuple[Any, ...]:
    if isinstance(item, (list, tuple)) and len(item) == 2:
        title, sentence = item
        if isinstance(title, str) and isinstance(sentence, int):
            return title, sentence
    return (repr(item),)
