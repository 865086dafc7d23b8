from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.sql import ExecutionAccuracy
from evaluators.sql.database import has_rows


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("CREATE TABLE a (x)", 'CREATE TABLE "b c" (x)', *statements):
            connection.execute(statement)
        connection.commit()
    return path


def test_databases_on_which_nothing_can_be_judged_are_named_once(tmp_path: Path) -> None:
    database(tmp_path / "full.sqlite", 'INSERT INTO "b c" VALUES (1)')
    database(tmp_path / "bare.sqlite", "CREATE VIEW v AS SELECT 1")
    (tmp_path / "odd.sqlite").write_text("no database")
    examples = [dspy.Example(db_id=name) for name in ("full", "bare", "odd", "gone", "bare")]

    with closing(ExecutionAccuracy(tmp_path)) as judge:
        bare, odd, gone = judge.missing(examples)

    assert bare == "bare (no rows)"
    assert odd.startswith("odd (The file odd.sqlite is not a SQLite database")
    assert gone.startswith("gone (The database 'gone' is missing")


def test_rows_are_looked_for_in_every_table(tmp_path: Path) -> None:
    assert not has_rows(database(tmp_path / "bare.sqlite"))
    assert has_rows(database(tmp_path / "full.sqlite", 'INSERT INTO "b c" VALUES (NULL)'))
    with pytest.raises(EvaluationFailed):
        has_rows(tmp_path / "gone.sqlite")
