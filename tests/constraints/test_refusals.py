from __future__ import annotations

import pytest

from drpg_dspy.constraints import is_refusal


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("I'm sorry, but I can't fulfill this request as it contains conflicts.", True),
        ("I cannot help with that.", True),
        ("As an AI, I am unable to provide this.", True),
        ("Unfortunately, I won't be able to write this.", True),
        ("I am sorry for your loss, and I hope this letter helps.", False),
        ("I can't wait to see you.", False),
        ("The report says that I cannot help being late.", False),
        ("", False),
    ],
)
def test_a_refusal_is_known_by_how_it_begins(answer: str, refusal: bool) -> None:
    assert is_refusal(answer) is refusal


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't fulfil this request: it contains conflicting constraints.",
        "I cannot assist with that.",
        "Sorry, I can’t help with this.",
        "I am unable to comply with these rules.",
        "As an AI, I cannot write this.",
        "These conflicting requirements cannot be met at the same time.",
        "I refuse.",
        "Request denied.",
        "I'm afraid I can't do that.",
        "I can't do it.",
        "Apologies, but I can't assist with that.",
        "It is impossible to satisfy both constraints.",
        "Note: I'm sorry, but I can't fulfill this request.",
    ],
)
def test_refusals_are_known(answer: str) -> None:
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Unfortunately, the museum is closed on Monday.",
        "I'm sorry for your loss. I will help you.",
        "I can't wait to see it!",
        "Sorry I can't be there on Friday so please accept this letter of regret.",
        "Unfortunately, I cannot attend the party on Sunday.",
        "I can't help but admire the view.",
        "I can't complete a marathon without training: start with 5 km.",
        "I won't write long: the answer is 5.",
        "I cannot follow a recipe without salt, and nor should you.",
        "Cats cannot fly. " * 20 + "I cannot help with that.",
    ],
)
def test_answers_that_sound_alike_are_no_refusals(answer: str) -> None:
    assert not is_refusal(answer)
