from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import dspy
import pytest

from evaluators.judgement import Judgement
from evaluators.sql import ExecutionAccuracy

SHOP = """
CREATE TABLE t(id INTEGER PRIMARY KEY, city TEXT, price INT, qty TEXT);
INSERT INTO t VALUES (1,'Oslo',10,'9'), (2,'Rome',20,'10'), (3,'Rome',20,'100'), (4,'Bern',NULL,NULL);
CREATE TABLE fruit(name TEXT, price INT);
INSERT INTO fruit VALUES ('apple',3), ('apple',3), ('pear',1);
CREATE TABLE meter(id INT, value INT);
INSERT INTO meter VALUES (1,10), (2,30);
CREATE TABLE p(n TEXT);
INSERT INTO p VALUES (CAST(x'416c62fa' AS TEXT)), (CAST(x'416c62fb' AS TEXT));
CREATE TABLE void(a);
CREATE TABLE big(a INT);
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 3200) INSERT INTO big SELECT n FROM r;
"""  # noqa: E501 - one statement a line

Judge = Callable[..., Judgement]


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    connection = sqlite3.connect(folder / "shop.sqlite")
    connection.executescript(SHOP)
    connection.close()
    return folder


@pytest.fixture(scope="session")
def judges(shop: Path) -> Iterator[dict[str, ExecutionAccuracy]]:
    made = {
        name: ExecutionAccuracy(shop, compare=name, timeout=0.5)
        for name in ("repaired", "faithful", "test_suite")
    }
    yield made
    for judge in made.values():
        judge.close()


@pytest.fixture
def judge(judges: dict[str, ExecutionAccuracy]) -> Judge:
    """Judge a query against a gold query on the shop: ``judge(gold, answer, compare=…)``."""

    def run(
        gold: str, answer: str | None, compare: str = "repaired", db: str = "shop"
    ) -> Judgement:
        example = dspy.Example(db_id=db, query=gold)
        return judges[compare](example, dspy.Prediction(sql=answer))

    return run
