from __future__ import annotations

import pytest

from drpg_dspy.constraints import RULE_TYPES, parse_rule
from drpg_dspy.optimizers.standing.advice import advice

CASES = {
    ("Length", "Keep it under 100 words."): (
        "word " * 150,
        "Write about 79 words, 5 short sentences: it had 150 words",
    ),
    ("Length", "Write at least 100 words."): (
        "word " * 50,
        "Write about 120 words, 8 short sentences: it had 50 words",
    ),
    ("Length", "Write exactly 100 words."): ("word " * 150, "Write about 100 words"),
    ("Length", "Write exactly 3 sentences."): (
        "One.",
        "Write 3 sentences at least: it had 1 sentence.",
    ),
    ("Keyword", "Mention 'tea' at least 3 times."): ("tea", "use 'tea' 3 times: it did so 1 time."),
    ("Keyword", "Mention 'tea' at least twice."): ("x", "use 'tea' 2 times: it did so 0 times."),
    ("Keyword", "Do not mention 'tea'."): ("tea", "Say it without 'tea'"),
    ("Keyword", "Mention 'tea' at most twice."): (
        "tea tea tea",
        "use 'tea' at most 2 times: it did so 3 times",
    ),
    ("Format", "Use a numbered list."): ("x", "'1. ', '2. ' and so on"),
    ("Format", "Use a list with at least 5 items."): ("x", "At least 5 items."),
    ("Format", "Answer in JSON."): ("x", "JSON and nothing else"),
    ("Format", "Use a table."): ("x", "Markdown table"),
    ("Format", "Use headings."): ("x", "begins with '## '"),
    ("Format", "Write in paragraphs of running text."): ("- x\n- y", "no list, no table"),
    ("Format", "Do not use any lists."): ("- x\n- y", "Do without any list"),
    ("Start_With", "Start with 'Google'."): ("x", "very first words be: Google"),
    ("End_With", "End with 'Bye now'."): ("x", "very last words be: Bye now"),
    ("No_Commas", "Use no commas."): ("a, b", "no comma at all"),
    ("All_Lower", "Write in lowercase only."): ("A", "lower case"),
    ("All_Upper", "Write in all capital letters."): ("a", "upper case"),
}


@pytest.mark.parametrize("constraint", CASES)
def test_each_violation_is_an_instruction(constraint: tuple[str, str]) -> None:
    answer, said = CASES[constraint]
    (rule,) = parse_rule(*constraint)

    assert not rule.check(answer).satisfied
    assert said in advice(rule, answer)


def test_every_type_with_rules_has_advice() -> None:
    assert {kind for kind, _ in CASES} == set(RULE_TYPES)
