"""Answers from a conversation's memory: token F1, exact match, and when to give none.

Source: ``task_eval/evaluation.py`` of snap-research/locomo (Maharana et al., ACL 2024).
:func:`token_f1`, :func:`parts_f1` and :func:`exact_match` give that script's figures, to the
last digit (NLTK's stemmer included, :mod:`evaluators.stemming`). LongMemEval and HaluMem are
judged by a language model in their papers (:mod:`evaluators.llm_judge`); without one they are
judged by the same figures here, which is stricter with long gold answers and comparable with
nothing published.

>>> token_f1("They went hiking in the mountains", "hiking on a mountain")
0.5
>>> abstains("The conversation does not mention her sister."), abstains("her sister Ann")
(True, False)
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output, shown
from evaluators.judgement import Judge, Judgement
from evaluators.qa import answer_text
from evaluators.stemming import stem

__all__ = [
    "SCORINGS",
    "MemoryAnswer",
    "abstains",
    "exact_match",
    "parts_f1",
    "token_f1",
    "word_recall",
    "words",
]

SCORINGS = {"f1": "1", "exact": "1", "faithful": "1"}
"""The scorings with their versions, the default first."""

_SMALL_WORDS = re.compile(r"\b(a|an|the|and)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_OFFICIAL_PHRASES = ("no information available", "not mentioned")
_SAY = (
    r"(?:say|mention(?:ed)?|specif(?:y|ied)|state[ds]?|provided?|know|contain|includ(?:e|ed)|"
    r"indicated?|reveal(?:ed)?|discuss(?:ed)?|disclose[ds]?|given?|available|share[ds]?)"
)
_ABSTAINS = re.compile(
    rf"\b(?:not|never|isn't|wasn't|hasn't|don't|doesn't|didn't)(?: \w+)? {_SAY}\b"
    rf"|\bno (?:\w+ )?(?:information|mention|record|indication|evidence|details?|memor(?:y|ies))\b"
    r"|\b(?:can't|cannot|can not|couldn't|could not|unable to|impossible to) (?:be )?"
    r"(?:answer|determine|tell|find|know|say|infer)"
    r"|\b(?:insufficient|not enough|not sufficient) (?:information|context|details|evidence)\b"
    r"|\b(?:unanswerable|not answerable|not known|not sure)\b|^unknown\b|^n/?a$"
)


def words(text: str) -> list[str]:
    """Return the stems that a text is compared by, in its order.

    >>> words("The cats, and 1,000 dogs!")
    ['cat', '1000', 'dog']
    """
    bare = text.replace(",", "").lower().translate(_NO_PUNCTUATION)
    return [stem(word) for word in _SMALL_WORDS.sub(" ", bare).split()]


def token_f1(prediction: str, gold: str) -> float:
    """Return the F1 of the stems that two texts share, in [0, 1], repeated ones counted."""
    got, wanted = words(prediction), words(gold)
    same = sum((Counter(got) & Counter(wanted)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(got), same / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def parts_f1(prediction: str, gold: str) -> float:
    """Return the mean, over the gold parts between commas, of the best F1 of a predicted part.

    >>> parts_f1("skiing, chess, tea", "chess, ski")
    1.0
    """
    given = [part.strip() for part in prediction.split(",")]
    wanted = [part.strip() for part in gold.split(",")]
    return sum(max(token_f1(part, goal) for part in given) for goal in wanted) / len(wanted)


def exact_match(prediction: str, gold: str) -> bool:
    """Tell whether two texts hold the same words, in any order and number (unstemmed)."""
    return _plain_words(prediction) == _plain_words(gold)


def word_recall(prediction: str, gold: str) -> float:
    """Return the share of the gold stems that stand in a prediction, in [0, 1]."""
    wanted = Counter(words(gold))
    found = sum((Counter(words(prediction)) & wanted).values())
    return found / wanted.total() if wanted else 0.0


def abstains(text: str) -> bool:
    """Tell whether a text says that the answer is not known.

    >>> [abstains(t) for t in ("Not mentioned", "I don't know.", "You did not mention your dog")]
    [True, True, True]
    >>> [abstains(t) for t in ("Tuesday", "No", "He knows no fear", "an unknown painter")]
    [False, False, False, False]
    """
    return bool(_ABSTAINS.search(" ".join(text.lower().replace("’", "'").split())))


class MemoryAnswer(Judge):
    """Judge an answer about a conversation.

    A metric of five arguments. Examples have ``answer`` and may have

    * ``abstain``: True where the memory does not hold the answer, so that none must be given;
    * ``several``: True where the gold answer is a list, its parts between commas;
    * ``rubric``: True where the gold answer describes a good reply instead of being one, which
      takes :class:`evaluators.llm_judge.LMJudge`: not judged here;
    * ``evidence``: ids of the passages that hold the answer;
    * ``adversarial_answer``: what an unanswerable question tempts to say.

    Predictions have ``answer`` and may have ``retrieved``, the ids of the passages found.

    ==============  =============================================================================
    scoring         score of an answer
    ==============  =============================================================================
    ``"f1"``        token F1 (over the parts where there are several), in [0, 1]
    ``"exact"``     1 when both hold the same words, else 0
    ``"faithful"``  as ``"f1"``
    ==============  =============================================================================

    Where none must be given, the score is 1 for an answer that :func:`abstains`; with
    ``"faithful"`` for one that says "no information available" or "not mentioned", the only
    phrases that LoCoMo's script knows.

    A verdict is a :class:`~evaluators.judgement.Judgement` with ``score`` (NaN where there is
    no gold answer), ``feedback``, ``subscores`` (``f1``, ``em`` and ``recall`` of the gold
    words, or ``abstention``; ``evidence``: the share of the passages found), ``kind``
    (``"match"``, ``"partial"``, ``"different"``, ``"no answer"``, ``"abstained"``,
    ``"rightly abstained"``, ``"hedged"``, ``"should abstain"`` or ``"not judged"``),
    ``informative`` (False for a hedge that also gives the tempting answer), ``compare`` and
    ``compare_version``.

    Args:
        compare: One of the scorings.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN.

    Raises:
        ValueError: An unknown scoring; when called, there is no ``answer`` to judge by.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.

    >>> import dspy
    >>> judge = MemoryAnswer()
    >>> judge(dspy.Example(answer="7 May 2023"), dspy.Prediction(answer="May 2023")).score
    0.8
    """

    scorings = SCORINGS

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        gold, given = label(example, "answer"), output(prediction, "answer")
        abstain = bool(getattr(example, "abstain", False))
        if reason := "" if abstain else _unusable(gold, getattr(example, "rubric", False)):
            raise EvaluationFailed(reason)
        got = answer_text(given) or ""
        found = evidence_found(example, prediction)
        if abstain:
            return self._abstention(got, str(gold or ""), example, found)
        return self._answer(got, gold, bool(getattr(example, "several", False)), found)

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        return self._verdict(math.nan, "not judged", feedback, {}, False)

    def _answer(self, got: str, gold: str, several: bool, found: Mapping[str, float]) -> Judgement:
        f1 = (parts_f1 if several else token_f1)(got, gold)
        match = exact_match(got, gold)
        scores = {"f1": f1, "em": float(match), "recall": word_recall(got, gold), **found}
        score = float(match) if self.compare == "exact" else f1
        if score >= 1.0:
            return self._verdict(1.0, "match", f"Correct: {gold}.", scores)
        kind, reason = _fault(got, f1)
        expected = f"Expected: {gold}, got: {shown(got) or 'no answer'}."
        return self._verdict(score, kind, _joined(expected, reason, _search(found)), scores)

    def _abstention(
        self, got: str, note: str, example: Any, found: Mapping[str, float]
    ) -> Judgement:
        said = abstains(got)
        if self.compare == "faithful":
            said = any(phrase in got.lower() for phrase in _OFFICIAL_PHRASES)
        scores = {"abstention": float(said), **found}
        if not said:
            why = f" ({note})" if note else ""
            feedback = (
                f"Expected: that the conversation does not say it{why}, got: "
                f"{shown(got) or 'no answer'}. Say 'Not mentioned' when it is not there."
            )
            return self._verdict(0.0, "should abstain", feedback, scores)
        tempting = str(getattr(example, "adversarial_answer", "") or "")
        if words(tempting) and word_recall(got, tempting) == 1.0:
            feedback = (
                "Counts as an abstention, but proves nothing: the answer also gives what the "
                "question tempts to say."
            )
            return self._verdict(1.0, "hedged", feedback, scores, False)
        feedback = "Correct: the conversation does not say it."
        return self._verdict(1.0, "rightly abstained", feedback, scores)


def evidence_found(example: Any, prediction: Any) -> dict[str, float]:
    """Return the share of the evidence that was retrieved, as ``{"evidence": share}``.

    Empty where the example names no evidence, or the prediction nothing that was retrieved.
    """
    wanted = _ids(getattr(example, "evidence", None))
    retrieved = getattr(prediction, "retrieved", None)
    if not wanted or retrieved is None:
        return {}
    there = set(_ids(retrieved))
    return {"evidence": sum(name in there for name in wanted) / len(wanted)}


def _unusable(gold: Any, rubric: bool) -> str:
    """Say why a gold answer cannot be compared with; ``""`` when it can."""
    if rubric:
        return "the gold answer is a rubric; it takes the judging model (compare='judge')."
    if not isinstance(gold, str) or not _plain_words(gold):
        return f"the gold answer must be a text that is not empty, got {gold!r}."
    return ""


def _ids(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, Iterable) else []


def _plain_words(text: str) -> set[str]:
    bare = text.replace(",", "").lower().translate(_NO_PUNCTUATION)
    return set(_SMALL_WORDS.sub(" ", bare).split())


def _fault(got: str, f1: float) -> tuple[str, str]:
    if not got.strip():
        return "no answer", ""
    if abstains(got):
        return "abstained", "The conversation does say it."
    if f1 > 0.0:
        return "partial", "Only some of the words agree: give what was asked, in its own words."
    return "different", ""


def _search(found: Mapping[str, float]) -> str:
    share = found.get("evidence")
    if share is None:
        return ""
    if share >= 1.0:
        return "The search had found all that holds the answer."
    if share <= 0.0:
        return "The search had found nothing of what holds the answer."
    return f"The search had found {share:.0%} of what holds the answer."


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
