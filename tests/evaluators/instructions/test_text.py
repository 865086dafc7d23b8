from __future__ import annotations

import pytest

from evaluators.instructions.libraries import punkt_sentences, tokens
from evaluators.instructions.text import fold, pieces, sentences, trimmed, unpunctuated, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("No mark at all", ["No mark at all"]),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("One.Two", ["One.", "Two"]),
        ("A title\nruns into this.", ["A title runs into this."]),
        ("Mr. and Mrs. Hill met Dr. Ray.", ["Mr. and Mrs. Hill met Dr. Ray."]),
        ("See example.com or me@mail.org now.", ["See example.com or me@mail.org now."]),
        ("It costs 3.50 or 1.2.3 maybe.", ["It costs 3.50 or 1.2.", "3 maybe."]),
        ("Wait... what..", ["Wait...", "what.."]),
        ("She has a Ph.D. in law.", ["She has a Ph.D. in law."]),
        ("Take e.g. this, i.e. that.", ["Take e.g. this, i.e. that."]),
        ("He left the U.S. He was sad.", ["He left the U.S.", "He was sad."]),
        ("The U.S. army came.", ["The U.S. army came."]),
        ("Ford Co. It was big.", ["Ford Co", "It was big."]),
        ("Ford Co. was big.", ["Ford Co. was big."]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ('He said "Go." Then he went.', ['He said "Go".', "Then he went."]),
        ("He said “Go.” Then he went.", ["He said “Go”.", "Then he went."]),
        ('"Why?" "Because!"', ['"Why"?', '"Because"!']),
        ("What?! No", ["What?", "!", "No"]),
        ("Hi. 😀 Bye. 😀", ["Hi.", "😀 Bye.", "😀"]),
        ("日本語。です。", ["日本語。です。"]),
    ],
)
def test_sentences_end_where_a_mark_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_words_are_runs_of_letters_digits_and_underscores() -> None:
    assert words("naïve snake_case—it's 1,000 東京!") == [
        "naïve", "snake_case", "it", "s", "1", "000", "東京",
    ]  # fmt: skip
    assert words("… — !") == []


def test_pieces_lose_their_punctuation_and_may_vanish() -> None:
    assert pieces("well-known - “quoted”\n(yes)") == ["wellknown", "“quoted”", "yes"]
    assert unpunctuated("a.b") == "ab"
    assert trimmed("“(yes),") == "“(yes"
    assert fold(" a\n b\t") == "a b"


def test_tokens_set_punctuation_and_contractions_apart() -> None:
    assert tokens("I can't. Go!\n*Now*") == ["I", "ca", "n't", ".", "Go", "!", "*", "Now", "*"]
    assert tokens(" ") == []


def test_punkt_knows_abbreviations_and_line_breaks_end_nothing() -> None:
    assert punkt_sentences("Mr. Hill left at 3 p.m. yesterday. Why") == [
        "Mr. Hill left at 3 p.m. yesterday.", "Why",
    ]  # fmt: skip
    assert punkt_sentences("A heading\n\nA line") == ["A heading\n\nA line"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What?!? Yes", ["What?!?", "Yes"]),
        ("Use !?!?. Then stop!", ["Use !", "?!?.", "Then stop!"]),
        ("“One.” Two.", ["“One.” Two."]),
        ('"One." Two.', ['"One."', "Two."]),
        ("**One.** Two.", ["**One.", "** Two."]),
        ("Hi. 😊 How?", ["Hi.", "😊 How?"]),
        (". a", [".", "a"]),
        ("...", ["..."]),
    ],
)
def test_punkt_is_that_of_the_releases_of_2025(text: str, expected: list[str]) -> None:
    assert punkt_sentences(text) == expected


def test_tokens_are_those_of_the_releases_of_2025() -> None:
    # Later ones cut at dashes, and the opening quote off 'so'.
    assert tokens("well—known 'so' 'a' it's") == [
        "well—known", "'so", "'", "'", "a", "'", "it", "'s",
    ]  # fmt: skip
