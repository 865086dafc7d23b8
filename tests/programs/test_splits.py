from __future__ import annotations

import warnings
from typing import Any

import dspy
import pytest

from programs._splits import PARTS, part_of


def examples(groups: int, each: int = 3) -> list[dspy.Example]:
    return [
        dspy.Example(id=f"{g}-{i}", group=f"g{g}").with_inputs("id")
        for i in range(each)
        for g in range(groups)
    ]


def parts(rows: list[dspy.Example], sizes: Any, **options: Any) -> list[list[dspy.Example]]:
    return [part_of(rows, name, sizes, what="groups", **options) for name in PARTS]


def groups(rows: list[dspy.Example]) -> set[str]:
    return {row.group for row in rows}


def test_parts_have_the_wanted_sizes_share_no_group_and_keep_the_order() -> None:
    rows = examples(20)
    found = parts(rows, (5, 4, 8))
    assert [len(groups(part)) for part in found] == [5, 4, 8]
    assert sum(map(len, found)) == 3 * 17
    assert len(set.union(*map(groups, found))) == 17
    for part in found:
        places = [rows.index(row) for row in part]
        assert places == sorted(places)
    assert part_of(rows, "stream", (5, 4, 8), what="groups") == rows


def test_a_part_depends_on_names_and_seed_and_not_on_the_order_of_rows() -> None:
    rows = examples(20)
    found = parts(rows, (5, 4, 8))
    assert [groups(p) for p in parts(rows[::-1], (5, 4, 8))] == [groups(p) for p in found]
    assert [groups(p) for p in parts(rows, (5, 4, 8), seed=2)] != [groups(p) for p in found]


@pytest.mark.parametrize(
    ("there", "sizes", "wanted"),
    [
        (591, (150, 300, 300), [118, 237, 236]),
        (7, (150, 100, 250), [2, 1, 4]),
        (3, (150, 300, 300), [1, 1, 1]),
        (3, (1, 1, 100), [1, 1, 1]),
        (1, (150, 300, 300), [0, 1, 0]),
        (0, (4, 2, 4), [0, 0, 0]),
        (10, (0, 15, 15), [0, 5, 5]),
    ],
)
def test_too_few_groups_are_shared_out_and_it_is_said(
    there: int, sizes: tuple[int, int, int], wanted: list[int]
) -> None:
    with pytest.warns(UserWarning, match=f"{there} groups are fewer than"):
        found = parts(examples(there, each=1), sizes)
    assert [len(part) for part in found] == wanted


def test_enough_groups_are_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(map(len, parts(examples(10, each=1), [4, 2, 4]))) == 10


@pytest.mark.parametrize(
    "sizes", [(1, 2), (1, 2, -3), (1, 2, "3"), "123", None, (0, 0, 0), (True, 1, 1), 5]
)
def test_sizes_must_be_three_numbers(sizes: Any) -> None:
    with pytest.raises(ValueError, match="three whole numbers"):
        part_of(examples(9), "test", sizes, what="groups")


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(ValueError, match="stream, construction, selection, test; got 'dev'"):
        part_of(examples(9), "dev", (1, 1, 1), what="groups")
