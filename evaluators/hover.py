"""Claims judged by the evidence that was found for them and by the label they were given.

Source: Jiang et al., "HoVer: A Dataset for Many-Hop Fact Extraction And Claim Verification",
Findings of EMNLP 2020. Its label accuracy is ``"label"`` here; its HoVer score wants the label
and every document (there a sentence of each). The multi-hop programs that prompt optimizers are
compared on (LangProBe; GEPA, whose figures NLPG quotes) judge the retrieval alone: every
document of the evidence found, or not. That is ``"retrieval"``, the default.
"""

from __future__ import annotations

import math
import re
from typing import Any

from drpg_dspy.exceptions import EvaluationFailed
from evaluators._fields import label, output, shown
from evaluators.judgement import Judge, Judgement
from evaluators.multi_hop import retrieval_feedback, titles_found, titles_in

__all__ = ["LABELS", "SCORINGS", "ClaimVerdict", "label_of"]

SCORINGS = {"retrieval": "1", "label": "1", "hover": "1"}
"""The scorings with their versions, the default first."""

LABELS = ("SUPPORTED", "NOT_SUPPORTED")
"""What a claim can be."""

_AGAINST = re.compile(
    r"\b(?:NOT|NON|ISN T|WASN T)(?: \w+)? (?:SUPPORT(?:ED|S)?|TRUE)\b|\bUN ?SUPPORTED\b"
    r"|\bREFUTE[SD]?\b|\bFALSE\b|\bCONTRADICT(?:ED|S)?\b|\bNOT ENOUGH INFO(?:RMATION)?\b"
)
_FOR = re.compile(r"\bSUPPORT(?:ED|S)?\b|\bTRUE\b")


def label_of(value: Any) -> str | None:
    """Return the label that an answer gives; ``None`` where it gives none, or both.

    >>> label_of("supported."), label_of("Not supported"), label_of("REFUTES"), label_of(True)
    ('SUPPORTED', 'NOT_SUPPORTED', 'NOT_SUPPORTED', 'SUPPORTED')
    >>> label_of("SUPPORTED or NOT_SUPPORTED") is None, label_of("maybe") is None
    (True, True)
    """
    if isinstance(value, bool):
        return LABELS[0] if value else LABELS[1]
    if not isinstance(value, str):
        return None
    text = " ".join(re.findall(r"[A-Z]+", value.upper()))
    rest, against = _AGAINST.subn(" ", text)
    if bool(against) == bool(_FOR.search(rest)):
        return None
    return LABELS[1] if against else LABELS[0]


class ClaimVerdict(Judge):
    """Judge a claim's check: the titles retrieved and the label.

    A metric of five arguments. Examples have ``titles`` (or ``supporting_facts``) and
    ``label``; predictions ``titles`` (or ``retrieved``: titles or passages) and ``label``.

    ======================  ==================================================================
    scoring                 1 when
    ======================  ==================================================================
    ``"retrieval"``         every document of the evidence was retrieved
    ``"label"``             the label is right
    ``"hover"``             both
    ======================  ==================================================================

    A verdict is a :class:`~evaluators.judgement.Judgement` with ``score``, ``feedback`` (what
    was found, what was missed, which label was right), ``subscores`` (``recall``: the share of
    the documents, ``all_found``, ``label``, ``hover``), ``kind`` (``"right"``,
    ``"evidence missed"``, ``"wrong label"``, ``"no label"``, ``"both"`` or ``"not judged"``),
    ``compare`` and ``compare_version``. A claim without evidence or label (the test set) is not
    judged.

    Args:
        compare: One of the scorings.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN.

    Raises:
        ValueError: An unknown scoring; when called, a field is missing.
        EvaluationFailed: When called, with ``raises``: no verdict could be reached.
    """

    scorings = SCORINGS

    def _judged(self, example: Any, prediction: Any) -> Judgement:
        name = "titles" if getattr(example, "titles", None) is not None else "supporting_facts"
        wanted, gold = label(example, name), label(example, "label")
        given = _given(prediction, "label")
        retrieved = _given(prediction, "titles", "retrieved")
        if not titles_in(wanted) or gold not in LABELS:
            raise EvaluationFailed(
                f"the claim has no evidence or no label to judge by, got {gold!r}."
            )
        found, missing = titles_found(retrieved, wanted)
        got = label_of(given)
        scores = {
            "recall": len(found) / (len(found) + len(missing)),
            "all_found": float(not missing),
            "label": float(got == gold),
        }
        scores["hover"] = scores["all_found"] * scores["label"]
        said = got or f"no label ({shown(str(given), 60) or 'nothing'})"
        labelled = (
            f"The label {gold} was right." if got == gold else f"Expected {gold}, got {said}."
        )
        feedback = f"{retrieval_feedback(found, missing)} {labelled}"
        kind = _kind(bool(missing), got, gold)
        score = scores[{"retrieval": "all_found"}.get(self.compare, self.compare)]
        return self._verdict(score, kind, feedback, scores)

    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        return self._verdict(math.nan, "not judged", feedback, {}, False)


def _given(prediction: Any, name: str, other: str = "") -> Any:
    if other and getattr(prediction, name, None) is None:
        name = other if hasattr(prediction, other) else name
    return output(prediction, name) if hasattr(prediction, "toDict") else None


def _kind(missed: bool, got: str | None, gold: str) -> str:
    if got == gold:
        return "evidence missed" if missed else "right"
    if missed:
        return "both"
    return "no label" if got is None else "wrong label"
