from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.scoring import score_predictions
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from evaluators.sql import detokenised
from programs import cosql

DIALOGUES = [
    (
        "shop",
        [
            ("hello |  what do you\nneed? | all goods", "SELECT Name  FROM goods"),
            ("only the dear ones", "SELECT Name FROM goods WHERE Price  > =  2"),
            ("and how many\tare those?", "SELECT count ( * )  FROM goods WHERE Price > = 2"),
        ],
    ),
    ("zoo", [("List the animals.", "SELECT Name FROM animal")]),
]
FLAT = [(db, question, query) for db, turns in DIALOGUES for question, query in turns]
TABLES = [
    {
        "db_id": "zoo",
        "table_names_original": ["animal"],
        "column_names_original": [[-1, "*"], [0, "Id"], [0, "Name"]],
        "column_types": ["text", "number", "text"],
        "primary_keys": [1],
        "foreign_keys": [],
    }
]


def dialogues() -> list[dict[str, Any]]:
    return [
        {
            "final": {"utterance": "unused", "query": "unused"},
            "database_id": db,
            "interaction": [{"utterance": question, "query": sql} for question, sql in turns],
        }
        for db, turns in DIALOGUES
    ]


def database(folder: Path) -> None:
    (folder / "shop").mkdir(parents=True)
    connection = sqlite3.connect(folder / "shop" / "shop.sqlite")
    connection.executescript(
        "CREATE TABLE goods(Name TEXT, Price REAL);"
        "INSERT INTO goods VALUES ('pen', 1.5), ('ink', 7);"
    )
    connection.close()


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("DRPG_DATA", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """CoSQL as the official archive lays it out; ``zoo`` has no database."""
    home = tmp_path / "cosql_dataset"
    (home / "sql_state_tracking").mkdir(parents=True)
    (home / "sql_state_tracking" / "cosql_dev.json").write_text(json.dumps(dialogues()))
    (home / "tables.json").write_text(json.dumps(TABLES))
    database(home / "database")
    return home


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "cosql" / "cosql_dev.json").is_file() or not (place / "spider").is_dir():
        pytest.skip("needs CoSQL and Spider: set DRPG_DATA to the folder that holds both")
    return place


def test_examples_show_schema_history_and_question_and_hide_the_labels(folder: Path) -> None:
    examples = cosql.load(folder)
    assert [e.id for e in examples] == ["dev-0001", "dev-0002", "dev-0003", "dev-0004"]
    assert [(e.dialogue, e.turn) for e in examples] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    for example in examples:
        assert set(example.inputs().keys()) == {"db_schema", "history", "question"}
    assert cosql.key(examples[2].inputs()) == "and how many are those?"
    assert examples[0].db_schema == "goods(Name TEXT, Price REAL)"
    assert examples[3].db_schema == "animal(Id NUMBER PRIMARY KEY, Name TEXT)"


def test_the_history_holds_the_earlier_turns_and_never_the_turn_itself(folder: Path) -> None:
    first, second, third, other = cosql.load(folder)
    assert first.history == other.history == ""
    assert second.history == (
        "User: hello | what do you need? | all goods\nSQL: SELECT Name FROM goods"
    )
    assert third.history == (
        f"{second.history}\nUser: only the dear ones\nSQL: SELECT Name FROM goods WHERE Price >= 2"
    )
    for example in (first, second, third, other):
        assert example.query not in example.history


def test_without_gold_the_history_holds_questions_only(folder: Path) -> None:
    examples = cosql.load(folder, gold_history=False)
    assert examples[2].history == (
        "User: hello | what do you need? | all goods\nUser: only the dear ones"
    )
    assert not any("SELECT" in example.history for example in examples)
    with pytest.raises(ValueError, match="gold_history must be True or False, got 'no'"):
        cosql.load(folder, gold_history="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tokenised", "joined"),
    [
        ("SELECT a  FROM t WHERE b ! =  1 AND c > =  2", "SELECT a FROM t WHERE b != 1 AND c >= 2"),
        ("SELECT a FROM t WHERE b < > 1 OR b <\n= 2", "SELECT a FROM t WHERE b <> 1 OR b <= 2"),
        ("SELECT a | | b FROM t", "SELECT a || b FROM t"),
        ("SELECT '> =  x', \"! =\" FROM t", "SELECT '> =  x', \"! =\" FROM t"),
        ("SELECT a -- > = why\n  FROM t", "SELECT a -- > = why\nFROM t"),
        ("SELECT a FROM t WHERE b = -1", "SELECT a FROM t WHERE b = -1"),
    ],
)
def test_operators_are_joined_outside_of_literals_and_comments(tokenised: str, joined: str) -> None:
    assert detokenised(tokenised) == joined


def test_the_databases_may_be_those_of_spider_beside_it_or_in_the_data_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    shutil.copytree(folder / "sql_state_tracking", root / "cosql")
    with pytest.raises(BenchmarkDataMissing, match=r"No schema for shop.*cosql_dataset\.zip"):
        cosql.load(root)
    with pytest.raises(BenchmarkDataMissing, match=r"no databases here.*cosql_dataset\.zip"):
        cosql.evaluator(root)
    database(root / "spider" / "database")
    for place in (root, root / "cosql"):
        assert cosql.load(place, exclude_db="zoo")[0].db_schema == "goods(Name TEXT, Price REAL)"
        assert cosql.evaluator(place).databases == [root / "spider" / "database"]
    (root / "spider").rename(tmp_path / "spider")
    monkeypatch.setenv("DRPG_DATA", str(tmp_path))
    assert len(cosql.load(root, exclude_db="zoo")) == 3


def test_missing_data_says_what_gets_it(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match=r"CoSQL \(dev split\).*cosql_dataset\.zip"):
        cosql.load(tmp_path / "nowhere")
    with pytest.raises(BenchmarkDataMissing, match=r"train split.*cosql_train\.json"):
        cosql.load(folder, split="train")
    assert len(cosql.load(folder.parent)) == 4


def test_excluding_and_limiting_keep_ids_and_unknown_names_are_refused(folder: Path) -> None:
    assert [e.id for e in cosql.load(folder, exclude_db="shop")] == ["dev-0004"]
    assert [e.id for e in cosql.load(folder, exclude_db=["zoo"], limit=2)] == [
        "dev-0001", "dev-0002",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"names moon.*databases are shop, zoo"):
        cosql.load(folder, exclude_db=["moon"])
    with pytest.raises(ValueError, match=r"CoSQL has the splits dev, train; got 'test'"):
        cosql.load(folder, split="test")
    for limit in (-1, 1.5, True):
        with pytest.raises(ValueError, match="limit must be a whole number, 0 or more"):
            cosql.load(folder, limit=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1].pop("database_id"), r"row 2: the field 'database_id' is missing"),
        (lambda rows: rows[1].update(database_id=3), r"row 2: 'database_id' must be a text.*got 3"),
        (lambda rows: rows[0].update(interaction=[]), r"row 1: 'interaction' must be a list"),
        (lambda rows: rows[0]["interaction"].append("x"), r"row 1, turn 4: expected an object"),
        (
            lambda rows: rows[0]["interaction"][1].pop("query"),
            r"cosql_dev\.json, row 1, turn 2: the field 'query' is missing; there are utterance",
        ),
        (lambda rows: rows[0]["interaction"][1].update(utterance=" "), r"turn 2: 'utterance' must"),
        (lambda rows: rows.append([]), r"row 3: expected an object, got \[\]"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(folder: Path, change: Any, message: str) -> None:
    rows = dialogues()
    change(rows)
    (folder / "sql_state_tracking" / "cosql_dev.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match=message):
        cosql.load(folder)


def test_predictions_may_stand_in_lines_in_blocks_or_by_id(folder: Path, tmp_path: Path) -> None:
    kept = cosql.load(folder, exclude_db=["zoo"])[1:]
    flat, blocks, by_id = tmp_path / "flat", tmp_path / "blocks", tmp_path / "by_id"
    flat.write_text("q1\nq2\tshop\nq3\nq4\n")
    blocks.write_text("q1\nq2\tshop\nq3\n\nq4\n\n")
    by_id.write_text(
        '{"id": "dev-0003", "prediction": "q3"}\n{"id": "dev-0002", "prediction": "q2"}\n'
    )
    for path in (flat, blocks, by_id):
        assert [p.sql for p in cosql.read_predictions(path, kept)] == ["q2", "q3"]
    flat.write_text("q1\n\nq3\nq4\n")
    assert [p.sql for p in cosql.read_predictions(flat, kept)] == ["", "q3"]
    assert cosql.read_predictions(flat, []) == []


def test_operators_of_predictions_are_joined_as_those_of_gold_queries_are(
    folder: Path, tmp_path: Path
) -> None:
    published = [sql.replace("\n", " ") for _, turns in DIALOGUES for _, sql in turns]
    assert any("> =" in sql for sql in published)
    lines, by_id = tmp_path / "lines", tmp_path / "by_id"
    lines.write_text("".join(f"{sql}\n" for sql in published))
    rows = ({"id": f"dev-{n:04d}", "prediction": sql} for n, sql in enumerate(published, 1))
    by_id.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for path in (lines, by_id):
        report = score_predictions(cosql.BENCHMARK, folder, path)
        assert (report.n, report.correct, report.not_judged) == (4, 3, 1)  # zoo has no database


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1\nq2\n\n\nq3\n", "has 3 lines, but the data set has 4 questions"),
        ('{"id": "dev-0009", "prediction": "q"}\n', "no example 'dev-0009'"),
        ('{"id": "dev-0001"}\n', 'expected {"id"'),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "predictions"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        cosql.read_predictions(path, cosql.load(folder))


def test_gold_queries_score_one_and_a_missing_database_is_not_judged(
    folder: Path, tmp_path: Path
) -> None:
    path, rows = tmp_path / "gold.txt", tmp_path / "rows.jsonl"
    path.write_text("".join(f"{e.query}\n" for e in cosql.load(folder)))
    report = score_predictions(cosql.BENCHMARK, folder, path, rows_path=rows)
    assert (report.n, report.correct, report.not_judged, report.score) == (4, 3, 1, 0.75)
    verdicts = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [v["id"] for v in verdicts] == ["dev-0001", "dev-0002", "dev-0003", "dev-0004"]
    assert "zoo" in verdicts[3]["feedback"]


def test_the_program_asks_in_the_papers_order_and_works_outside_the_library(folder: Path) -> None:
    lm = ScriptedLM([fields(sql="SELECT 1")])
    example = cosql.load(folder)[2]
    with dspy.context(lm=lm):
        assert cosql.program()(**example.inputs()).sql == "SELECT 1"
        assert cosql.program()(db_schema="t(a)", question="How many?").sql == "SELECT 1"
    prompt = lm.texts()[0]
    places = [prompt.rindex(example[name]) for name in ("db_schema", "history", "question")]
    assert places == sorted(places)
    assert [
        (name, f.json_schema_extra.get(OPEN_FIELD))
        for name, f in cosql.WriteSQL.input_fields.items()
    ] == [
        ("db_schema", None), ("examples", "shots"), ("policy", "policy"), ("history", None),
        ("question", None),
    ]  # fmt: skip


@pytest.mark.benchmark_data
def test_the_published_turns_are_all_there_and_joined(real: Path) -> None:
    examples = cosql.load(real)
    assert len(examples) == 1007
    assert len({e.id for e in examples}) == 1007
    assert examples[-1].dialogue == 293
    assert len({e.db_id for e in examples}) == 20
    assert not any(op in e.query for e in examples for op in ("! =", "> =", "< ="))
    assert not any(e.history for e in examples if e.turn == 1)
    assert all(e.history.count("User: ") == e.turn - 1 for e in examples)
    assert max(len(e.history) for e in examples) == 2025


@pytest.mark.benchmark_data
@pytest.mark.parametrize(
    # Under the released scoring an empty result, or a query in lower case, is wrong.
    ("compare", "right"), [("repaired", 947), ("faithful", 860), ("test_suite", 947)]
)  # fmt: skip
def test_gold_queries_of_cosql_score_one_but_for_the_one_that_is_no_sql(
    real: Path, tmp_path: Path, compare: str, right: int
) -> None:
    path = tmp_path / "gold.txt"
    dialogues = json.loads((real / "cosql" / "cosql_dev.json").read_text())
    published = [turn["query"] for dialogue in dialogues for turn in dialogue["interaction"]]
    for queries in ([e.query for e in cosql.load(real)], published):
        path.write_text("".join(f"{' '.join(query.split())}\n" for query in queries))
        report = score_predictions(
            cosql.BENCHMARK, real, path, compare=compare, exclude_db=["wta_1"]
        )
        assert (report.n, report.correct, report.not_judged) == (948, right, 1)
