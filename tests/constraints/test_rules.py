"""Each rule on answers that meet it and answers that do not."""

from __future__ import annotations

import pytest

from drpg_dspy.constraints import (
    CaseRule,
    EndRule,
    FormatRule,
    KeywordRule,
    LengthRule,
    NoCommasRule,
    StartRule,
)
from drpg_dspy.constraints.measures import count_paragraphs, count_sentences, count_words
from drpg_dspy.constraints.rules import Rule

TABLE = "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |"
LIST = "Here:\n- one\n- two"

CASES: list[tuple[Rule, str, bool]] = [
    (LengthRule("words", 2, 3), "One two three.", True),
    (LengthRule("words", 2, 3), "One.", False),
    (LengthRule("sentences", 2, 2), "Dr. Lee left at 3.30. Why?", True),
    (LengthRule("sentences", 2, 2), "One. Two. Three.", False),
    (LengthRule("paragraphs", 2, 2), "One.\n\nTwo.", True),
    (KeywordRule("Python", 2), "python and PYTHON", True),
    (KeywordRule("Python", 1), "Pythons", False),
    (KeywordRule("tea", 0, 0), "A steam engine.", True),
    (KeywordRule("tea", 0, 0), "Tea!", False),
    (KeywordRule("C++", 1), "Use C++.", True),
    (FormatRule("list"), LIST, True),
    (FormatRule("list"), "- one", False),
    (FormatRule("list", marks="number"), LIST, False),
    (FormatRule("list", "items", 0, 0), LIST, False),
    (FormatRule("json"), '```json\n{"a": 1}\n```', True),
    (FormatRule("json"), 'Here: {"a": 1}', False),
    (FormatRule("json"), '{"a": 1', False),
    (FormatRule("json", within=True), "Here:\n```\n[1]\n```\n", True),
    (FormatRule("json", most=0), "No braces.", True),
    (FormatRule("table"), TABLE, True),
    (FormatRule("table", "rows", 0, 1), TABLE, False),
    (FormatRule("table", "columns", 2, 2), TABLE, True),
    (FormatRule("table", most=0), TABLE, False),
    (FormatRule("table"), "a | b", False),
    (FormatRule("headings"), "# Title\ntext", True),
    (FormatRule("headings"), "text", False),
    (FormatRule("paragraphs"), "One.\n\nTwo.", True),
    (FormatRule("paragraphs"), LIST, False),
    (FormatRule("paragraphs"), TABLE, False),
    (FormatRule("paragraphs"), '{"a": 1}', False),
    (StartRule("Note"), "note: yes", True),
    (StartRule("Note"), '**"Note** this', True),
    (StartRule("Note"), "Notebooks", False),
    (StartRule("P", whole=False), "Paris", True),
    (EndRule("that is all"), "So that is all.", True),
    (EndRule("all"), "That is small", False),
    (EndRule("?"), 'Is it "so?"', True),
    (EndRule("."), "Yes!", False),
    (NoCommasRule(), "One and two", True),
    (NoCommasRule(), "One、two", False),
    (CaseRule(upper=False), "all 3 lower, ß", True),
    (CaseRule(upper=False), "Not all", False),
    (CaseRule(upper=True), "ALL 3", True),
    (CaseRule(upper=True), "123", False),
]


@pytest.mark.parametrize(("rule", "answer", "met"), CASES)
def test_a_rule_is_met_or_not(rule: Rule, answer: str, met: bool) -> None:
    check = rule.check(answer)

    assert check.satisfied is met
    assert check.detail


def test_a_violation_says_what_was_found_and_what_is_asked() -> None:
    assert LengthRule("words", 0, 2).check("a b c").detail == "3 words, at most 2 asked"
    assert StartRule("Note").check("Well, no").detail == "begins with 'Well, no', 'Note' asked"


def test_words_count_what_holds_a_letter_or_digit() -> None:
    assert count_words("- **Well** – known-to-all … 3.5") == 3


def test_sentences_end_at_marks_items_and_blank_lines() -> None:
    assert count_sentences("1. First item\n2. Second item") == 2
    assert count_sentences("One line\nthat goes on. Next") == 2
    assert count_sentences("e.g. this and that etc. and more.") == 1
    assert count_sentences("今日は。元気?") == 2


def test_headings_and_rulers_are_no_paragraphs() -> None:
    assert count_paragraphs("# A\n\ntext\n\n---\n\n**B**\n\nmore") == 2


@pytest.mark.parametrize(
    ("answer", "sentences"), [("a. " * 30_000, 1), ("Dr. " * 20_000, 1), ("Yes. " * 20_000, 20_000)]
)
def test_very_long_answers_are_counted_in_time(answer: str, sentences: int) -> None:
    assert count_sentences(answer) == sentences
