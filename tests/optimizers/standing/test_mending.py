from __future__ import annotations

import pytest

from drpg_dspy.constraints import Constraint, parse_rule
from drpg_dspy.optimizers.standing.mending import mended
from drpg_dspy.optimizers.standing.repairing import Draft, mend

MENDABLE = {
    "All_Lower": "Write in lowercase only.",
    "All_Upper": "Write in all capital letters.",
    "No_Commas": "Use no commas.",
    "Start_With": "Start the answer with 'In short'.",
    "End_With": "End the answer with the words 'Let me know'.",
}
ANSWERS = [
    "It is far, I think.",
    "First, 1,000 crabs,\nthen none,",
    "über alles、そして",
    "  A line.  \n\n- one, two\n- three  ",
    "x",
]


def letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", MENDABLE)
def test_a_mend_satisfies_its_rule_and_keeps_the_words(kind: str, answer: str) -> None:
    (rule,) = parse_rule(kind, MENDABLE[kind])

    text = mended(answer, rule)

    assert rule.check(text).satisfied
    assert letters(answer) in letters(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Length", "Keep it under 3 words."),
        ("Keyword", "Mention 'sea' twice."),
        ("Format", "Use a bulleted list."),
        ("Start_With", "Begin with the letter P."),
    ],
)
def test_what_takes_a_writer_is_left_alone(kind: str, text: str) -> None:
    (rule,) = parse_rule(kind, text)

    assert mended("It is far from here.", rule) == "It is far from here."


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("No_Commas", '{"a": 1, "b": [1, 2]}'),
        ("No_Commas", "Er kostet 3,50 Euro."),
        ("No_Commas", "See https://x.org/a,b?c=1"),
        ("No_Commas", "name,age\nTom,5"),
        ("No_Commas", "SELECT a, b FROM t WHERE x IN (1, 2)"),
        ("No_Commas", "Call `f(a, b)`."),
        ("All_Lower", "`MyClass.Method()` is at https://Ex.com/PathX"),
        ("All_Upper", "~~~bash\necho $HOME\n~~~"),
        ("All_Lower", "<b>Bold</b>"),
        ("Start_With", "```python\nx=1\n```"),
        ("Start_With", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("Start_With", '{"a": 1}'),
        ("End_With", "So:\n```python\nx=1\n```"),
        ("End_With", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("End_With", '{"a": 1}'),
    ],
)
def test_what_a_machine_may_read_stays_as_it_is(kind: str, answer: str) -> None:
    (rule,) = parse_rule(kind, MENDABLE[kind])

    assert mended(answer, rule) == answer


def test_an_empty_answer_is_not_mended() -> None:
    assert mended(" ", parse_rule("Start_With", MENDABLE["Start_With"])[0]) == " "


def test_what_a_mend_breaks_is_mended_too_or_nothing_is_done() -> None:
    lower = Constraint("All_Lower", MENDABLE["All_Lower"])
    start = Constraint("Start_With", "Start the answer with 'In Short'.")
    short = Constraint("Length", "Write exactly 3 words.")
    draft = Draft.of("it is far", [lower, start])

    both, mends = mend(draft, [lower, start])
    none, zero = mend(Draft.of("it is far", [short, start]), [short, start])

    assert (both.text, both.violated, mends) == ("in short – it is far", frozenset(), 1)
    assert (none.text, zero) == ("it is far", 0)


def test_constraints_without_a_rule_are_not_checked() -> None:
    draft = Draft.of("It is far.", [Constraint("Tone", "Be kind."), Constraint("Length", "Kurz.")])

    assert draft.checks == {}
    assert not draft.violated


def test_one_answer_beats_another_only_if_it_breaks_nothing_that_held() -> None:
    constraints = [
        Constraint("Length", "Keep it under 5 words."),
        Constraint("No_Commas", "Use no commas."),
    ]
    long, comma, both, fine = (
        Draft.of(text, constraints)
        for text in ("one two three four five", "one, two", "one, two three four five", "one two")
    )

    assert fine.beats(long)
    assert fine.beats(both)
    assert long.beats(both)
    assert not comma.beats(long)
    assert not fine.beats(fine)
