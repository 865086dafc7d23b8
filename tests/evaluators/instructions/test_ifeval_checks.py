"""IFEval's checks, one by one: strict form, on texts that decide."""

from __future__ import annotations

from typing import Any

import pytest

from evaluators.instructions import find, known

EMAIL = "Dear all,\n\nbring [food] and [drinks].\n\nP.S. Come!"

CASES: list[tuple[str, dict[str, Any], str, bool]] = [
    ("keywords:existence", {"keywords": ["cat", "Dog"]}, "CATS and dogs", True),
    ("keywords:existence", {"keywords": ["cat", "dog"]}, "cats alone", False),
    ("keywords:existence", {"keywords": ["c++"]}, "I like C++ best", True),
    ("keywords:existence", {"keywords": ["élan"]}, "with ÉLAN", True),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"},
     "Warm wars", True),
    ("keywords:frequency", {"keyword": "war", "frequency": 3, "relation": "at least"},
     "war\nwar", False),
    ("keywords:frequency", {"keyword": " war ", "frequency": 1, "relation": "less than"},
     "peace", True),
    ("keywords:frequency", {"keyword": "war", "frequency": 1, "relation": "less than"},
     "Reward", False),
    ("keywords:forbidden_words", {"forbidden_words": ["die"]}, "diet and bodies", True),
    ("keywords:forbidden_words", {"forbidden_words": ["die"]}, "They DIE.", False),
    ("keywords:forbidden_words", {"forbidden_words": ["die"]}, "so-die-it", False),
    ("keywords:letter_frequency", {"letter": "C", "let_frequency": 3, "let_relation": "at least"},
     "Cacao, c", True),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
     "#one two", False),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 1, "let_relation": "less than"},
     "É à", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"},
     "Mr. Hill came. He saw.", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"},
     "One line\nand another", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"},
     "One. Two.", False),
    ("length_constraints:number_words", {"num_words": 4, "relation": "at least"},
     "it's two-fold", True),
    ("length_constraints:number_words", {"num_words": 4.0, "relation": "less than"},
     "it's two-fold", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\ntwo", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***\n1\n***\n2\n***", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n\ntwo", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\n\n***\ntwo", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 1}, "one", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 0}, "***", True),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Elm"}, "a\n\n\"elm\", b", True),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "elm"}, "a\n\nelms b", False),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "it"}, "It's a\n\nb", True),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "a"}, "a\n\nb\n\nc", False),
    # An empty part moves the places of those after it, but is not counted.
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"}, "a\n\n\n\nb", False),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "a"}, "a", False),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 2, "capital_relation": "at least"}, "I saw NASA.", True),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 2, "capital_relation": "less than"}, "WELL-KNOWN Nato", True),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 2, "capital_relation": "less than"}, "STOP! NOW.", False),
    ("change_case:english_capital", {}, "THIS IS A PLAIN ENGLISH SENTENCE, 100 % OF IT.", True),
    ("change_case:english_capital", {}, "THIS IS a PLAIN ENGLISH SENTENCE.", False),
    ("change_case:english_capital", {}, "DAS IST EIN GANZ GEWÖHNLICHER DEUTSCHER SATZ.", False),
    ("change_case:english_capital", {}, "123 !", False),
    ("change_case:english_lowercase", {}, "this is a plain english sentence, all of it.", True),
    ("change_case:english_lowercase", {}, "this is a plain English sentence, all of it.", False),
    ("change_case:english_lowercase", {}, "ceci est une phrase tout à fait française.", False),
    ("language:response_language", {"language": "hi"}, "यह एक साधारण हिंदी वाक्य है।", True),
    ("language:response_language", {"language": "hi"}, "This is no Hindi sentence at all.", False),
    ("language:response_language", {"language": "hi"}, "123 … 456", True),
    ("startend:end_checker", {"end_phrase": "That is all."}, 'So. THAT IS ALL."\n', True),
    ("startend:end_checker", {"end_phrase": "That is all."}, "That is all. Bye", False),
    ("startend:quotation", {}, ' "quoted"\n', True),
    ("startend:quotation", {}, '"', False),
    ("startend:quotation", {}, "“quoted”", False),
    ("punctuation:no_comma", {}, "no、comma；here", True),
    ("punctuation:no_comma", {}, "1,000", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, EMAIL, True),
    ("detectable_content:number_placeholders", {"num_placeholders": 3}, EMAIL, False),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[over\nlines]", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[[nested]]", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, EMAIL, True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "hi p. s. x", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "hi PS: x", False),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.P.S. x", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, EMAIL, False),
    ("detectable_content:postscript", {"postscript_marker": "Note:"}, "note: x", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n  - b\ntext - c", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n**b**\n1. c", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "**a**\n- b", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n\n* b", True),
    # A bare asterisk takes the next line along.
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*\n* a", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "• a", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* **b**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "**a** ** **", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a\nb*", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "* item\n* item",
     False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "***a***", True),
    ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2},
     "SECTION 1\na\nSECTION2 b", True),
    ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2},
     "SECTION 1\nSECTION two", False),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 1},
     "day 1", False),
    ("detectable_format:title", {}, "<<A title>>\ntext", True),
    ("detectable_format:title", {}, "<< >>", False),
    ("detectable_format:title", {}, "<<over\nlines>>", False),
    ("detectable_format:title", {}, "<one>", False),
    ("detectable_format:json_format", {}, '```json\n{"a": [1, 2]}\n```', True),
    ("detectable_format:json_format", {}, '"just a text"', True),
    ("detectable_format:json_format", {}, "```\n[1,]\n```", False),
    ("detectable_format:json_format", {}, 'Here: {"a": 1}', False),
    ("detectable_format:json_format", {}, "[" * 100_000, False),
    ("detectable_format:constrained_response", {}, "Well. My answer is maybe. So", True),
    ("detectable_format:constrained_response", {}, "My answer is Yes.", False),
    ("combination:two_responses", {}, "one\n******\ntwo", True),
    ("combination:two_responses", {}, "******one******two******", True),
    ("combination:two_responses", {}, "one ****** one", False),
    ("combination:two_responses", {}, "one", False),
    ("combination:two_responses", {}, "a******\n******b", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it. "}, "SAY IT.\n\nIt.", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, "Sure. Say it. It.", False),
]  # fmt: skip

IFEVAL = (
    "change_case", "combination", "detectable_content", "detectable_format", "keywords",
    "language", "length_constraints", "punctuation", "startend",
)  # fmt: skip


@pytest.mark.parametrize(("id", "arguments", "response", "followed"), CASES)
def test_a_response_is_judged_as_the_instruction_says(
    id: str, arguments: dict[str, Any], response: str, followed: bool
) -> None:
    instruction = find(id)
    finding = instruction.check(response, **instruction.arguments(arguments, "the prompt"))
    assert finding.followed is followed, finding
    assert followed or finding.found


def test_every_instruction_of_ifeval_has_a_case_of_each_kind() -> None:
    ids = {id for id in known() if id.startswith(IFEVAL)}
    assert len(ids) == 25
    assert {(id, followed) for id, _, _, followed in CASES} == {
        (id, followed) for id in ids for followed in (True, False)
    }


def test_a_request_that_is_not_among_the_arguments_is_the_prompt() -> None:
    instruction = find("combination:repeat_prompt")
    arguments = instruction.arguments({"prompt_to_repeat": None}, "Say it.")
    assert instruction.check("Say it. It.", **arguments).followed
