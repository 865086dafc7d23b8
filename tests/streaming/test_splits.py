from __future__ import annotations

from typing import Any

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


def test_the_same_inputs_fall_into_one_part_whatever_their_ids() -> None:
    twins = [
        dspy.Example(id=f"{name}{i}", question=f"{i}?").with_inputs("question")
        for name in "ab"
        for i in range(10)
    ]
    parts = share_out(twins, {"construction": 6, "test": 6}, group="id")
    asked = [{row.question for row in part} for part in parts.values()]

    assert not asked[0] & asked[1]
    with pytest.raises(ValueError, match=r"'a0' and 'b0', .* and 5 more have the same inputs"):
        check_disjoint({"construction": twins[:10], "test": twins[10:]}, "id")


@pytest.mark.parametrize("check", [share_out, check_disjoint])
def test_a_field_to_group_by_that_nobody_has_is_named(check: Any) -> None:
    given: Any = rows(4, 4) if check is share_out else {"test": rows(4, 4)}
    with pytest.raises(ValueError, match="No item has a field 'usr' to group by; they have: id"):
        check(given, {"test": 1}, group="usr") if check is share_out else check(given, "usr")
