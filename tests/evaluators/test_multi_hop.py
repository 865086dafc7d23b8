from __future__ import annotations

import math
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.hover import SCORINGS, ClaimVerdict, label_of
from evaluators.multi_hop import MultiHopAnswer, retrieval_feedback, titles_found, titles_in
from evaluators.qa import ExactMatch

FACTS = [["Caf\u00e9 Society", 0], ["Café Society", 3], ["Woody Allen", 1]]


# -- titles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "titles"),
    [
        (["A", ["B", 2], ("C", 0), "D | text | more", "A"], ["A", "B", "C", "D"]),
        ("A | text", ["A"]),
        (None, []),
        (7, []),
        ({"A": 1}, []),
        ([None, 3, [], [4, 5], " ", " | text"], []),
        (["Kiss_and_Tell", "Kiss  and Tell"], ["Kiss and Tell"]),
    ],
)
def test_titles_are_read_from_whatever_names_documents(value: Any, titles: list[str]) -> None:
    assert titles_in(value) == titles


def test_titles_are_compared_in_one_unicode_form_and_otherwise_as_they_are() -> None:
    assert titles_found(["Cafe\u0301 Society"], FACTS) == (["Café Society"], ["Woody Allen"])
    assert titles_found(["café society"], FACTS[:1]) == ([], ["Café Society"])


def test_feedback_names_what_was_found_and_missed_and_stays_short() -> None:
    assert retrieval_feedback(["A", "B"], []) == (
        "The searches found all 2 documents needed (A; B)."
    )
    assert retrieval_feedback([], ["A"]) == "The searches found none of the 1 documents needed (A)."
    text = retrieval_feedback([str(i) for i in range(50)], ["x" * 500])
    assert "42 more" in text
    assert len(text) < 300


# -- answers ------------------------------------------------------------------------------------


def test_a_multi_hop_verdict_is_exact_match_with_recall_beside_it() -> None:
    example = dspy.Example(answer="New York", supporting_facts=FACTS)
    judge, plain = MultiHopAnswer(), ExactMatch()
    for answer in ("New York", "york", None, ""):
        prediction = dspy.Prediction(answer=answer, retrieved=["Woody Allen | He films."])
        verdict, exact = judge(example, prediction), plain(example, prediction)
        assert (verdict.score, verdict.kind) == (exact.score, exact.kind)
        assert verdict.subscores == {**exact.subscores, "recall": 0.5, "all_found": 0.0}
        missed = "missed 1 (Café Society)" in verdict.feedback
        assert missed is (verdict.score == 0.0)


def test_without_titles_or_facts_it_is_exact_match_alone() -> None:
    judge = MultiHopAnswer("faithful")
    for example, prediction in (
        (dspy.Example(answer="x", supporting_facts=FACTS), dspy.Prediction(answer="y")),
        (dspy.Example(answer="x"), dspy.Prediction(answer="y", retrieved=["A"])),
    ):
        assert judge(example, prediction).subscores == {"em": 0.0, "f1": 0.0}
    verdict = judge(dspy.Example(answer="", supporting_facts=FACTS), dspy.Prediction(answer="y"))
    assert math.isnan(verdict.score)


# -- claims -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("SUPPORTED", "SUPPORTED"),
        ("The claim is supported.", "SUPPORTED"),
        ("**Supports**", "SUPPORTED"),
        ("true", "SUPPORTED"),
        ("NOT_SUPPORTED", "NOT_SUPPORTED"),
        ("not-supported", "NOT_SUPPORTED"),
        ("It isn't supported", "NOT_SUPPORTED"),
        ("It is not fully supported", "NOT_SUPPORTED"),
        ("Unsupported", "NOT_SUPPORTED"),
        ("REFUTED", "NOT_SUPPORTED"),
        ("False", "NOT_SUPPORTED"),
        ("NOT ENOUGH INFO", "NOT_SUPPORTED"),
        (False, "NOT_SUPPORTED"),
        ("SUPPORTED / NOT_SUPPORTED", None),
        ("Supported, or refuted?", None),
        ("unclear", None),
        ("", None),
        (None, None),
        (3, None),
    ],
)
def test_labels_are_read_from_what_models_write(text: Any, label: str | None) -> None:
    assert label_of(text) == label


CLAIM = dspy.Example(claim="…", label="SUPPORTED", titles=["A", "B"])


@pytest.mark.parametrize(
    ("titles", "label", "scores", "kind"),
    [
        (["B", "C", "A"], "supported", (1.0, 1.0, 1.0), "right"),
        (["A", "B"], "NOT_SUPPORTED", (1.0, 0.0, 0.0), "wrong label"),
        (["A", "B"], "hm", (1.0, 0.0, 0.0), "no label"),
        (["A"], "SUPPORTED", (0.0, 1.0, 0.0), "evidence missed"),
        ([], None, (0.0, 0.0, 0.0), "both"),
        (None, None, (0.0, 0.0, 0.0), "both"),
    ],
)
def test_a_claim_is_judged_by_evidence_by_label_and_by_both(
    titles: Any, label: Any, scores: tuple[float, ...], kind: str
) -> None:
    prediction = dspy.Prediction(titles=titles, label=label)
    for compare, score in zip(SCORINGS, scores, strict=True):
        verdict = ClaimVerdict(compare)(CLAIM, prediction)
        assert (verdict.score, verdict.kind, verdict.compare) == (score, kind, compare)
        assert bool(verdict) is (score == 1.0)
        found = [verdict.subscores[name] for name in ("all_found", "label", "hover")]
        assert tuple(found) == scores
    assert verdict.subscores["recall"] == len(set(titles or ()) & {"A", "B"}) / 2
    assert "B" in verdict.feedback
    assert "SUPPORTED" in verdict.feedback


def test_passages_stand_for_titles_and_facts_for_evidence() -> None:
    example = dspy.Example(label="NOT_SUPPORTED", supporting_facts=[["A", 0], ["A", 4]])
    prediction = dspy.Prediction(label="refuted", retrieved=["A | text", "B | text"])
    assert ClaimVerdict("hover")(example, prediction).score == 1.0


def test_a_claim_without_label_or_evidence_is_not_judged() -> None:
    for example in (dspy.Example(titles=["A"], label=None), dspy.Example(titles=[], label="X")):
        verdict = ClaimVerdict()(example, dspy.Prediction(titles=["A"], label="SUPPORTED"))
        assert math.isnan(verdict.score)
        assert (verdict.kind, verdict.informative) == ("not judged", False)
        with pytest.raises(EvaluationFailed, match="no evidence or no label"):
            ClaimVerdict(raises=True)(example, dspy.Prediction(titles=[], label=""))


def test_wrong_uses_are_named() -> None:
    with pytest.raises(ValueError, match="retrieval, label, hover; got 'f1'"):
        ClaimVerdict("f1")
    with pytest.raises(ValueError, match="prediction has no 'label'"):
        ClaimVerdict()(CLAIM, dspy.Prediction(titles=["A"]))
    with pytest.raises(ValueError, match="prediction has no 'titles'"):
        ClaimVerdict()(CLAIM, dspy.Prediction(label="SUPPORTED"))


def test_the_judges_serve_dspys_evaluate() -> None:
    def program(claim: str) -> dspy.Prediction:
        return dspy.Prediction(titles=["A", "B"], label="SUPPORTED")

    devset = [CLAIM.with_inputs("claim"), CLAIM.copy(titles=["Z"]).with_inputs("claim")]
    evaluate = dspy.Evaluate(devset=devset, metric=ClaimVerdict(), num_threads=1)
    assert evaluate(program).score == 50.0
