"""Which of the wanted documents a search found, and answers judged with that beside them.

A document is named by its title. Titles are compared in one Unicode form (NFC), blanks for
underscores; nothing else is changed, because Wikipedia's titles differ in case and brackets.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluators._fields import shown
from evaluators.judgement import Judgement
from evaluators.qa import ExactMatch

__all__ = ["MultiHopAnswer", "retrieval_feedback", "same_title", "titles_found", "titles_in"]

_NAMED = 8
"""Titles named in feedback."""


def same_title(title: str) -> str:
    """Return a title as titles are compared.

    >>> same_title("Kiss_and  Tell") == same_title("Kiss and Tell")
    True
    """
    return " ".join(unicodedata.normalize("NFC", title).replace("_", " ").split())


def titles_in(value: Any) -> list[str]:
    """Return the titles in what names documents, each once, in their order.

    Read are titles, pairs of a title and a sentence number (supporting facts), and passages
    ``Title | text``, in any sequence; what is no text names nothing.

    >>> titles_in([["Kiss", 0], ["Kiss", 1], "Moon | It is far.", 7])
    ['Kiss', 'Moon']
    """
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        return []
    names: dict[str, None] = {}
    for item in value:
        name = item[0] if isinstance(item, (list, tuple)) and item else item
        if isinstance(name, str) and (title := same_title(name.partition(" | ")[0])):
            names[title] = None
    return list(names)


def titles_found(retrieved: Any, wanted: Any) -> tuple[list[str], list[str]]:
    """Return the wanted titles that were retrieved, and those that were not.

    >>> titles_found(["Moon", "Sun"], [["Sun", 0], ["Mars", 2]])
    (['Sun'], ['Mars'])
    """
    seen = set(titles_in(retrieved))
    titles = titles_in(wanted)
    return [t for t in titles if t in seen], [t for t in titles if t not in seen]


def retrieval_feedback(found: Sequence[str], missing: Sequence[str]) -> str:
    """Say in one or two sentences which documents a search found and which it missed.

    >>> retrieval_feedback(["Sun"], ["Mars"])
    'Of the 2 documents needed, the searches found 1 (Sun) and missed 1 (Mars).'
    """
    total = len(found) + len(missing)
    if not missing:
        return f"The searches found all {total} documents needed ({_list(found)})."
    if not found:
        return f"The searches found none of the {total} documents needed ({_list(missing)})."
    return (
        f"Of the {total} documents needed, the searches found {len(found)} ({_list(found)}) and "
        f"missed {len(missing)} ({_list(missing)})."
    )


class MultiHopAnswer(ExactMatch):
    """Judge a short answer by exact match, and say what the searches behind it found.

    The verdict is :class:`evaluators.qa.ExactMatch`'s. Where the example has
    ``supporting_facts`` and the prediction ``retrieved`` (titles or passages), ``subscores``
    hold ``recall``, the share of the needed documents found, and ``all_found``; the feedback on
    a wrong answer ends with what was found and missed, so that a wrong query can be told from a
    wrong answer to the right paragraphs.

    Args:
        compare: ``"repaired"`` or ``"faithful"``.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN.

    >>> import dspy
    >>> example = dspy.Example(answer="Paris", supporting_facts=[["Louvre", 0], ["Seine", 1]])
    >>> verdict = MultiHopAnswer()(example, dspy.Prediction(answer="Lyon", retrieved=["Seine"]))
    >>> verdict.feedback
    'Expected: Paris, got: Lyon. Of the 2 documents needed, the searches found 1 (Seine) and
    missed 1 (Louvre).'
    """

    def __call__(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Judgement:
        """Judge one prediction; the last three arguments are for DSPy's optimizers."""
        verdict = super().__call__(example, prediction)
        wanted = getattr(example, "supporting_facts", None)
        retrieved = getattr(prediction, "retrieved", None)
        if not wanted or retrieved is None:
            return verdict
        found, missing = titles_found(retrieved, wanted)
        verdict.subscores = {
            **verdict.subscores,
            "recall": len(found) / (len(found) + len(missing)),
            "all_found": float(not missing),
        }
        if float(verdict) < 1.0:  # NaN is not: what could not be judged says why, and no more
            verdict.feedback = f"{verdict.feedback} {retrieval_feedback(found, missing)}"
        return verdict


def _list(titles: Sequence[str]) -> str:
    named = "; ".join(shown(title, 60) for title in titles[:_NAMED])
    more = len(titles) - _NAMED
    return f"{named}; {more} more" if more > 0 else named
