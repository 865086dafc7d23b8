from __future__ import annotations

import itertools
import random

from drpg_dspy.optimizers.corrections.clusters import Gradient, contradicts, merge
from drpg_dspy.optimizers.rules import similar

TEXTS = (
    "Divide the amount by 100.",
    "Always divide amount by 100",
    "Divide the amount by 12.",
    "Name the year in which it happened.",
    "Name the year it happened, in four digits.",
    "Never name the year.",
    "Use LEFT JOIN when rows may be missing.",
    "Keep the names of people as they are written.",
    "ÜBER alles: 規則",
)


def gradients(*texts: str, route: str = "a", category: str = "") -> list[Gradient]:
    return [Gradient(f"case {i}", route, category, text) for i, text in enumerate(texts)]


def test_what_says_the_same_is_one_correction_of_all_its_cases() -> None:
    found, dropped = merge(gradients(*TEXTS[:2], TEXTS[3], TEXTS[1]))

    assert [(c.text, c.cases) for c in found] == [
        (TEXTS[1], ("case 0", "case 1", "case 3")),
        (TEXTS[3], ("case 2",)),
    ]
    assert dropped == 0


def test_two_texts_are_merged_exactly_when_the_rules_say_they_are_alike() -> None:
    for a, b in itertools.combinations(TEXTS, 2):
        found, dropped = merge(gradients(a, b))
        assert (len(found) + dropped == 1) == similar(a, b), (a, b)


def test_routes_and_categories_are_kept_apart() -> None:
    found, _ = merge(
        [
            *gradients(TEXTS[0], route="a", category="x"),
            *gradients(TEXTS[0], route="b", category="x"),
            *gradients(TEXTS[7], route="a", category="y"),
        ]
    )

    assert {(c.route, c.category) for c in found} == {("a", "x"), ("b", "x"), ("a", "y")}


def test_what_several_categories_lead_to_holds_for_the_route() -> None:
    found, _ = merge(
        [
            *gradients(TEXTS[0], route="a", category="x"),
            *gradients(TEXTS[1], route="a", category="y"),
        ]
    )

    assert [(c.route, c.category, len(c.gradients)) for c in found] == [("a", "", 2)]


def test_what_categories_of_one_family_lead_to_holds_for_the_family() -> None:
    found, _ = merge(
        [
            *gradients(TEXTS[0], category="count:numbers"),
            *gradients(TEXTS[1], category="count:pronouns"),
            *gradients(TEXTS[4], category="words:vowel"),
        ]
    )

    assert {(c.category, len(c.gradients)) for c in found} == {("count", 2), ("words:vowel", 1)}


def test_a_category_and_its_family_cannot_hold_the_opposite_and_two_families_can() -> None:
    def kept(other: str) -> tuple[list[str], int]:
        found, dropped = merge(
            [
                Gradient("1", "a", "count", TEXTS[0]),
                Gradient("2", "a", "count", TEXTS[0]),
                Gradient("3", "a", other, TEXTS[2]),
            ]
        )
        return [c.category for c in found], dropped

    assert kept("count:numbers") == (["count"], 1)
    assert kept("words:vowel") == (["count", "words:vowel"], 0)


def test_of_contradicting_corrections_the_better_founded_stays() -> None:
    found, dropped = merge(
        [
            Gradient("1", "a", "", TEXTS[0]),
            Gradient("2", "a", "", TEXTS[0]),
            Gradient("3", "a", "", TEXTS[2]),
        ]
    )

    assert [c.text for c in found] == [TEXTS[0]]
    assert dropped == 1


def test_of_equally_founded_ones_the_last_word_counts() -> None:
    first, second = "Give dates as DD/MM.", "Do not give dates as DD/MM."
    assert contradicts(first, second)

    found, dropped = merge(gradients(first, second))

    assert ([c.text for c in found], dropped) == ([second], 1)


def test_the_same_words_in_another_order_are_told_anew() -> None:
    found, _ = merge(gradients("Dates are DD/MM.", "Dates are MM/DD."))

    assert [c.text for c in found] == ["Dates are MM/DD."]


def test_one_failure_counts_once() -> None:
    found, _ = merge([Gradient("1", "a", "", TEXTS[0]), Gradient("1", "a", "", TEXTS[1])])

    assert found[0].cases == ("1",)


def test_no_gradients_no_corrections() -> None:
    assert merge([]) == ([], 0)


def test_the_result_does_not_depend_on_anything_but_the_input() -> None:
    words = "name year sum row join count date town key digits".split()
    rng = random.Random(0)
    many = [
        Gradient(f"c{i}", f"r{i % 3}", f"k{i % 2}", " ".join(rng.sample(words, 4)))
        for i in range(300)
    ]

    assert merge(many) == merge(list(many))
    assert sum(len(c.gradients) for c in merge(many)[0]) + merge(many)[1] <= 300 + 300
