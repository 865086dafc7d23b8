from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.scoring import score_predictions
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from programs import spider

QUESTIONS = [
    ("shop", "How many goods are there?", "SELECT count(*) FROM goods"),
    ("shop", "Which goods cost most?", "SELECT Name FROM goods ORDER BY Price DESC LIMIT 1"),
    ("zoo", "List the animals.", 'SELECT "Full Name" FROM animal'),
    ("shop", "Names and prices?", "SELECT Name, Price FROM goods"),
]
ZOO = {
    "db_id": "zoo",
    "table_names_original": ["house", "animal"],
    "column_names_original": [
        [-1, "*"], [0, "Id"], [1, "Id"], [1, "Full Name"], [1, "House"], [1, "order"],
    ],
    "column_types": ["text", "number", "number", "text", "number", "others"],
    "primary_keys": [1, [2, 4]],
    "foreign_keys": [[4, 1]],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Spider folder as the official distribution lays it out; ``zoo`` has no database."""
    rows = [{"db_id": d, "question": q, "query": s} for d, q, s in QUESTIONS]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    (tmp_path / "test.json").write_text(json.dumps(rows[:2]))
    (tmp_path / "tables.json").write_text(json.dumps([ZOO]))
    for parent in ("database", "test_database"):
        (tmp_path / parent / "shop").mkdir(parents=True)
        connection = sqlite3.connect(tmp_path / parent / "shop" / "shop.sqlite")
        connection.executescript(
            "CREATE TABLE maker(Id INT PRIMARY KEY);"
            "CREATE TABLE goods(Name TEXT NOT NULL, Price REAL DEFAULT 1, Maker INT,"
            " Twin INT REFERENCES goods, PRIMARY KEY (Name, Maker),"
            " FOREIGN KEY (Maker) REFERENCES maker(Id));"
            "CREATE VIEW cheap AS SELECT Name FROM goods WHERE Price < 2;"
            "INSERT INTO goods VALUES ('pen', 1.5, 1, NULL), ('ink', 7, 1, NULL);"
        )
        connection.close()
    return tmp_path


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "spider" / "dev.json").is_file():
        pytest.skip("needs the Spider data: set DRPG_DATA to the folder that holds spider/")
    return place


def test_examples_show_schema_and_question_and_hide_the_labels(folder: Path) -> None:
    example = spider.load(folder)[1]
    assert set(example.inputs().keys()) == {"db_schema", "question"}
    assert {"db_id", "query"} <= set(example.labels().keys())
    assert example.id == "dev-0002"
    assert spider.key(example.inputs()) == "Which goods cost most?"


def test_the_schema_is_one_line_a_table_with_types_and_keys(folder: Path) -> None:
    assert spider.load(folder)[0].db_schema == (
        "maker(Id INT PRIMARY KEY)\n"
        "goods(Name TEXT, Price REAL, Maker INT REFERENCES maker(Id), Twin INT REFERENCES goods, "
        "PRIMARY KEY (Name, Maker))\n"
        "view cheap(Name TEXT)"
    )


def test_without_a_database_the_schema_comes_from_the_tables_file(folder: Path) -> None:
    assert spider.load(folder)[2].db_schema == (
        "house(Id NUMBER PRIMARY KEY)\n"
        'animal(Id NUMBER, "Full Name" TEXT, House NUMBER REFERENCES house(Id), "order" OTHERS, '
        "PRIMARY KEY (Id, House))"
    )


def test_the_folder_above_and_the_environment_are_looked_in(folder: Path, monkeypatch) -> None:
    above = folder.parent / "above"
    above.mkdir()
    (above / "spider").symlink_to(folder)
    assert [e.id for e in spider.load(above)] == [e.id for e in spider.load(folder)]
    monkeypatch.setenv("DRPG_DATA", str(above))
    assert len(spider.load(split="test")) == 2


def test_missing_data_says_what_gets_it(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match=r"Download spider_data\.zip"):
        spider.load(tmp_path / "nowhere")
    (folder / "tables.json").write_text("[]")
    with pytest.raises(BenchmarkDataMissing, match="No schema for zoo"):
        spider.load(folder)


def test_excluding_and_limiting_keep_ids_and_unknown_names_are_refused(folder: Path) -> None:
    assert [e.id for e in spider.load(folder, exclude_db=["zoo"], limit=3)] == [
        "dev-0001", "dev-0002", "dev-0004",
    ]  # fmt: skip
    assert [e.id for e in spider.load(folder, exclude_db="shop")] == ["dev-0003"]
    with pytest.raises(ValueError, match=r"names moon.*databases are shop, zoo"):
        spider.load(folder, exclude_db=["moon"])
    with pytest.raises(ValueError, match="'validation'"):
        spider.load(folder, split="validation")
    with pytest.raises(ValueError, match="0 or more"):
        spider.load(folder, limit=-1)


def test_predictions_are_matched_by_line_of_the_whole_split(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "predictions.txt"
    path.write_text("A\nB\tshop\r\nC\n\n")
    examples = spider.load(folder, exclude_db=["zoo"])
    assert [p.sql for p in spider.read_predictions(path, examples)] == ["A", "B", ""]
    path.write_text("A\nB\n")
    with pytest.raises(ValueError, match="has 2 lines, but the data set has 4 questions"):
        spider.read_predictions(path, examples)
    with pytest.raises(ValueError, match="cannot be read"):
        spider.read_predictions(tmp_path / "none.txt", examples)


def test_the_program_asks_in_the_papers_order_and_returns_sql(folder: Path) -> None:
    lm = ScriptedLM([fields(sql="SELECT 1")])
    example = spider.load(folder)[0]
    with dspy.context(lm=lm):
        prediction = spider.program()(**example.inputs())
    assert prediction.sql == "SELECT 1"
    (prompt,) = lm.texts()
    places = [prompt.rindex(example.db_schema), prompt.rindex(example.question)]
    assert places == sorted(places)
    fields_ = spider.WriteSQL.input_fields
    assert list(fields_) == ["db_schema", "examples", "policy", "question"]
    assert [f.json_schema_extra.get(OPEN_FIELD) for f in fields_.values()] == [
        None, "shots", "policy", None,
    ]  # fmt: skip


def test_gold_queries_score_one_and_a_missing_database_is_not_judged(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("".join(f"{sql}\n" for _, _, sql in QUESTIONS))
    report = score_predictions(spider.BENCHMARK, folder, path)
    assert (report.n, report.correct, report.not_judged, report.score) == (4, 3, 1, 0.75)


@pytest.mark.benchmark_data
def test_every_gold_query_of_spider_scores_one_against_itself(real: Path, tmp_path: Path) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("".join(f"{e.query}\n" for e in spider.load(real)))
    report = score_predictions(
        spider.BENCHMARK, real, path, compare="repaired", exclude_db=["wta_1"]
    )
    assert (report.n, report.correct, report.not_judged) == (972, 972, 0)
    # 45 results are empty; 44 queries, 4 of them with an empty result, begin in lower case.
    report = score_predictions(
        spider.BENCHMARK, real, path, compare="faithful", exclude_db=["wta_1"]
    )
    assert (report.n, report.correct) == (972, 883)


@pytest.mark.benchmark_data
def test_the_published_score_of_dail_sql_is_met(real: Path) -> None:
    report = score_predictions(
        spider.BENCHMARK,
        real,
        real / "text2sql_predictions" / "dail_sql_gpt4.txt",
        compare="test_suite",
        exclude_db=["wta_1"],
    )
    assert report.n == 972
    assert report.not_judged == 0
    assert abs(100 * report.score - 83.1) <= 0.3
