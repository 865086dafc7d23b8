from __future__ import annotations

import contextlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.sql import NotOneStatement, extract_sql, rejoined
from evaluators.sql.text import streambench_sql, tokens

FENCE = "```"


def test_a_fenced_query_with_a_leading_comment_and_two_ctes_comes_out_whole() -> None:
    reply = (
        "Here you go:\n```sql\n-- monthly total\nWITH a AS (SELECT 1 x), b AS (SELECT 2 y)\n"
        "SELECT x+y FROM a,b;\n``` Hope this helps, select wisely."
    )
    assert extract_sql(reply) == (
        "-- monthly total\nWITH a AS (SELECT 1 x), b AS (SELECT 2 y)\nSELECT x+y FROM a,b"
    )


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SELECT 1; -- done", "SELECT 1"),
        ("SELECT ';' AS s", "SELECT ';' AS s"),
        ("SELECT 1 /* a;b */", "SELECT 1 /* a;b */"),
        (";; SELECT 1 ;;", "SELECT 1"),
        ("  select 1\n", "select 1"),
        ("\ufeffSELECT 1", "SELECT 1"),
        ("SELECT 'it''s; fine' -- a 'quote", "SELECT 'it''s; fine' -- a 'quote"),
        (
            "SELECT count(*) FROM note WHERE body LIKE '%WITHIN 5 days%'",
            "SELECT count(*) FROM note WHERE body LIKE '%WITHIN 5 days%'",
        ),
        ("SELECT 'a\n\n  b'\n\tFROM t", "SELECT 'a\n\n  b'\n\tFROM t"),
        ('SELECT "a;b", [c;d], `e;f` FROM t;', 'SELECT "a;b", [c;d], `e;f` FROM t'),
        ("The query is: SELECT a FROM t", "SELECT a FROM t"),
        ("I select the names.\nSELECT name FROM t", "SELECT name FROM t"),
        ("With this query we count:\nSELECT count(*) FROM t", "SELECT count(*) FROM t"),
        ("SELECT 1;\nThis returns one.", "SELECT 1"),
        (f"{FENCE}sql SELECT 1{FENCE}", "SELECT 1"),
        (f"{FENCE}SELECT 1{FENCE}", "SELECT 1"),
        (f"{FENCE}\nselect 1\n{FENCE}", "select 1"),
        (f"Answer: {FENCE}sql\nSELECT 1\n{FENCE}", "SELECT 1"),
        (f"{FENCE}SQLite\nSELECT 1", "SELECT 1"),
        (f"SELECT 1\n{FENCE}", "SELECT 1"),
        (f"SELECT 1\n\n{FENCE}\n1\n{FENCE}", "SELECT 1"),
        ("~~~sql\nSELECT 1\n~~~", "SELECT 1"),
        (f"````sql\nSELECT '{FENCE}'\n````", f"SELECT '{FENCE}'"),
        (f"SELECT '{FENCE}' FROM t", f"SELECT '{FENCE}' FROM t"),
        (f"{FENCE}sql\nSELECT 1;\n{FENCE}\nagain:\n{FENCE}sql\nSELECT 1\n{FENCE}", "SELECT 1"),
        (f"{FENCE}text\nplan\n{FENCE}\n{FENCE}sql\nSELECT 1\n{FENCE}", "SELECT 1"),
        ("WITH x AS (SELECT 1) DELETE FROM t", "WITH x AS (SELECT 1) DELETE FROM t"),
        ("DROP TABLE t", "DROP TABLE t"),
    ],
)
def test_the_statement_is_found_and_kept_byte_for_byte(text: str, statement: str) -> None:
    assert extract_sql(text) == statement


@pytest.mark.parametrize("text", ["", " \n", "-- only a comment", "/* x */ ;", ";", "``` ```"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    with pytest.raises(NotOneStatement) as caught:
        extract_sql(text)
    assert caught.value.reason == "no statement"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2",
        "SELECT 1;\nDELETE FROM t",
        "SELECT 1; gibberish",
        f"{FENCE}sql\nSELECT 1\n{FENCE}\nor\n{FENCE}sql\nSELECT 2\n{FENCE}",
        f"{FENCE}sql SELECT 1{FENCE}\nor\n{FENCE}sql SELECT 2{FENCE}",
    ],
)
def test_several_statements_are_refused_not_half_executed(text: str) -> None:
    with pytest.raises(NotOneStatement) as caught:
        extract_sql(text)
    assert caught.value.reason == "multiple statements"


def test_a_long_reply_full_of_keywords_is_read_in_one_go() -> None:
    text = "with a select " * 20_000 + "``` `" * 5_000
    assert extract_sql(text).startswith("select with a")


@given(st.text(alphabet="aS;'\"`[]-/*\n ()x1.", max_size=60))
def test_tokens_joined_give_the_text_back(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text


@given(st.text(alphabet="SELECT 1;'`\n-~", max_size=60))
def test_any_text_gives_a_part_of_itself_or_is_refused(text: str) -> None:
    try:
        statement = extract_sql(text)
    except NotOneStatement:
        return
    assert statement
    assert statement in text


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SELECT 1", "SELECT 1"),
        ("select 1", "SELECT select 1"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT WITH a AS (SELECT 1) SELECT * FROM a"),
        ("count(*) FROM t", "SELECT count(*) FROM t"),
        (f"Sure:\n{FENCE}sql\nSELECT 1\n{FENCE}", "SELECT 1"),
        (f"{FENCE}\nSELECT 1\n{FENCE}", "SELECT 1"),
    ],
)
def test_the_faithful_reading_puts_select_before_anything_else(text: str, statement: str) -> None:
    assert streambench_sql(text) == statement


@pytest.mark.parametrize(
    ("sql", "joined"),
    [
        ("select a from t where b ! = 1 and c > =  2 or d <  = 3",
         "select a from t where b != 1 and c >=  2 or d <= 3"),
        ("WITH t AS (SELECT 1 a) SELECT a FROM t WHERE a >\n= 1",
         "WITH t AS (SELECT 1 a) SELECT a FROM t WHERE a >= 1"),
        ("-- all\nSELECT 1 WHERE 1 ! = 2", "-- all\nSELECT 1 WHERE 1 != 2"),
    ],
)  # fmt: skip
def test_operators_that_came_apart_are_joined(sql: str, joined: str) -> None:
    assert rejoined(sql) == joined


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, '> =' FROM t WHERE b = \"! =\" AND [< =] = `> =` -- > =\n",
        "SELECT a FROM t /* ! = */ WHERE b < > 3 AND c | | d AND e = = f",
        "SELECT 'it''s > = ' || x FROM t",
        "SELECT 'open > = ",
        "Here's one: SELECT a FROM t WHERE b = '> ='",
        "a > = b",
        "",
    ],
)
def test_nothing_else_is_changed(sql: str) -> None:
    assert rejoined(sql) == sql


@given(st.text("SELECT ab'\"[]`!<>=|-/*\n 1,;()"))
def test_a_query_that_sqlite_compiles_is_never_changed(text: str) -> None:
    sql = f"SELECT {text}"
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"EXPLAIN {sql}")
        except (sqlite3.Error, sqlite3.Warning, ValueError):
            return
    assert rejoined(sql) == sql
