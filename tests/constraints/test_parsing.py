"""Constraints are read as people write them, and what cannot be read safely gives no rule."""

from __future__ import annotations

import pytest

from drpg_dspy.constraints import (
    JUDGED_TYPES,
    CaseRule,
    EndRule,
    FormatRule,
    KeywordRule,
    LengthRule,
    NoCommasRule,
    RuleCheck,
    StartRule,
    parse_rule,
)
from drpg_dspy.constraints.rules import Rule

W = "words"

LENGTHS: list[tuple[str, list[Rule]]] = [
    ("keep under 200 words", [LengthRule(W, 0, 199)]),
    ("Keep your reply below 1,500 words.", [LengthRule(W, 0, 1499)]),
    ("Use less than 50 words", [LengthRule(W, 0, 49)]),
    ("at most 150 words", [LengthRule(W, 0, 150)]),
    ("The answer must not exceed 10 sentences.", [LengthRule("sentences", 0, 10)]),
    ("Your answer must not be longer than 60 words", [LengthRule(W, 0, 60)]),
    ("Don't go over 60 words.", [LengthRule(W, 0, 60)]),
    ("no more than five paragraphs", [LengthRule("paragraphs", 0, 5)]),
    ("limited to 3 sentences", [LengthRule("sentences", 0, 3)]),
    ("Use 50 words or less.", [LengthRule(W, 0, 50)]),
    ("Length <= 3 sentences", [LengthRule("sentences", 0, 3)]),
    ("Write at least three sentences.", [LengthRule("sentences", 3, None)]),
    ("minimum of 500 words", [LengthRule(W, 500, None)]),
    ("more than 30 words", [LengthRule(W, 31, None)]),
    ("no fewer than twenty-five words", [LengthRule(W, 25, None)]),
    ("Do not go under 100 words", [LengthRule(W, 100, None)]),
    ("30+ words", [LengthRule(W, 30, None)]),
    ("exactly one hundred and fifty words", [LengthRule(W, 150, 150)]),
    ("Answer in a single paragraph.", [LengthRule("paragraphs", 1, 1)]),
    ("in about 100 words", [LengthRule(W, 90, 110)]),
    ("≈200 words", [LengthRule(W, 180, 220)]),
    ("about 3 sentences", [LengthRule("sentences", 2, 4)]),
    ("between 50 and 100 words", [LengthRule(W, 50, 100)]),
    ("50-100 words", [LengthRule(W, 50, 100)]),
    ("a 200-word reply", [LengthRule(W, 180, 220)]),
    ("in 12 words", [LengthRule(W, 12, 12)]),
    ("at least 50 but at most 90 words", [LengthRule(W, 50, None), LengthRule(W, 0, 90)]),
    (
        "one paragraph of at most 80 words",
        [LengthRule("paragraphs", 1, 1), LengthRule(W, 0, 80)],
    ),
    ("No lists, and keep it under 100 words", [LengthRule(W, 0, 99)]),
]
KEYWORDS: list[tuple[str, list[Rule]]] = [
    ("mention Python at least 3 times", [KeywordRule("Python", 3)]),
    ("Include the keyword 'football'.", [KeywordRule("football")]),
    ("Include the keyword budget.", [KeywordRule("budget")]),
    ("Include 'Fair Trade' and “the UN.”", [KeywordRule("Fair Trade"), KeywordRule("the UN")]),
    ('Use the word "growth" exactly twice.', [KeywordRule("growth", 2, 2)]),
    ("Mention the word team twice.", [KeywordRule("team", 2)]),
    ("Do not mention 'coffee'.", [KeywordRule("coffee", 0, 0)]),
    (
        "Avoid the words 'very' and 'really'.",
        [KeywordRule("very", 0, 0), KeywordRule("really", 0, 0)],
    ),
    ("Do not use the word 'very' more than twice.", [KeywordRule("very", 0, 2)]),
    ("Mention 'tea' but do not mention 'milk'", [KeywordRule("tea"), KeywordRule("milk", 0, 0)]),
    ("Include 'do not panic'.", [KeywordRule("do not panic")]),
]
FORMATS: list[tuple[str, list[Rule]]] = [
    ("Answer as a bulleted list.", [FormatRule("list", marks="bullet")]),
    ("a numbered list of exactly 5 items", [FormatRule("list", "items", 5, 5, "number")]),
    ("at most 4 bullet points", [FormatRule("list", "items", 1, 4, "bullet")]),
    ("Do not use bullet points.", [FormatRule("list", "items", 0, 0, "bullet")]),
    ("Give the answer as JSON.", [FormatRule("json")]),
    ("Include a JSON object.", [FormatRule("json", within=True)]),
    ("No JSON, please.", [FormatRule("json", most=0)]),
    ("a table with no more than 3 rows", [FormatRule("table", "rows", 0, 3)]),
    ("a table that does not exceed 5 rows", [FormatRule("table", "rows", 0, 5)]),
    ("Do not use tables.", [FormatRule("table", most=0)]),
    ("Use at least two headings.", [FormatRule("headings", "headings", 2)]),
    ("Write 3 sections with headings.", [FormatRule("headings", "headings", 3, 3)]),
    ("List exactly five reasons.", [FormatRule("list", "items", 5, 5)]),
    ("Use a list in under 100 words.", [FormatRule("list")]),
    (
        "Answer in three paragraphs.",
        [FormatRule("paragraphs"), LengthRule("paragraphs", 3, 3)],
    ),
    (
        "running paragraphs without any list",
        [FormatRule("paragraphs"), FormatRule("list", "items", 0, 0)],
    ),
]
EDGES: list[tuple[str, str, list[Rule]]] = [
    ("Start_With", "Start with 'Google'", [StartRule("Google")]),
    ("Start_With", "Begin your answer with the word Certainly.", [StartRule("Certainly")]),
    ("Start_With", 'The first word must be "To"', [StartRule("To")]),
    ("Start_With", "Start with the letter 'P'", [StartRule("P", whole=False)]),
    ("Start_With", 'Start with "Dear customer,"', [StartRule("Dear customer,")]),
    ("Start_With", 'Start with "In short," and be kind.', [StartRule("In short")]),
    ("End_With", "End with 'practices'", [EndRule("practices")]),
    ("End_With", "End with the letter z.", [EndRule("z", whole=False)]),
    ("End_With", 'End with "Thank you."', [EndRule("Thank you")]),
    ("End_With", "The answer must end with a period", [EndRule(".")]),
    ("End_With", "Finish with the phrase: that is all.", [EndRule("that is all")]),
    ("No_Commas", "Do not use any commas.", [NoCommasRule()]),
    ("No_Commas", "Write it comma-free.", [NoCommasRule()]),
    ("All_Lower", "Write in all lowercase letters.", [CaseRule(upper=False)]),
    ("All_Lower", "No capital letters.", [CaseRule(upper=False)]),
    ("All_Upper", "WRITE EVERYTHING IN CAPITAL LETTERS", [CaseRule(upper=True)]),
]
UNREADABLE = [
    ("Length", "Be brief."),
    ("Length", "Each explanation must be a single sentence."),
    ("Length", "Máximo 100 palabras."),
    ("Length", "200字以内で答えてください。"),
    ("Length", "Do not write at least 5 words."),
    ("Keyword", "Mention the main reasons."),
    ("Keyword", "Use 'tea' or 'coffee'."),
    ("Keyword", "Each item must include the keyword 'x'."),
    ("Format", "If a table is used, it must not exceed 3 rows."),
    ("Format", "Use a level 2 heading."),
    ("Format", "Make it pretty."),
    ("Start_With", "Start with a question."),
    ("Start_With", "Do not start with 'I'."),
    ("End_With", "Each sentence must end with a period."),
    ("No_Commas", "Use commas sparingly."),
    ("All_Lower", "Do not write in lowercase."),
    ("All_Upper", "Capitalize each word."),
    ("Keyword", 'Do not omit the word "tax".'),
    ("Keyword", 'Never forget "tax".'),
    ("Keyword", 'Include neither "cat" nor "dog".'),
    ("Keyword", 'Use the word "customer", not "client".'),
    ("Keyword", 'Include "cat" without "dog".'),
    ("Keyword", 'Say "dog" rather than "cat".'),
    ("Keyword", "Mention Berlin and Paris."),
    ("Keyword", 'Use "cat" twice and "dog" three times.'),
    ("Keyword", 'Use one of "red", "green", "blue".'),
    ("Keyword", "Don't mention Apple or Google."),
    ("Keyword", 'Say "zero" zero times.'),
    ("Length", "150 words at most."),
    ("Length", "Twenty words tops."),
    ("Length", "Under 50 words, and 3 sentences at most."),
    ("Length", "Keep the answer under 200 words, but at least 50."),
    ("Length", "under 1.000 words"),
    ("Length", "under 1 000 words"),
    ("Length", "under 2k words"),
    ("Length", "under 10^2 words"),
    ("Length", "Under 0 words."),
    ("Length", "No sentence longer than 20 words."),
    ("Length", "at most 3 sentences or 50 words"),
    ("Length", "Reduce by 20 words."),
    ("Length", "Double the usual 100 words."),
    ("Format", "JSON only, no explanation."),
    ("Format", "Use paragraphs rather than bullet points."),
    ("Format", "Use a list or a table."),
    ("Format", "Use headings and bullet points."),
    ("Format", "a comma-separated list"),
    ("Format", "Use HTML tables."),
    ("No_Commas", "No more than 3 commas."),
    ("No_Commas", "No more than three commas."),
    ("No_Commas", "No Oxford commas."),
    ("No_Commas", "No inverted commas."),
    ("No_Commas", "Do not forget commas."),
    ("All_Upper", "Start with a capital letter."),
    ("All_Upper", "At most five words in capital letters."),
    ("All_Upper", "Write names in capital letters."),
    ("All_Lower", "No more than 5 capital letters."),
    ("Start_With", "Start with Hello and be kind."),
    ("End_With", 'End with a sentence containing "hope".'),
    ("Length", "x" * 10_000),
    ("Length", "   "),
]


@pytest.mark.parametrize(("text", "rules"), LENGTHS, ids=[text for text, _ in LENGTHS])
def test_a_length_is_read_as_it_is_written(text: str, rules: list[Rule]) -> None:
    assert parse_rule("Length", text) == tuple(rules)


@pytest.mark.parametrize(("text", "rules"), KEYWORDS, ids=[text for text, _ in KEYWORDS])
def test_keywords_are_read_with_their_counts(text: str, rules: list[Rule]) -> None:
    assert parse_rule("Keyword", text) == tuple(rules)


@pytest.mark.parametrize(("text", "rules"), FORMATS, ids=[text for text, _ in FORMATS])
def test_a_format_is_read_with_what_it_limits(text: str, rules: list[Rule]) -> None:
    assert parse_rule("Format", text) == tuple(rules)


@pytest.mark.parametrize(("kind", "text", "rules"), EDGES, ids=[text for _, text, _ in EDGES])
def test_beginnings_ends_commas_and_case_are_read(kind: str, text: str, rules: list[Rule]) -> None:
    assert parse_rule(kind, text) == tuple(rules)


@pytest.mark.parametrize(("kind", "text"), UNREADABLE, ids=[text[:40] for _, text in UNREADABLE])
def test_a_text_that_cannot_be_read_safely_gives_no_rule_and_says_so(kind: str, text: str) -> None:
    check = RuleCheck().check(kind, text, "Some answer.")

    assert parse_rule(kind, text) == ()
    assert check.satisfied is None
    assert "no rule can be read" in check.detail


@pytest.mark.parametrize("kind", JUDGED_TYPES)
def test_judged_types_have_no_rule(kind: str) -> None:
    check = RuleCheck().check(kind, "At most 3 words.", "One.")

    assert (check.satisfied, check.detail) == (None, f"{kind} is not checked by rule")


def test_every_rule_of_a_text_must_hold_and_what_is_wrong_is_named() -> None:
    check = RuleCheck().check("Length", "2 paragraphs of at most 8 words", "One two.\n\nThree.")
    wrong = RuleCheck().check("Length", "2 paragraphs of at most 2 words", "One two three.")

    assert (check.satisfied, check.detail) == (True, "2 paragraphs; 3 words")
    assert wrong.detail == "1 paragraph, exactly 2 asked; 3 words, at most 2 asked"
    assert wrong.repairable


@pytest.mark.parametrize("answer", ["", "  \n"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [("Length", "under 5 words"), ("Keyword", "Do not say 'x'."), ("No_Commas", "no commas")],
)
def test_an_empty_answer_satisfies_nothing(kind: str, text: str, answer: str) -> None:
    assert RuleCheck().check(kind, text, answer).satisfied is False


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no constraint type 'Colour'.*Length, Keyword"):
        parse_rule("Colour", "Blue.")


@pytest.mark.parametrize(
    "text", ["'" * 1900, "a" + " " * 1900 + "b", "1" * 1900 + " words", "hundred " * 240 + "words"]
)
def test_texts_made_to_be_slow_are_read_at_once(text: str) -> None:
    for kind in ("Length", "Keyword", "Format", "Start_With", "End_With"):
        assert not [rule for rule in parse_rule(kind, text) if isinstance(rule, LengthRule)]


def test_a_text_with_very_many_quotes_gives_no_rule() -> None:
    assert parse_rule("Keyword", " ".join(f"'w{n}'" for n in range(21))) == ()
