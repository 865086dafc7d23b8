from __future__ import annotations

import random

import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.sql import SCORINGS
from evaluators.sql.compare import same_columns

ROWS = [(1, "a", 2.5), (2, "b", 0.5), (2, "b", 1.5), (3, None, 2.5)]


@pytest.mark.parametrize("name", SCORINGS)
def test_equal_results_agree(name: str) -> None:
    assert SCORINGS[name].agree(ROWS, list(ROWS), ordered=False)


@pytest.mark.parametrize(
    ("change", "repaired", "faithful", "test_suite", "in_order"),
    [
        (lambda rows: rows[::-1], True, True, True, False),
        (lambda rows: rows + rows[:1], True, True, False, False),
        (lambda rows: rows[:-1], False, False, False, False),
        (lambda rows: [row[:2] for row in rows], False, False, False, False),
        (lambda rows: [row[::-1] for row in rows], False, False, True, True),
        (lambda rows: [(*row[:2], None) for row in rows], False, False, False, False),
        (lambda rows: [(float(row[0]), *row[1:]) for row in rows], True, True, True, True),
        (lambda rows: [(str(row[0]), *row[1:]) for row in rows], False, False, False, False),
        (lambda rows: [], False, False, False, False),
    ],
    ids=["reversed", "doubled", "lost", "narrow", "columns", "nulled", "floats", "texts", "empty"],
)
def test_each_change_to_a_result_moves_the_verdicts_that_it_should(
    change, repaired: bool, faithful: bool, test_suite: bool, in_order: bool
) -> None:  # type: ignore[no-untyped-def]
    changed = change(ROWS)
    for expected, got in ((ROWS, changed), (changed, ROWS)):
        assert SCORINGS["repaired"].agree(expected, got, ordered=False) is repaired
        assert SCORINGS["faithful"].agree(expected, got, ordered=False) is faithful
        assert SCORINGS["test_suite"].agree(expected, got, ordered=False) is test_suite
        assert SCORINGS["test_suite"].agree(expected, got, ordered=True) is in_order


def test_two_empty_results_agree_except_in_the_faithful_scoring() -> None:
    verdicts = {name: s.agree([], [], ordered=False) for name, s in SCORINGS.items()}
    assert verdicts == {"repaired": True, "faithful": False, "test_suite": True}


def test_columns_match_only_if_whole_rows_do() -> None:
    # Each column of one has its like in the other, the rows have not.
    assert not same_columns([(1, 1), (2, 2)], [(1, 2), (2, 1)])


def test_wide_tables_of_like_columns_are_matched_quickly() -> None:
    chance = random.Random(0)
    table = [tuple(chance.randint(0, 1) for _ in range(12)) for _ in range(200)]
    order = chance.sample(range(12), 12)
    moved = [tuple(row[i] for i in order) for row in chance.sample(table, len(table))]
    assert same_columns(table, moved)


def test_a_search_that_grows_too_large_is_given_up_not_decided() -> None:
    # Adjacency of two graphs that look alike everywhere: no column can be told from another.
    n = 40
    ring = [tuple(int((i - j) % n in (1, n - 1)) for j in range(n)) for i in range(n)]
    half = n // 2
    rings = [
        tuple(int(i // half == j // half and (i - j) % half in (1, half - 1)) for j in range(n))
        for i in range(n)
    ]
    with pytest.raises(EvaluationFailed, match="look alike"):
        same_columns(ring, rings)
