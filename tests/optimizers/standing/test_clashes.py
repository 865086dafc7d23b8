from __future__ import annotations

import pytest

from drpg_dspy.constraints import Constraint, parse_rule
from drpg_dspy.optimizers.standing.clashes import first_clash
from drpg_dspy.optimizers.standing.conflicts import compare, opposed

UNDER_50 = ("Length", "Keep it under 50 words.")
JSON = ("Format", "Answer in JSON.")
LIST = ("Format", "Use a bulleted list with at least 5 items.")

CLASH = [
    (UNDER_50, ("Length", "Write at least 60 words.")),
    (("Length", "Write exactly 2 sentences."), ("Length", "Write at least 3 paragraphs.")),
    (("Length", "Use at most 4 words."), ("Start_With", "Start with 'To whom it may concern'.")),
    (("Length", "Keep it under 10 words."), ("Keyword", "Mention 'climate change' 5 times.")),
    (("Length", "Write exactly 3 sentences."), LIST),
    (("All_Upper", "Use all capital letters."), ("All_Lower", "Use only lowercase letters.")),
    (("No_Commas", "Use no commas."), ("End_With", "End with 'Yours, Anna'.")),
    (("No_Commas", "Use no commas."), ("Keyword", "Include the phrase 'red, green'.")),
    (("Keyword", "Do not mention 'tea'."), ("Keyword", "Mention 'green tea' at least twice.")),
    (("Keyword", "Never use the word 'sorry'."), ("Start_With", "Start with 'Sorry for that'.")),
    (JSON, LIST),
    (JSON, ("Start_With", "Start with 'Google'.")),
    (JSON, ("End_With", "End with 'Let me know'.")),
    (("Format", "Write in paragraphs of running text."), LIST),
    (("Start_With", "Start with 'Google'."), ("Start_With", "Start with 'Apple'.")),
    (("End_With", "End with 'Bye'."), ("End_With", "End with 'Thanks'.")),
]
FINE = [
    (UNDER_50, ("Length", "Write at least 3 sentences.")),
    (UNDER_50, ("Keyword", "Mention 'budget' at least twice.")),
    (("Length", "Write at least 3 sentences."), ("Length", "Use at most 200 words.")),
    (("All_Lower", "Use only lowercase letters."), ("Start_With", "Start with 'Google'.")),
    (("No_Commas", "Use no commas."), ("End_With", "End with 'Yours Anna'.")),
    (("Keyword", "Do not mention 'tea'."), ("Keyword", "Mention 'teams' at least once.")),
    (JSON, ("Start_With", "Start with '{'.")),
    (JSON, ("No_Commas", "Use no commas.")),
    (LIST, ("Start_With", "Start with 'Google'.")),
    (("Start_With", "Start with 'In short'."), ("Start_With", "Start with 'In short we say'.")),
]


def clash(one: tuple[str, str], other: tuple[str, str]) -> str:
    rules = parse_rule(*one), parse_rule(*other)
    assert all(rules), "both must state a rule, or nothing is tested"
    return first_clash(*rules)


@pytest.mark.parametrize(("one", "other"), CLASH)
def test_what_no_answer_can_satisfy_is_found_from_either_side(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert clash(one, other)
    assert clash(other, one)


@pytest.mark.parametrize(("one", "other"), FINE)
def test_what_some_answer_satisfies_is_no_clash(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert clash(one, other) == clash(other, one) == ""


def test_another_number_or_name_is_no_contradiction_across_types() -> None:
    police = Constraint("Safety", "Tell readers to call 911.")
    found = compare(Constraint("Helpfulness", "Tell readers to call 112."), [police])

    assert (found.conflicts, found.undecided) == ((), (police,))


def test_constraints_that_share_no_route_are_not_compared() -> None:
    one = Constraint("All_Upper", "Use all capital letters.", routes=("a",))
    other = Constraint("All_Lower", "Use only lowercase letters.", routes=("b",))

    assert compare(one, [other]).conflicts == ()
    assert compare(one, [Constraint(other.type, other.text)]).conflicts != ()


def test_what_no_rule_speaks_of_is_undecided_unless_it_is_the_plain_opposite() -> None:
    tone = Constraint("Tone", "Address the reader as a friend.")

    found = compare(Constraint("Style", "Never address the reader as a friend."), [tone])
    unknown = compare(Constraint("Style", "Write like a lawyer."), [tone])

    assert [conflict.constraint for conflict in found.conflicts] == [tone]
    assert (unknown.conflicts, unknown.undecided) == ((), (tone,))


@pytest.mark.parametrize(
    ("learned", "type", "text", "contradicts"),
    [
        ("Write at least 300 words.", "Length", "Keep it under 200 words.", True),
        ("Answer in one word.", "Length", "Write at least 5 words.", True),
        ("Always answer in uppercase letters.", "All_Lower", "Use lowercase only.", True),
        ("Start the answer with 'Sure'.", "Start_With", "Start with 'Google'.", True),
        ("Divide amounts by 100.", "Length", "Keep it under 50 words.", False),
        ("Count each order once.", "Keyword", "Mention 'order' at most twice.", False),
        ("Name the year first.", "Start_With", "Start with 'Google'.", False),
        ("Use LEFT JOIN for missing rows.", "No_Commas", "Use no commas.", False),
        ("Use commas in every list.", "No_Commas", "Write without any comma.", True),
        ("Separate the columns by commas.", "No_Commas", "Do not use any commas.", True),
        ("Ignore commas in the question's numbers.", "No_Commas", "Use no commas.", False),
        ("Do not use commas in numbers.", "No_Commas", "Use no commas.", False),
        ("Capitalize each name.", "All_Lower", "Use lowercase only.", True),
        ("Write names in lowercase.", "All_Upper", "Write everything in uppercase.", True),
        ("Name the state capital.", "All_Upper", "Write everything in uppercase.", False),
    ],
)
def test_a_learned_rule_is_read_as_whatever_type_it_speaks_of(
    learned: str, type: str, text: str, contradicts: bool
) -> None:
    assert (opposed(learned, [Constraint(type, text)]) is not None) == contradicts
