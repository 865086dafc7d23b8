from __future__ import annotations

import dspy
import pytest

from drpg_dspy.streaming import share_out
from drpg_dspy.streaming.splits import check_disjoint


def rows(n: int, users: int) -> list[dspy.Example]:
    return [
        dspy.Example(id=f"q{i}", user=f"u{i % users}", question=f"{i}?").with_inputs("question")
        for i in range(n)
    ]


def test_parts_have_their_sizes_and_share_no_group() -> None:
    parts = share_out(rows(60, 12), {"construction": 11, "selection": 7, "test": 9}, group="user")

    assert {name: len(part) for name, part in parts.items()} == {
        "construction": 11, "selection": 7, "test": 9,
    }  # fmt: skip
    check_disjoint(parts, "user")


def test_where_an_item_falls_does_not_depend_on_the_order_of_the_file() -> None:
    given = rows(40, 40)
    sizes = {"construction": 10, "test": 10}

    one, other = share_out(given, sizes, group="id"), share_out(given[::-1], sizes, group="id")

    assert {e.id for e in one["test"]} == {e.id for e in other["test"]}
    third = share_out(given, sizes, group="id", seed=2)
    assert {e.id for e in one["test"]} != {e.id for e in third["test"]}


def test_too_few_examples_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"5 examples in 5 groups .* 4 construction \+ 3 test"):
        share_out(rows(5, 5), {"construction": 4, "test": 3}, group="user")
    with pytest.raises(ValueError, match="too few"):  # one user cannot be in two parts
        share_out(rows(9, 1), {"construction": 4, "test": 1}, group="user")


def test_a_part_may_be_empty() -> None:
    parts = share_out(rows(4, 4), {"construction": 2, "selection": 2, "test": 0}, group="user")

    assert parts["test"] == []
