from __future__ import annotations

import math
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators import memory_qa
from evaluators.memory_qa import MemoryAnswer, abstains, exact_match, parts_f1, token_f1
from evaluators.stemming import stem

# Figures of the authors' formulas (snap-research/locomo, task_eval/evaluation.py), computed once
# apart from this code with the stemmer of NLTK 3.10.4.
OFFICIAL_F1 = [
    ("7 May 2023", "May 7, 2023", 1.0),
    ("She went to a support group", "LGBTQ support group", 0.5),
    ("running and painting", "paints, runs", 1.0),
    ("the a an and", "the", 0.0),
    ("", "x", 0.0),
    ("Self-care is important", "selfcare is important", 1.0),
    ("1,000 dollars", "1000", 2 / 3),
    ("two two cats", "two cat", 0.8),
    ("Psychology, counseling certification", "Psychology, counseling certification", 1.0),
    ("national park camping", "nationality parks", 0.8),
]
OFFICIAL_PARTS = [
    ("pottery, camping", "pottery, camping, painting, swimming", 0.5),
    ("She likes pottery", "pottery", 0.5),
    ("beach, mountains, forest", "beach, mountain, forest", 1.0),
    ("Paris, France", "Paris", 1.0),
    ("beach", "beach, ", 0.5),
]


@pytest.mark.parametrize(("prediction", "gold", "figure"), OFFICIAL_F1)
def test_token_f1_is_the_authors(prediction: str, gold: str, figure: float) -> None:
    assert token_f1(prediction, gold) == pytest.approx(figure, abs=1e-12)


@pytest.mark.parametrize(("prediction", "gold", "figure"), OFFICIAL_PARTS)
def test_answers_of_several_parts_are_compared_as_the_authors_do(
    prediction: str, gold: str, figure: float
) -> None:
    assert parts_f1(prediction, gold) == pytest.approx(figure, abs=1e-12)


@pytest.mark.parametrize(
    ("prediction", "gold", "same"),
    [
        ("May 7, 2023", "7 May 2023", True),
        ("The dog", "dog", True),
        ("dogs", "dog", False),
        ("dog dog", "dog", True),
        ("", "the", True),
    ],
)
def test_exact_match_compares_sets_of_words(prediction: str, gold: str, same: bool) -> None:
    assert exact_match(prediction, gold) is same


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("ponies", "poni"), ("ties", "tie"), ("cats", "cat"), ("feed", "feed"),
        ("agreed", "agre"), ("plastered", "plaster"), ("sing", "sing"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("died", "die"), ("spied", "spi"),
        ("enjoy", "enjoy"), ("sky", "sky"), ("conditional", "condit"), ("radically", "radic"),
        ("geology", "geolog"), ("formalize", "formal"), ("hopefulness", "hope"),
        ("adjustment", "adjust"), ("adoption", "adopt"), ("controlling", "control"),
        ("rate", "rate"), ("cease", "ceas"), ("as", "as"), ("innings", "inning"),
        ("2023", "2023"), ("naïveté", "naïveté"), ("", ""),
    ],
)  # fmt: skip
def test_stems_are_those_of_nltks_porter_stemmer(word: str, root: str) -> None:
    assert stem(word) == root


@pytest.mark.parametrize(
    "text",
    [
        "Not mentioned",
        "No information available.",
        "Not mentioned in the conversation",
        "I don\u2019t know.",
        "The user did not mention that.",
        "This was never discussed",
        "It cannot be determined from the memories.",
        "There is no record of a trip to Korea",
        "unknown",
        "N/A",
        "Insufficient information",
        "I'm not sure",
        "You mentioned your cat but you haven't said; it is not specified",
        "There isn't enough: not enough context",
    ],
)
def test_an_answer_that_says_it_is_not_known_abstains(text: str) -> None:
    assert abstains(text)


@pytest.mark.parametrize(
    "text",
    ["No", "no", "7 May", "She never eats meat", "A note", "nothing but pizza", "Not yet", ""],
)
def test_an_answer_that_says_something_does_not(text: str) -> None:
    assert not abstains(text)


# -- the judge ----------------------------------------------------------------------------------


def judged(
    compare: str = "f1", answer: Any = "x", retrieved: Any = None, evidence: Any = None
) -> Any:
    extra = {} if retrieved is None else {"retrieved": retrieved}
    labels = {} if evidence is None else {"evidence": evidence}
    example = dspy.Example(answer="7 May 2023", **labels)
    return MemoryAnswer(compare)(example, dspy.Prediction(answer=answer, **extra))


def test_an_answer_is_scored_by_its_words() -> None:
    assert judged(answer="May 7, 2023").score == 1.0
    assert judged(answer="on 7 May").score == pytest.approx(2 / 3)
    assert judged("exact", answer="on 7 May").score == 0.0
    assert judged("exact", answer="2023, 7 May").score == 1.0


def test_a_gold_answer_with_several_parts_is_met_part_by_part() -> None:
    example = dspy.Example(answer="skiing, chess", several=True)
    assert MemoryAnswer()(example, dspy.Prediction(answer="chess, ski, tea")).score == 1.0
    example = dspy.Example(answer="skiing, chess", several=False)
    assert MemoryAnswer()(example, dspy.Prediction(answer="chess, ski, tea")).score == 0.8


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ("7 May 2023", "match", "Correct: 7 May 2023."),
        ("in May", "partial", "Only some of the words agree"),
        ("Tuesday", "different", "Expected: 7 May 2023, got: Tuesday."),
        ("Not mentioned", "abstained", "The conversation does say it."),
        ("", "no answer", "got: no answer"),
        (None, "no answer", "got: no answer"),
        (["7 May", "2023"], "match", "Correct"),
    ],
)
def test_feedback_says_what_is_wrong(answer: Any, kind: str, said: str) -> None:
    verdict = judged(answer=answer)
    assert verdict.kind == kind
    assert said in verdict.feedback


def test_where_the_answer_is_not_there_saying_so_is_right() -> None:
    gold = {"answer": "You did not mention it.", "abstain": True}
    judge = MemoryAnswer()
    right = judge(dspy.Example(**gold), dspy.Prediction(answer="I don't know"))
    assert (right.score, right.kind) == (1.0, "rightly abstained")
    assert right.subscores == {"abstention": 1.0}
    wrong = judge(dspy.Example(**gold), dspy.Prediction(answer="Luna"))
    assert (wrong.score, wrong.kind) == (0.0, "should abstain")
    assert "You did not mention it." in wrong.feedback
    empty = judge(dspy.Example(**gold), dspy.Prediction(answer=None))
    assert empty.score == 0.0


def test_the_faithful_scoring_knows_two_phrases_alone() -> None:
    example = dspy.Example(answer="", abstain=True)
    said = {"Not mentioned": 1.0, "no information available": 1.0, "I don't know": 0.0}
    for answer, score in said.items():
        verdict = MemoryAnswer("faithful")(example, dspy.Prediction(answer=answer))
        assert verdict.score == score
        assert MemoryAnswer("f1")(example, dspy.Prediction(answer=answer)).score == 1.0


def test_a_hedge_that_also_gives_the_tempting_answer_teaches_nothing() -> None:
    example = dspy.Example(answer="", abstain=True, adversarial_answer="self-care is important")
    hedge = "Not mentioned, but self-care is important."
    verdict = MemoryAnswer()(example, dspy.Prediction(answer=hedge))
    assert (verdict.score, verdict.informative, verdict.kind) == (1.0, False, "hedged")


def test_the_search_is_judged_beside_the_answer() -> None:
    evidence = ["D1:3", "D2:1"]
    for retrieved, share, said in (
        (["D1:3"], 0.5, "found 50%"),
        ([], 0.0, "nothing of what holds"),
        (["D2:1", "D1:3"], 1.0, "all that holds"),
    ):
        verdict = judged(answer="no idea", evidence=evidence, retrieved=retrieved)
        assert verdict.subscores["evidence"] == share
        assert said in verdict.feedback
    assert "evidence" not in judged(answer="no idea", evidence=evidence).subscores
    assert "evidence" not in judged(answer="no idea", evidence=[], retrieved=["D1:3"]).subscores


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"answer": ""}, "not empty, got ''"),
        ({"answer": None}, "got None"),
        ({"answer": "the, and"}, "not empty"),
        ({"answer": "Uses lemon", "rubric": True}, "rubric"),
    ],
)
def test_what_cannot_be_compared_is_not_judged(labels: dict[str, Any], said: str) -> None:
    example, prediction = dspy.Example(**labels), dspy.Prediction(answer="x")
    verdict = MemoryAnswer()(example, prediction)
    assert math.isnan(verdict.score)
    assert verdict.informative is False
    assert said in verdict.feedback
    with pytest.raises(EvaluationFailed, match=r"gold answer"):
        MemoryAnswer(raises=True)(example, prediction)


def test_wrong_uses_are_named_and_versions_given() -> None:
    with pytest.raises(ValueError, match="f1, exact, faithful; got 'bleu'"):
        MemoryAnswer("bleu")
    with pytest.raises(ValueError, match="example has no 'answer'"):
        MemoryAnswer()(dspy.Example(question="x"), dspy.Prediction(answer="x"))
    with pytest.raises(ValueError, match="prediction has no 'answer'"):
        MemoryAnswer()(dspy.Example(answer="x"), dspy.Prediction(reply="x"))
    for compare, version in memory_qa.SCORINGS.items():
        verdict = judged(compare, answer="x")
        assert (verdict.compare, verdict.compare_version) == (compare, version)
