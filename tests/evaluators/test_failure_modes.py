"""Each detector fires on a hand-made example of its mode and is silent on a clean one."""

from __future__ import annotations

import pytest

from evaluators.failure_modes import (
    demonstration_noise,
    inert_growth,
    keyword_persists,
    prefix_contamination,
    refusal_cascade,
    specification_lock,
)

OLD, NEW = 'Start with the word "In".', 'Start with the word "To".'


@pytest.mark.parametrize(
    ("kind", "old", "new", "answer", "policy"),
    [
        ("Start_With", OLD, NEW, "In the year of the flood we moved.", ""),
        ("Length", "At least 6 words.", "Under 4 words.", "One two three four five six.", ""),
        ("Keyword", "Mention 'tea'.", "Mention 'milk'.", "Milk, please.", "- Always mention tea."),
        ("Length", "Under 40 words.", "Under 90 words.", "Short.", "- Stay under 40 words."),
        ("Length", "Under 40 words.", "Under 90 words.", "Short.", "- Use fewer than 40 words."),
        ("Tone", "Be formal.", "Be playful.", "Dear Sir or Madam.", "- Be formal."),
        ("Format", "Answer as a list.", "Answer as a table.", "No.", "Be kind. Answer as a list."),
        ("Start_With", OLD, NEW, "To us.", '- The reply must begin with "In".'),
        ("Keyword", "Mention 'tea'.", "Mention 'milk'.", "Milk.", "- Use the word tea often."),
    ],
)
def test_a_replaced_value_that_is_followed_or_demanded_is_found(
    kind: str, old: str, new: str, answer: str, policy: str
) -> None:
    found = specification_lock(kind, old, new, answer, policy)

    assert found is not None
    assert found.mode == "specification_lock"


@pytest.mark.parametrize(
    ("kind", "old", "new", "answer", "policy"),
    [
        ("Start_With", OLD, NEW, "To the sea we moved.", "- Begin with To."),
        ("Start_With", OLD, NEW, "We moved.", ""),  # violates both: no lock
        ("Length", "Under 40 words.", "Under 9 words.", "Short.", "- Stay under 9 words."),
        ("Keyword", "Mention 'tea'.", "Mention 'green tea'.", "Green tea.", "- Mention green tea."),
        ("Tone", "Be formal.", "Be playful.", "Dear Sir or Madam.", "- Be playful."),
        # The old value's words stand there, and ask for something else.
        ("Start_With", OLD, NEW, "To us.", "- Write in plain words and begin with To."),
        ("Keyword", "Mention 'tea'.", "Mention 'milk'.", "Milk.", "- Mention milk, not tea."),
        ("Keyword", "Mention 'tea'.", "Mention 'milk'.", "Milk.", "- Tea drinkers ask much."),
        ("Length", "Under 40 words.", "Under 90 words.", "So.", "- A table of 40 words is long."),
    ],
)
def test_an_edit_that_is_taken_up_is_no_lock(
    kind: str, old: str, new: str, answer: str, policy: str
) -> None:
    assert specification_lock(kind, old, new, answer, policy) is None


def test_a_refusal_is_found_and_an_answer_is_not() -> None:
    assert refusal_cascade("I'm sorry, but I can't satisfy conflicting constraints.") is not None
    assert refusal_cascade("The harbour opens at nine.") is None


DEMO = "Here are two classroom tools that help you: the bell, and the board."


def test_words_taken_over_from_a_demonstration_are_found() -> None:
    answer = "Here are two classroom tools that help you: Google Classroom and Schoology."
    found = demonstration_noise(answer, [DEMO], "Name tools.")

    assert found is not None
    assert found.detail == "copies 'here are two classroom tools that'"


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("Google Classroom is a tool for teachers and their pupils.", ""),
        ("two classroom tools that help you are these", "Two classroom tools that help you"),
        ("Here are two.", ""),
    ],
)
def test_words_that_were_asked_for_or_are_few_are_not_copied(answer: str, asked: str) -> None:
    assert demonstration_noise(answer, [DEMO], asked) is None


def test_an_opening_that_many_answers_share_is_found() -> None:
    answers = [f"Here is what you asked for: {n}." for n in range(4)] + ["No.", "Tea is hot."]
    found = prefix_contamination(answers, [NEW])

    assert found is not None
    assert found.detail == "4 of 6 answers begin with 'here is what'"


def test_an_opening_that_is_asked_for_is_no_contamination() -> None:
    asked = ['Start with the words "Here is what you need".']

    assert prefix_contamination([f"Here is what you need: {n}." for n in range(4)], asked) is None


@pytest.mark.parametrize("answers", [[], ["One two three."] * 2, ["a b c", "d e f", "g h i"]])
def test_few_or_different_openings_are_no_contamination(answers: list[str]) -> None:
    assert prefix_contamination(answers) is None


SAME = {f"p{n}": f"Answer {n}." for n in range(4)}
OTHER = {name: f"{text} And more." for name, text in SAME.items()}
GROWN = ["", "Be kind.", "Be kind. Be brief. Be clear."]


def test_growth_that_changes_no_answer_is_found() -> None:
    found = inert_growth(GROWN, SAME, SAME)

    assert found is not None
    assert "4 of 4 answers are as without it" in found.detail


@pytest.mark.parametrize(
    ("policies", "answers"),
    [(GROWN, OTHER), (["Be kind."] * 3, SAME), (["", ""], SAME), (GROWN, {})],
    ids=["other answers", "no growth", "no policy", "nothing in common"],
)
def test_growth_with_an_effect_or_none_at_all_is_not_inert(
    policies: list[str], answers: dict[str, str]
) -> None:
    assert inert_growth(policies, answers, SAME) is None


def test_a_deleted_keyword_that_is_still_there_is_found() -> None:
    asked = 'Mention the word "ethnographic".'

    assert keyword_persists(asked, "A recent ethnographic fieldwork project.") is not None
    assert keyword_persists(asked, "A recent fieldwork project.") is None
    assert keyword_persists("Do not mention 'tea'.", "Tea is hot.") is None  # it was forbidden
