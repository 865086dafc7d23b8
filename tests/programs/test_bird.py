from __future__ import annotations

import json
import os
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.scoring import score_predictions
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from programs import bird

SEPARATOR = "\t----- bird -----\t"
ROWS: list[dict[str, Any]] = [
    {
        "question_id": 7, "db_id": "shop", "question": "How many goods?",
        "evidence": " goods are rows ", "SQL": "SELECT count(*) FROM goods",
        "difficulty": "simple",
    },
    {
        "question_id": 8, "db_id": "zoo", "question": "List the animals.",
        "evidence": "", "SQL": "SELECT Name FROM animal", "difficulty": "moderate",
    },
    {
        "question_id": 7, "db_id": "shop", "question": "Names of the dear ones?",
        "evidence": None, "SQL": "SELECT Name FROM goods WHERE Price > 2",
        "difficulty": "challenging",
    },
]  # fmt: skip
SCHEMA = 'goods(Name TEXT, Price REAL, "Unit Size" TEXT)'


def write_rows(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


def describe(folder: Path) -> None:
    folder.mkdir(parents=True)
    head = "original_column_name,column_name,column_description,data_format,value_description\r\n"
    text = (
        "Name,,what it is called,text,\r\n"
        'Price,price,"price in \x95 euros",real,"over 2:\r\n dear"\r\n'
        f"Unit Size ,,{'long ' * 100},text,\r\n"
        "Empty,Empty,,text,\r\n"
    )
    (folder / "goods.csv").write_bytes((head + text).encode("latin-1"))


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("DRPG_DATA", raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """BIRD's dev archive, unpacked; ``zoo`` has no database."""
    home = tmp_path / "dev_20240627"
    write_rows(home / "dev.json", ROWS)
    shop = home / "dev_databases" / "shop"
    shop.mkdir(parents=True)
    connection = sqlite3.connect(shop / "shop.sqlite")
    connection.executescript(
        'CREATE TABLE goods(Name TEXT, Price REAL, "Unit Size" TEXT);'
        "INSERT INTO goods VALUES ('pen', 1.5, 'x'), ('ink', 7, 'y');"
    )
    connection.close()
    describe(shop / "database_description")
    return home


@pytest.fixture
def examples(home: Path) -> list[dspy.Example]:
    return bird.load(home, exclude_db="zoo")


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "bird" / "dev.json").is_file():
        pytest.skip("needs the BIRD data: set DRPG_DATA to the folder that holds bird/")
    return place


def test_examples_show_schema_evidence_and_question_and_hide_the_labels(
    examples: list[dspy.Example],
) -> None:
    first, second = examples
    assert set(first.inputs().keys()) == {"db_schema", "evidence", "question"}
    assert {"db_id", "query", "difficulty"} <= set(first.labels().keys())
    assert first.db_schema == SCHEMA
    assert (first.evidence, second.evidence) == ("goods are rows", "")
    assert (first.difficulty, second.difficulty) == ("simple", "challenging")
    assert bird.key(first.inputs()) == "How many goods?"


def test_ids_are_unique_although_question_ids_repeat(examples: list[dspy.Example]) -> None:
    assert [e.id for e in examples] == ["dev-0001", "dev-0003"]
    assert [e.question_id for e in examples] == [7, 7]
    assert [(e.line, e.lines) for e in examples] == [(1, 3), (3, 3)]


def test_without_evidence_no_example_has_the_field(home: Path) -> None:
    examples = bird.load(home, exclude_db="zoo", evidence=False)
    assert [set(e.inputs().keys()) for e in examples] == [{"db_schema", "question"}] * 2
    assert not any("evidence" in e for e in examples)
    with pytest.raises(ValueError, match="evidence must be True or False, got 'false'"):
        bird.load(home, evidence="false")  # type: ignore[arg-type]


def test_only_questions_with_a_database_are_loaded_and_a_warning_says_so(home: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"dev: 2 of 3 questions are loaded. 1 of 2 databases are .*: zoo\. .*zip"
    ) as caught:
        examples = bird.load(home)
    assert caught[0].filename == __file__
    assert [e.id for e in examples] == ["dev-0001", "dev-0003"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bird.load(home, exclude_db=["zoo"])) == 2
    with pytest.warns(UserWarning, match="2 of 3"):
        assert [e.id for e in bird.load(home, limit=1)] == ["dev-0001"]


def test_a_database_that_is_no_database_counts_as_missing(home: Path) -> None:
    (home / "dev_databases" / "zoo.sqlite").write_text("version https://git-lfs.github.com/spec")
    with pytest.warns(UserWarning, match=r"1 of 2 databases are missing or unreadable.*zoo"):
        assert len(bird.load(home)) == 2


def test_missing_data_says_what_gets_it(home: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match=r"BIRD \(dev split\).*/dev\.zip"):
        bird.load(tmp_path / "nowhere")
    with pytest.raises(BenchmarkDataMissing, match=r"BIRD \(mini_dev split\).*/minidev\.zip"):
        bird.load(home, split="mini_dev")
    (home / "dev_databases").rename(tmp_path / "gone")
    with pytest.raises(BenchmarkDataMissing, match=r"'shop' is missing.*/dev\.zip"):
        bird.load(home)
    with pytest.raises(BenchmarkDataMissing, match=r"no dev_databases/.*/dev\.zip"):
        bird.evaluator(home)


@pytest.mark.parametrize("file", ["mini_dev_sqlite.json", "MINIDEV/mini_dev_sqlite.json"])
def test_mini_dev_is_found_where_its_archive_puts_it(home: Path, tmp_path: Path, file: str) -> None:
    write_rows(tmp_path / "mini" / file, ROWS[:1])
    (tmp_path / "mini" / file).with_name("dev_databases").symlink_to(home / "dev_databases")
    (example,) = bird.load(tmp_path / "mini", split="mini_dev")
    assert example.id == "mini_dev-0001"
    assert bird.evaluator(tmp_path / "mini")(example, example.query).score == 1.0


def test_the_folder_above_and_the_environment_are_looked_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(bird.load(home.parent, exclude_db="zoo")) == 2
    home.rename(tmp_path / "bird")
    monkeypatch.setenv("DRPG_DATA", str(tmp_path))
    assert len(bird.load(exclude_db="zoo")) == 2


def test_descriptions_follow_the_schema_within_bounds(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def schema() -> str:
        return str(bird.load(home, exclude_db="zoo", descriptions=True)[0].db_schema)

    plain, head, name, price, size = schema().split("\n")
    assert (plain, head) == (SCHEMA, "Columns:")
    assert name == "goods.Name: what it is called"
    assert price == "goods.Price: price; price in • euros; over 2: dear"
    assert size.startswith('goods."Unit Size": long long')
    assert len(size) == 300
    monkeypatch.setattr(bird, "_DESCRIPTION_CHARS", 100)
    assert schema().split("\n")[2:] == [
        name, price, "(1 more columns are described, but not shown.)",
    ]  # fmt: skip


def test_descriptions_may_lie_beside_the_databases_or_are_asked_for(
    home: Path, tmp_path: Path
) -> None:
    inside = home / "dev_databases" / "shop" / "database_description"
    (home / "database_description").mkdir()
    inside.rename(home / "database_description" / "shop")
    examples = bird.load(home, exclude_db="zoo", descriptions=True)
    assert "goods.Price: price" in examples[0].db_schema
    (home / "database_description").rename(tmp_path / "gone")
    with pytest.raises(BenchmarkDataMissing, match=r"descriptions of shop.*/dev\.zip"):
        bird.load(home, exclude_db="zoo", descriptions=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[2].pop("SQL"), r"dev\.json, row 3: the field 'SQL' is missing; there"),
        (lambda rows: rows[0].update(question=" "), r"row 1: 'question' must be a text"),
        (lambda rows: rows[0].update(db_id=["a"]), r"row 1: 'db_id' must be a text"),
        (lambda rows: rows[0].update(evidence=3), r"row 1: 'evidence' must be a text.*got 3"),
        (lambda rows: rows.append(None), r"row 4: expected an object, got None"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(home: Path, change: Any, message: str) -> None:
    rows = json.loads(json.dumps(ROWS))
    change(rows)
    write_rows(home / "dev.json", rows)
    with pytest.raises(ValueError, match=message):
        bird.load(home)


def test_files_of_another_kind_and_unknown_options_are_refused(home: Path) -> None:
    with pytest.raises(ValueError, match=r"BIRD has the splits dev, mini_dev; got 'test'"):
        bird.load(home, split="test")
    with pytest.raises(ValueError, match=r"names moon.*databases are shop, zoo"):
        bird.load(home, exclude_db="moon")
    write_rows(home / "dev.json", {"rows": []})
    with pytest.raises(ValueError, match=r"dev\.json must hold a list of rows, got dict"):
        bird.load(home)
    (home / "dev.json").write_text("[")
    with pytest.raises(ValueError, match=r"dev\.json cannot be read as JSON"):
        bird.load(home)


@pytest.mark.parametrize(
    "text",
    [
        "q1\nq2\nq3\n",
        "q1\tshop\nq2\tzoo\nq3\tshop\n",
        f"q1{SEPARATOR}shop\nq2{SEPARATOR}zoo\nq3{SEPARATOR}shop\n",
        json.dumps({"0": f"q1{SEPARATOR}shop", "1": f"q2{SEPARATOR}zoo", "2": "q3"}, indent=1),
        '{"id": "dev-0003", "prediction": "q3"}\n{"id": "dev-0001", "prediction": "q1"}\n',
    ],
    ids=["lines", "gold lines", "bird lines", "bird", "by id"],
)
def test_predictions_are_read_in_every_customary_form(
    examples: list[dspy.Example], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "predictions"
    path.write_text(text)
    assert [p.sql for p in bird.read_predictions(path, examples)] == ["q1", "q3"]
    assert bird.read_predictions(path, []) == []


def test_a_prediction_that_is_missing_or_no_text_is_empty(
    examples: list[dspy.Example], tmp_path: Path
) -> None:
    path = tmp_path / "predictions"
    path.write_text('{"0": 0}')
    assert [p.sql for p in bird.read_predictions(path, examples)] == ["", ""]
    path.write_text('{"id": "dev-0003", "prediction": null}')
    assert [p.sql for p in bird.read_predictions(path, examples)] == ["", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1\nq3\n", "has 2 lines, but the data set has 3 questions"),
        ('{"717": "q"}', "no question '717'; the positions of the 3 questions are 0 to 2"),
        (json.dumps({"0": f"q{SEPARATOR}zoo"}), "a query for zoo, but question dev-0001 is about"),
        ('{"id": "dev-0004", "prediction": "q"}', "no example 'dev-0004'"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    examples: list[dspy.Example], tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "predictions"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        bird.read_predictions(path, examples)


def test_gold_queries_score_one_and_another_answer_does_not(home: Path, tmp_path: Path) -> None:
    path, rows = tmp_path / "predictions.json", tmp_path / "rows.jsonl"
    gold = {str(i): f"{row['SQL']}{SEPARATOR}{row['db_id']}" for i, row in enumerate(ROWS)}
    path.write_text(json.dumps(gold))
    with pytest.warns(UserWarning, match="2 of 3"):
        report = score_predictions(bird.BENCHMARK, home, path)
    assert (report.n, report.correct, report.not_judged) == (2, 2, 0)
    path.write_text(json.dumps({**gold, "0": "SELECT count(*) + 1 FROM goods"}))
    report = score_predictions(
        bird.BENCHMARK, home, path, exclude_db=["zoo"], rows_path=rows, compare="test_suite"
    )
    assert (report.n, report.correct, report.not_judged) == (2, 1, 0)
    assert [json.loads(line)["score"] for line in rows.read_text().splitlines()] == [0.0, 1.0]


def test_the_program_asks_in_the_papers_order_and_works_outside_the_library(
    examples: list[dspy.Example],
) -> None:
    lm = ScriptedLM([fields(sql="SELECT 1")])
    example = examples[0]
    with dspy.context(lm=lm):
        assert bird.program()(**example.inputs()).sql == "SELECT 1"
        assert bird.program()(db_schema="t(a)", question="How many?").sql == "SELECT 1"
    prompt = lm.texts()[0]
    places = [prompt.rindex(example[name]) for name in ("db_schema", "evidence", "question")]
    assert places == sorted(places)
    assert [
        (name, f.json_schema_extra.get(OPEN_FIELD))
        for name, f in bird.WriteSQL.input_fields.items()
    ] == [
        ("db_schema", None), ("examples", "shots"), ("policy", "policy"), ("evidence", None),
        ("question", None),
    ]  # fmt: skip


def test_a_prompt_without_evidence_is_the_one_with_it_less_that_field(home: Path) -> None:
    lm = ScriptedLM([fields(sql="SELECT 1")])
    (with_it, *_), (without, *_) = (
        bird.load(home, exclude_db="zoo", evidence=shown) for shown in (True, False)
    )
    with dspy.context(lm=lm):
        for example in (with_it, without):
            assert bird.program()(**example.inputs()).sql == "SELECT 1"
    shown, hidden = lm.texts()
    assert "evidence" not in hidden
    described = "\n4. `evidence` (str): What words of the question mean; may be empty."
    parts = (described, "[[ ## evidence ## ]]\n{evidence}\n\n",
             "[[ ## evidence ## ]]\ngoods are rows\n\n")  # fmt: skip
    for part in parts:
        assert shown.count(part) == 1
        shown = shown.replace(part, "")
    assert hidden == shown.replace("\n5. `question`", "\n4. `question`")


@pytest.mark.benchmark_data
@pytest.mark.parametrize(
    ("split", "file", "total", "least", "compare"),
    [
        ("dev", "dev_gold.sql", 1534, 129, "repaired"),
        ("mini_dev", "mini_dev_sqlite_gold.sql", 500, 52, "faithful"),
        ("mini_dev", "mini_dev_sqlite_gold.sql", 500, 52, "test_suite"),
    ],
)
@pytest.mark.filterwarnings("ignore:BIRD:UserWarning")
def test_every_gold_query_of_bird_scores_one_against_itself(
    real: Path, split: str, file: str, total: int, least: int, compare: str
) -> None:
    examples = bird.load(real, split=split)
    assert examples[0].lines == total
    assert len(examples) >= least
    assert len({e.id for e in examples}) == len(examples)
    gold = real / "bird" / file
    report = score_predictions(bird.BENCHMARK, real, gold, split=split, compare=compare)
    assert (report.n, report.correct, report.not_judged) == (len(examples), len(examples), 0)


@pytest.mark.benchmark_data
@pytest.mark.filterwarnings("ignore:BIRD:UserWarning")
def test_the_published_descriptions_fit_whole(real: Path) -> None:
    plain = {e.db_id: e.db_schema for e in bird.load(real)}
    for example in bird.load(real, descriptions=True):
        said = example.db_schema.removeprefix(plain[example.db_id])
        assert said.startswith("\nColumns:\n")
        assert "not shown" not in said
        assert len(said) <= 12_000 + len("\nColumns:\n")
