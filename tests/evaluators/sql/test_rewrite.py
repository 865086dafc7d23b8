from __future__ import annotations

import sqlite3
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.sql.gold import Gold
from evaluators.sql.rewrite import fix_order, nulls_last, text_as_numbers, without_distinct
from evaluators.sql.runner import Outcome


@pytest.mark.parametrize(
    ("sql", "without"),
    [
        ("SELECT DISTINCT a FROM t", "SELECT  a FROM t"),
        ("select distinct(a) from t", "select (a) from t"),
        ('SELECT/**/DISTINCT"a" FROM t', 'SELECT/**/ "a" FROM t'),
        ("SELECT count(DISTINCT a) FROM t", "SELECT count( a) FROM t"),
        (
            "SELECT 'DISTINCT', \"distinct\" -- DISTINCT",
            "SELECT 'DISTINCT', \"distinct\" -- DISTINCT",
        ),
        ("SELECT 1 WHERE a IS DISTINCT FROM b", "SELECT 1 WHERE a IS DISTINCT FROM b"),
        ("SELECT 1 WHERE a IS NOT DISTINCT FROM b", "SELECT 1 WHERE a IS NOT DISTINCT FROM b"),
    ],
)
def test_distinct_is_removed_as_a_word_alone(sql: str, without: str) -> None:
    assert without_distinct(sql) == without


def test_ties_are_broken_inside_and_outside() -> None:
    sql = "SELECT a, b FROM (SELECT * FROM t ORDER BY c DESC LIMIT 3) LIMIT 2 -- two"
    assert fix_order(sql, 2, "ASC") == (
        "SELECT a, b FROM (SELECT * FROM t ORDER BY c DESC , 1 ASC LIMIT 3)  ORDER BY 1 ASC, 2 ASC "
        "LIMIT 2 -- two"
    )


def test_the_order_inside_a_window_or_an_aggregate_is_left_alone() -> None:
    sql = "SELECT rank() OVER (ORDER BY a) FROM t ORDER BY b LIMIT 1"
    assert fix_order(sql, 1, "DESC") == (
        "SELECT rank() OVER (ORDER BY a) FROM t ORDER BY b , 1 DESC LIMIT 1"
    )


def test_every_sort_term_gets_nulls_last_unless_it_says_where_they_go() -> None:
    sql = "SELECT a FROM t ORDER BY f(a, b) DESC, c NULLS FIRST LIMIT 1"
    assert nulls_last(sql) == (
        "SELECT a FROM t ORDER BY f(a, b) DESC NULLS LAST, c NULLS FIRST LIMIT 1"
    )


def test_a_column_number_is_not_turned_into_a_constant() -> None:
    sql = "SELECT a FROM t ORDER BY 1 DESC LIMIT 1"
    assert text_as_numbers(sql) == sql


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),
        st.sampled_from([None, "1", "2", "9", "10", "x"]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 4), st.sampled_from(["ASC", "DESC"]))
def test_a_tie_is_reported_exactly_when_another_choice_gives_other_rows(
    data: list[tuple[int | None, str | None, int]], limit: int, direction: str
) -> None:
    sql = f"SELECT c FROM t ORDER BY a {direction} LIMIT {limit}"
    run = _on(data)
    reason = Gold(None, sql, False, run(sql)).undetermined(run)  # type: ignore[arg-type]
    order = sorted(data, key=lambda row: _nulls_first(row[0]), reverse=direction == "DESC")
    cut = order[:limit][-1][0]
    tied = [row[2] for row in data if row[0] == cut]
    sure = [row[2] for row in order[:limit] if row[0] != cut]
    room = min(limit, len(order)) - len(sure)
    answers = {tuple(sorted([*sure, *chosen])) for chosen in combinations(tied, room)}
    assert (reason == "LIMIT cuts through a tie") == (len(answers) > 1)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(1, 4))
def test_text_is_never_reported_where_no_key_spells_a_number_differently(
    data: list[tuple[int | None, str | None, int]], limit: int
) -> None:
    even = [(a, b if b in (None, "1", "2", "9") else "5", i) for i, (a, b, _) in enumerate(data)]
    sql = f"SELECT c FROM t ORDER BY b DESC, c LIMIT {limit}"
    run = _on(even)
    assert Gold(None, sql, False, run(sql)).undetermined(run) == ""  # type: ignore[arg-type]


def _nulls_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


def _on(data: list[tuple[int | None, str | None, int]]):  # type: ignore[no-untyped-def]
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t(a INT, b TEXT, c INT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", data)

    def run(sql: str) -> Outcome:
        cursor = connection.execute(sql)
        return Outcome(tuple(c[0] for c in cursor.description), tuple(cursor.fetchall()))

    return run
