from __future__ import annotations

import math
import pickle
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.judgement import Judgement
from evaluators.qa import ExactMatch, answer_text, exact_match, facts_match, token_f1

DEEP = "[" * 100_000


def judged(gold: Any, answer: Any, compare: str = "repaired", **fields: Any) -> Judgement:
    example = dspy.Example(answer=gold)
    return ExactMatch(compare)(example, dspy.Prediction(answer=answer, **fields))


# -- the official figures, worked out by hand from the published algorithm ----------------------


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "f1"),
    [
        ("Chief of Protocol", "chief of protocol", True, 1.0),
        ("The Beatles", "beatles", True, 1.0),
        ("an apple a day", "apple day", True, 1.0),
        ("theatre", "atre", False, 0.0),
        ("U.S.", "us", True, 1.0),
        ("Jonny\" Craig", "jonny craig", True, 1.0),
        ("rock-and-roll", "rockandroll", True, 1.0),
        ("the-end", "theend", True, 1.0),
        ("  two \t words\n", "two words", True, 1.0),
        ("two\u00a0words", "two words", True, 1.0),
        ("1969–1974", "1969-1974", False, 0.0),
        ("“quoted”", "quoted", False, 0.0),
        ("ÉCOLE", "école", True, 1.0),
        ("E\u0301cole", "École", False, 0.0),
        ("10,000", "10000", True, 1.0),
        ("3.5", "35", True, 1.0),
        ("3.0", "3", False, 0.0),
        ("", "Paris", False, 0.0),
        ("Paris", "", False, 0.0),
        ("", "", True, 0.0),
        ("the", "A", True, 0.0),
        ("...", "an", True, 0.0),
        ("yes", "Yes.", True, 1.0),
        ("yes", "no", False, 0.0),
        ("yes it is", "yes", False, 0.0),
        ("yes", "yes it is", False, 0.0),
        ("No Doubt", "no", False, 0.0),
        ("noanswer", "noanswer at all", False, 0.0),
        ("no", "No!", True, 1.0),
        ("yes sir", "yes madam", False, 0.5),
        ("Protocol", "Chief of Protocol", False, 0.5),
        ("of of of", "of course", False, 0.4),
        ("a b b c", "b b d", False, 2 * (2 / 3) * (2 / 3) / (4 / 3)),
        ("New York City", "York", False, 0.5),
    ],
)  # fmt: skip
def test_exact_match_and_f1_are_those_of_the_official_script(
    prediction: str, gold: str, em: bool, f1: float
) -> None:
    assert (exact_match(prediction, gold), token_f1(prediction, gold)) == (em, f1)
    assert exact_match(gold, prediction) is em
    assert token_f1(gold, prediction) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "f1"),
    [
        ([["A", 0], ["B", 1]], [["B", 1], ["A", 0]], True, 1.0),
        ([["A", 0], ["A", 0]], [["A", 0]], True, 1.0),
        ([["A", 0]], [["A", 0], ["B", 1]], False, 2 / 3),
        ([["A", 1]], [["A", 0]], False, 0.0),
        ([], [["A", 0]], False, 0.0),
        ([], [], True, 0.0),
        ('[["A", 0]]', [["A", 0]], True, 1.0),
        ({"title": ["A"], "sent_id": [0]}, [("A", 0)], True, 1.0),
        ("not JSON", [["A", 0]], False, 0.0),
        ([["A", 0], "A", None, ["A", []]], [["A", 0]], False, 0.4),
        ({"title": ["A", "B"], "sent_id": [0]}, [("A", 0)], False, 2 / 3),
        ({"title": None, "sent_id": [0]}, [("A", 0)], False, 0.0),
        (7, [["A", 0]], False, 0.0),
        (DEEP, [["A", 0]], False, 0.0),
    ],
)
def test_supporting_facts_are_scored_as_sets_and_rubbish_is_a_wrong_fact(
    prediction: Any, gold: Any, em: bool, f1: float
) -> None:
    match, figure = facts_match(prediction, gold)
    assert match is em
    assert figure == pytest.approx(f1)


def test_figures_beside_the_verdict_are_official_whatever_the_scoring() -> None:
    verdict = judged("A", "the")
    assert (verdict.score, verdict.subscores) == (0.0, {"em": 1.0, "f1": 0.0})
    example = dspy.Example(answer="Paris", supporting_facts=[["A", 0], ["B", 1]])
    verdict = ExactMatch()(example, dspy.Prediction(answer="Paris", supporting_facts=[["A", 0]]))
    two_thirds = pytest.approx(2 / 3)
    assert verdict.subscores == {
        "em": 1.0, "f1": 1.0, "sp_em": 0.0, "sp_f1": two_thirds,
        "joint_em": 0.0, "joint_f1": two_thirds,
    }  # fmt: skip


@pytest.mark.parametrize("answer", ["Paris", None])
def test_a_prediction_whose_facts_are_none_has_none_right(answer: str | None) -> None:
    example = dspy.Example(answer="Paris", supporting_facts=[["A", 0]])
    scores = ExactMatch()(example, dspy.Prediction(answer=answer, supporting_facts=None)).subscores
    facts = {name: figure for name, figure in scores.items() if "_" in name}
    assert facts == {"sp_em": 0.0, "sp_f1": 0.0, "joint_em": 0.0, "joint_f1": 0.0}
    asked = ExactMatch()(example, dspy.Prediction(answer=answer)).subscores
    assert set(asked) == {"em", "f1"}  # a program without facts is not scored on them


# -- what counts as the answer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Paris", "Paris"),
        ('{"answer": "Paris"}', "Paris"),
        ('```json\n{"answer": "Paris"}\n```', "Paris"),
        ('Sure: {"rationale": "{}", "answer": "Paris"}} bye', "Paris"),
        ('{"answer": "a } in it"}', "a } in it"),
        ('{"answer": "Paris"', '{"answer": "Paris"'),
        ('} {"answer": "Paris"}', "Paris"),
        ('{"answer": NaN}', '{"answer": NaN}'),
        ('{"reply": "Paris"}', '{"reply": "Paris"}'),
        ('{"answer": null}', ""),
        ('{"answer": ["Paris"]}', "Paris"),
        ('{"answer": true}', "yes"),
        ('{"a":' + DEEP, '{"a":' + DEEP),
        ({"answer": 7}, "7"),
        ({"other": 7}, '{"other": 7}'),
        (["Paris"], "Paris"),
        (("4", "4"), "4, 4"),
        ([], None),
        (None, None),
        (42, "42"),
        (3.0, "3"),
        (1200.5, "1200.5"),
        (False, "no"),
        ("Paris\n[[ ## completed ## ]]\n", "Paris\n"),
    ],
)
def test_every_kind_of_value_gives_one_answer(value: Any, text: str | None) -> None:
    assert answer_text(value) == text


@pytest.mark.parametrize("nothing", [None, "", "  ", [], '{"answer": ""}'])
def test_no_answer_is_wrong_and_said_so(nothing: Any) -> None:
    verdict = judged("Paris", nothing)
    assert (verdict.score, verdict.kind) == (0.0, "no answer")
    assert verdict.feedback == "Expected: Paris, got: no answer."


def test_an_answer_may_be_passed_without_a_prediction_around_it() -> None:
    assert ExactMatch()(dspy.Example(answer="Paris"), "paris").score == 1.0
    assert ExactMatch()({"answer": "7"}, 7).score == 1.0


def test_a_missing_field_names_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"example has no 'answer'.*it has: gold"):
        ExactMatch()(dspy.Example(gold="x"), "x")
    with pytest.raises(ValueError, match=r"prediction has no 'answer'.*it has: reply"):
        ExactMatch()(dspy.Example(answer="x"), dspy.Prediction(reply="x"))


# -- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer", "kind", "said"),
    [
        ("Paris", "Lyon", "different", "Expected: Paris, got: Lyon."),
        ("yes", "Yes, both are.", "too long", "Say yes and nothing else."),
        ("yes", "Both are.", "yes or no", "The question wants yes or no."),
        ("yes", "no", "different", "Expected: yes, got: no."),
        ("Paris", "yes", "yes or no", "does not want yes or no"),
        ("Paris", "in Paris, France", "too long", "shortest answer alone"),
        ("Chief of Protocol", "Protocol", "incomplete", "words are missing"),
        ("Chief of Protocol", "Chief Officer", "overlap", "Only some of the words agree."),
        ("3", "3.0", "notation", "The same number"),
        ("1200.5", "$1,200.50", "notation", "The same number"),
        ("Paris", "x" * 500, "different", "[…300 more characters]"),
    ],
)
def test_feedback_says_what_is_wrong_in_words(gold: str, answer: str, kind: str, said: str) -> None:
    verdict = judged(gold, answer)
    assert (verdict.score, verdict.kind, verdict.informative) == (0.0, kind, True)
    assert verdict.feedback.startswith(f"Expected: {gold}, got: ")
    assert said in verdict.feedback


@pytest.mark.parametrize(
    ("answer", "gold"), [("3.5", "35"), ("-5", "5"), ("1/2", "12"), (".5", "5"), ("2-1", "21")]
)
def test_numbers_that_only_look_alike_without_punctuation_match_but_teach_nothing(
    answer: str, gold: str
) -> None:
    for compare in ("repaired", "faithful"):
        verdict = judged(gold, answer, compare)
        assert (verdict.score, verdict.informative, verdict.kind) == (1.0, False, "collision")
        assert "not the same" in verdict.feedback


@pytest.mark.parametrize(
    ("answer", "gold"),
    [("10000", "10,000"), ("F-16", "F16"), ("1990's", "1990s"), ("$5", "5"), ("No.5", "No5"),
     ("June 4, 1989", "June 4 1989"), ("1,200.", "1200")],
)  # fmt: skip
def test_the_same_number_written_otherwise_is_a_plain_match(answer: str, gold: str) -> None:
    verdict = judged(gold, answer)
    assert (verdict.score, verdict.informative, verdict.kind) == (1.0, True, "match")


@pytest.mark.parametrize(
    ("gold", "answer", "repaired", "faithful"),
    [("A", "A", 1, 1), ("A", "a.", 1, 1), ("A", "B", 0, 0), ("A", "the", 0, 1), ("A", "", 0, 1),
     ("An", "", 0, 1), ("The Who", "who", 1, 1), ("?", "!", 0, 1)],
)  # fmt: skip
def test_a_gold_answer_that_is_an_article_is_not_met_by_nothing(
    gold: str, answer: str, repaired: float, faithful: float
) -> None:
    assert judged(gold, answer).score == repaired
    assert judged(gold, answer, "faithful").score == faithful
    if repaired != faithful:
        assert judged(gold, answer, "faithful").informative is False


@pytest.mark.parametrize(
    ("gold", "answer", "score"),
    [(["4"], ["4", "4"], 0), (["4", "4"], ["4"], 0), (["4", "7"], ["7", "4"], 1),
     (["4", "7"], "4", 0), (["4"], "4", 1), (["4", "7"], [None, "7"], 0)],
)  # fmt: skip
def test_an_answer_of_several_parts_is_compared_as_a_multiset(
    gold: list[str], answer: Any, score: float
) -> None:
    assert judged(gold, answer).score == score


@pytest.mark.parametrize("gold", ["", "  ", None, 7, [], ["x", ""]])
def test_a_gold_answer_that_is_no_text_judges_nothing(gold: Any) -> None:
    verdict = judged(gold, "")
    assert math.isnan(verdict.score)
    assert (verdict.kind, verdict.informative, bool(verdict)) == ("not judged", False, False)
    with pytest.raises(EvaluationFailed, match="gold answer"):
        ExactMatch(raises=True)(dspy.Example(answer=gold), "")


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('Here: {"answer": "Paris"} {', 1.0),
        ('{"answer": "Paris"', 0.0),
        ('{"answer": "Paris } Ile"}', 0.0),
        ('{"reply": "Paris"}', 0.0),
        ("Paris", 1.0),
        ('Paris } {"answer": "Paris"}', math.nan),
        ('{"answer": ["Paris"]}', math.nan),
    ],
)
def test_the_faithful_scoring_reads_and_fails_where_the_released_code_does(
    answer: str, score: float
) -> None:
    assert judged("Paris", answer, "faithful").score == pytest.approx(score, nan_ok=True)


def test_swapping_doubling_and_emptying_an_answer_moves_the_score() -> None:
    golds = ["Chief of Protocol", "no", "9,984", "1969 until 1974", "The A41"]
    for gold, other in zip(golds, golds[1:] + golds[:1], strict=True):
        assert judged(gold, gold).score == 1.0
        for broken in (other, f"{gold} {gold}", "", gold[:-1]):
            assert judged(gold, broken).score == 0.0


@pytest.mark.parametrize("text", ["\ud800", "\x00", "{" * 5000, "}" * 5000, "🙂", "a" * 100_000])
def test_no_text_breaks_the_judge(text: str) -> None:
    for compare in ("repaired", "faithful"):
        assert not judged("Paris", text, compare)


def test_the_judge_says_which_scoring_it_is_and_survives_pickling() -> None:
    judge = pickle.loads(pickle.dumps(ExactMatch("faithful")))
    verdict = judge(dspy.Example(answer="x"), dspy.Prediction(answer="x"), None, "p", None)
    assert (verdict.compare, verdict.compare_version) == ("faithful", "1")
    with pytest.raises(ValueError, match=r"repaired, faithful; got 'strict'"):
        ExactMatch("strict")
