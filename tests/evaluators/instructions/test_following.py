from __future__ import annotations

import random
import re
from string import ascii_lowercase
from typing import Any

import pytest

from evaluators.instructions import check_instructions, find, known, variants, verdicts
from evaluators.instructions.registry import instruction

NO_COMMA = "punctuation:no_comma"


def both(id: str, response: str, **arguments: Any) -> tuple[bool, bool]:
    found = verdicts([id], [arguments], "prompt", response)
    return found.strict[0], found.loose[0]


@pytest.mark.parametrize("response", ["", " ", "\n\n", "\u3000\t"])
@pytest.mark.parametrize("id", [NO_COMMA, "format:sub-bullets", "format:no_whitespace"])
def test_an_empty_response_follows_nothing(id: str, response: str) -> None:
    found = verdicts([id], [{}], "prompt", response)
    assert (found.strict, found.loose) == ((False,), (False,))
    assert found.problems[0].endswith("found an empty response")


def test_the_loose_form_forgives_an_opening_and_a_closing_line() -> None:
    assert both(NO_COMMA, "Sure, gladly:\nNo comma here.") == (False, True)
    assert both(NO_COMMA, "No comma here.\nHope it helps, friend.") == (False, True)
    assert both(NO_COMMA, "Sure, gladly:\nNo comma.\nHope it helps, friend.") == (False, True)
    assert both(NO_COMMA, "Sure, gladly:\nA comma, here.\nWell, bye.") == (False, False)


def test_the_loose_form_forgives_asterisks() -> None:
    quotation = "startend:quotation"
    assert both(quotation, '**"Quoted."**') == (False, True)
    assert both(quotation, 'Here:\n*"Quoted."*\nBye') == (False, True)


def test_what_is_left_of_a_shortened_response_is_trimmed() -> None:
    assert both("format:no_whitespace", "Sure thing:\n  word  ") == (False, True)


def test_a_variant_that_is_empty_does_not_count() -> None:
    # Without its only line nothing is left, and nothing has no comma.
    assert both(NO_COMMA, "one, two") == (False, False)
    assert both(NO_COMMA, "one,\n***") == (False, True)
    assert both("format:newline", "two words\n***") == (False, True)
    assert list(variants("***")) == ["***"]


def test_variants_are_the_eight_forms_each_once() -> None:
    assert list(variants("a*\nb*\nc*")) == [
        "a*\nb*\nc*", "a\nb\nc", "b*\nc*", "b\nc", "a*\nb*", "a\nb", "b*", "b",
    ]  # fmt: skip


def test_strict_implies_loose_whatever_the_text_is() -> None:
    rng = random.Random(7)
    parts = ["* a", "- b", "One, two.", "", "WHY?!", '"x"', "<i>t</i>", "14", "é", "😀", "((("]
    plain = [id for id in known() if not find(id).kinds]
    for _ in range(60):
        response = "\n".join(rng.choices(parts, k=rng.randint(1, 6)))
        found = verdicts(plain, [{}] * len(plain), "prompt", response)
        assert all(loose for strict, loose in zip(found.strict, found.loose, strict=True) if strict)
        assert found == verdicts(plain, [None] * len(plain), "prompt", response)
        problems = zip(found.strict, found.problems, strict=True)
        assert all(bool(problem) is not strict for strict, problem in problems)


def test_problems_say_what_was_asked_for_and_what_was_found() -> None:
    found = verdicts(
        ["length_constraints:number_paragraphs", "keywords:existence"],
        [{"num_paragraphs": 3}, {"keywords": ["sea", "{brace}"]}],
        "prompt",
        "One.\n***\nThe sea.",
    )
    assert found.problems == (
        "asked for exactly 3 paragraphs set apart by ***, found 2",
        "asked for each of the keywords 'sea', '{brace}', found no '{brace}'",
    )
    assert not found.strict_all
    assert not found.loose_all


def test_odd_texts_are_judged_not_raised_upon() -> None:
    numbers = {"N": 2, "small_n": 2, "n": 1, "m": 1, "n_start": 0, "n_end": 1}
    words = {"word", "keyword", "sep", "options", *(f"keyword{n}" for n in range(1, 6))}
    texts = {"first_word", "end_phrase", "language", "postscript_marker", "section_spliter"}
    odd = ["\x00", "\ud800", "\r\r", "'", '"', ".", "?", "*", "[", "0", "\ufeff", "a\x00,b\n" * 3]
    for id in known():
        takes = find(id).kinds
        arguments: dict[str, Any] = {name: "(" for name in takes if name in words | texts}
        for name in takes:
            if name.startswith("num_") or name in ("frequency", "percentage", "nth_paragraph"):
                arguments[name] = 1
            if name.endswith(("_words", "_frequency")) or name in numbers:
                arguments[name] = 1
            if name.endswith("relation"):
                arguments[name] = "at least"
        if "letter" in takes:
            arguments["letter"] = "x"
        for name in {"keywords", "forbidden_words"} & takes.keys():
            arguments[name] = ["(", "b"]
        for response in odd:
            verdicts([id], [arguments], "prompt", response)


@pytest.mark.parametrize(
    ("id", "arguments", "message"),
    [
        ("no:such", {}, "Instruction 1: There is no instruction 'no:such'; see"),
        ("count:numbr", {}, "its family has: count:conjunctions"),
        (None, {}, "There is no instruction None"),
        ("count:numbers", {}, "Instruction 1: count:numbers lacks the argument 'N'."),
        ("count:numbers", {"N": None}, "lacks the argument 'N'"),
        ("count:numbers", {"N": 1.5}, "count:numbers: N must be a whole number of at least 0, got"),
        ("count:numbers", {"N": True}, "got True"),
        ("count:numbers", {"N": float("inf")}, "whole number"),
        ("count:numbers", {"N": -1}, "whole number"),
        ("count:numbers", {"N": "3"}, "got '3'"),
        ("count:numbers", {"N": 1, "M": 2}, "has no argument 'M'; its arguments: N."),
        (NO_COMMA, {"N": 1}, "its arguments: none"),
        ("ratio:stop_words", {"percentage": 101}, "percentage must be a number from 0 to 100"),
        ("sentence:keyword", {"word": " ", "N": 1}, "word must be a text that is not empty"),
        ("keywords:existence", {"keywords": "cat"}, "keywords must be a list of texts"),
        ("keywords:existence", {"keywords": []}, "keywords must be a list of texts"),
        ("keywords:letter_frequency",
         {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "a single character"),
        ("keywords:letter_frequency",
         {"letter": "a", "let_frequency": 1, "let_relation": "more than"},
         "let_relation must be 'at least' or 'less than', got 'more than'"),
        (NO_COMMA, "x", "Instruction 1: punctuation:no_comma: expected arguments, got 'x'"),
    ],
)  # fmt: skip
def test_unknown_ids_and_malformed_arguments_are_named(
    id: Any, arguments: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        verdicts([id], [arguments], "prompt", "response")


def test_lists_of_different_lengths_and_no_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="got 1 for 2"):
        check_instructions([NO_COMMA, NO_COMMA], [{}], "prompt")
    with pytest.raises(ValueError, match="instruction_ids must be a list"):
        check_instructions(NO_COMMA, [{}], "prompt")
    with pytest.raises(ValueError, match="kwargs must be a list"):
        check_instructions([NO_COMMA], None, "prompt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be a text, got int"):
        verdicts([NO_COMMA], [{}], "prompt", 3)  # type: ignore[arg-type]


def test_an_id_is_entered_once() -> None:
    with pytest.raises(ValueError, match="entered twice"):
        instruction(NO_COMMA, "no comma")(find(NO_COMMA).check)


SPAN = {"prompt_to_repeat": "one two three four five six seven", "n_start": 3, "n_end": 6}
STORY = " ".join(f"{letter}o." for letter in ascii_lowercase)
ART = {"keyword": "art", "frequency": 1, "relation": "at least"}
# As the published checks judged it in 2025, and as the prompt's words say.
DESCRIBED: list[tuple[str, dict[str, Any], str, bool, bool]] = [
    ("keywords:frequency", ART, "We start a smart party.", True, False),
    ("keywords:frequency", ART | {"keyword": "c++", "frequency": 2}, "C++, c++!", True, True),
    ("keywords:existence", {"keywords": ["été"]}, "E\u0301te\u0301", False, True),
    ("keywords:existence", {"keywords": ["art"]}, "Start", True, False),
    ("ratio:sentence_type", {}, "Hooray! Splendid!", True, False),
    ("words:words_position", {"keyword": "so"}, "Now, so it is so now.", False, True),
    ("words:words_position", {"keyword": "so"}, "Is so and so.", True, False),
    (
        "words:keywords_specific_position", {"keyword": "so", "n": 1, "m": 2}, "“Yes, So.”",
        False, True,
    ),
    ("custom:sentence_alphabet", {}, STORY, True, True),
    ("custom:sentence_alphabet", {}, f"“{STORY}", False, True),
    ("format:line_indent", {}, "a\n\n\n b\n  c", False, True),
    ("format:line_indent", {}, "a\n\n b\n  c", True, True),
    ("repeat:repeat_span", SPAN, "three four five six", False, True),
    ("repeat:repeat_span", SPAN, "four five six", True, False),
    ("detectable_format:json_format", {}, '```json\n{"a":1}\n```', True, True),
    ("detectable_format:json_format", {}, '````json\n{"tip":"use ``` here"}\n````', False, True),
    ("detectable_format:json_format", {}, '{"a": NaN}', True, False),
    ("detectable_format:json_format", {}, '{"a":1} trailing words', False, False),
    ("detectable_format:json_format", {}, "```json\n{a:1}\n```", False, False),
]  # fmt: skip


@pytest.mark.parametrize(("id", "arguments", "response", "published", "described"), DESCRIBED)
def test_where_the_wording_means_something_else_it_can_be_followed(
    id: str, arguments: dict[str, Any], response: str, published: bool, described: bool
) -> None:
    asked = ([id], [arguments], "the prompt", response)
    assert verdicts(*asked).strict == (published,)
    assert verdicts(*asked, reading="described").strict == (described,)


def test_each_check_that_can_follow_the_wording_has_a_case() -> None:
    assert {id for id, *_ in DESCRIBED} == {id for id in known() if find(id).described}


def test_an_unknown_reading_is_named() -> None:
    with pytest.raises(ValueError, match="one of 2025, 2026, described; got 'odd'"):
        verdicts([NO_COMMA], [{}], "prompt", "response", reading="odd")
