from __future__ import annotations

import json
import math
import multiprocessing
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

from drpg_dspy.exceptions import StorageError
from programs import house_rules
from programs.house_rules_data import databases as builder

CONVENTIONS = {
    "cents", "cancelled", "deleted", "dates", "fiscal_year", "full_name", "column_order",
}  # fmt: skip
PAIRS = house_rules.read_pairs()
# The rows that most conventions leave out are asked for by name.
INCLUSIVE = re.compile(r"\b(included|including|counting|deleted|cancelled|ever|former|dropped)\b")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("house")


@pytest.fixture(scope="module")
def files(home: Path) -> dict[str, Path]:
    return builder.build_all(home)


@pytest.fixture(autouse=True)
def _own_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRPG_HOME", str(home))


@pytest.fixture(scope="module")
def judge(files: dict[str, Path]) -> Any:
    with house_rules.Review(files, workers=1) as judge:
        yield judge


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def same(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    return set(left) == set(right)


def slips(convention: str, query: str) -> list[str]:
    """What one writes who knows the other conventions and not this one."""
    if convention == "cents":
        return [query.replace(" / 100.0", ""), query.replace(" / 100.0", " / 1000.0")]
    if convention in ("cancelled", "deleted"):
        condition = r"status <> 'X'" if convention == "cancelled" else r"deleted_at IS NULL"
        bare = re.sub(rf" AND {condition}| WHERE {condition}(?! AND)|{condition} AND ", "", query)
        return [bare] if bare != query else []  # the question is about cancelled ones
    if convention == "dates":
        return [re.sub(r"LIKE '(\d{4})(\d\d)%'", r"LIKE '\1-\2%'", query)]
    if convention == "fiscal_year":
        year = int(re.search(r"'(\d{4})0401'", query)[1])
        span = r"BETWEEN '\d{8}' AND '\d{8}'"
        shifted = f"BETWEEN '{year - 1}0401' AND '{year}0331'"
        return [re.sub(span, f"LIKE '{year}%'", query), re.sub(span, shifted, query)]
    if convention == "full_name":
        return [query.replace(" || ' ' || ", ", "), query.replace("' '", "', '")]
    columns, rest = re.match(r"SELECT (.*) (FROM .*)", query).groups()
    figure, group = columns.rsplit(", ", 1)
    return [f"SELECT {group}, {figure} {rest}", f"SELECT {figure} {rest}"]


def _build(folder: str) -> None:
    builder.build_all(Path(folder))


class TestDatabases:
    def test_content_is_the_same_everywhere(self, tmp_path: Path) -> None:
        built = builder.build_all(tmp_path)
        assert {n: builder.content_digest(p) for n, p in built.items()} == builder.DATABASES

    def test_an_intact_file_is_left_alone(self, tmp_path: Path) -> None:
        before = {n: p.stat().st_ino for n, p in builder.build_all(tmp_path).items()}
        assert {n: p.stat().st_ino for n, p in builder.build_all(tmp_path).items()} == before

    @pytest.mark.parametrize("damage", ["cut", "edited", "foreign", "empty"])
    def test_a_damaged_file_is_built_anew(self, tmp_path: Path, damage: str) -> None:
        path = builder.build_all(tmp_path)["cafes"]
        if damage == "edited":
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE cafe SET seats = seats + 1")
        else:
            content = path.read_bytes()
            path.write_bytes({"cut": content[:5000], "foreign": b"hello", "empty": b""}[damage])
        assert builder.build_all(tmp_path)["cafes"] == path
        assert builder.content_digest(path) == builder.DATABASES["cafes"]

    def test_processes_may_build_at_once_and_leave_nothing_else(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=_build, args=(str(tmp_path),)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * 4
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "cafes.sqlite", "roastery.sqlite", "webshop.sqlite",
        ]  # fmt: skip

    def test_a_folder_that_cannot_be_written_names_the_remedy(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="DRPG_HOME"):
            builder.build_all(tmp_path / "file" / "below")

    def test_other_rows_than_expected_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(builder, "SEED", 1)
        with pytest.raises(StorageError, match="digest"):
            builder.build_all(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_each_holds_a_few_hundred_rows(self, files: dict[str, Path]) -> None:
        for db_id, path in files.items():
            total = sum(
                rows(path, f"SELECT COUNT(*) FROM {table}")[0][0]
                for table in builder.SCHEMAS[db_id]
            )
            assert 300 <= total <= 600

    def test_the_schema_is_compact_and_silent_on_the_conventions(self) -> None:
        for text in {example.db_schema for example in house_rules.load()}:
            assert len(text) < 420  # about 120 tokens
            assert not re.search(r"cent|cancel|fiscal|YYYY|'", text)


class TestPairs:
    @pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p["id"])
    def test_the_convention_decides_and_nothing_else(
        self, pair: dict[str, Any], files: dict[str, Path]
    ) -> None:
        path = files[pair["db_id"]]
        gold, naive = rows(path, pair["query"]), rows(path, pair["naive"])
        assert gold
        assert all(value is not None for row in gold for value in row)
        assert same(gold, naive) == (not pair["conventions"])
        assert set(pair["conventions"]) <= CONVENTIONS
        assert len(pair["note"]) < 320

    def test_there_are_about_two_hundred_and_no_question_twice(self) -> None:
        assert 200 <= len(PAIRS) <= 240
        assert len({pair["question"].lower() for pair in PAIRS}) == len(PAIRS)
        assert len({pair["id"] for pair in PAIRS}) == len(PAIRS)

    def test_a_schema_reader_alone_gets_about_two_thirds_wrong(self) -> None:
        share = sum(bool(pair["conventions"]) for pair in PAIRS) / len(PAIRS)
        assert 0.60 <= share <= 0.75

    def test_no_answer_hangs_on_rows_that_the_question_does_not_mention(
        self, files: dict[str, Path], tmp_path: Path
    ) -> None:
        """Whether deleted and cancelled rows count must not be a matter of taste."""
        purged = {db_id: tmp_path / path.name for db_id, path in files.items()}
        for db_id, path in files.items():
            purged[db_id].write_bytes(path.read_bytes())
            with closing(sqlite3.connect(purged[db_id])) as connection, connection:
                for table, columns in builder.SCHEMAS[db_id].items():
                    if "deleted_at" in columns:
                        connection.execute(f"DELETE FROM {table} WHERE deleted_at IS NOT NULL")
                    if "status" in columns:
                        connection.execute(f"DELETE FROM {table} WHERE status = 'X'")
        hanging = [
            pair["id"]
            for pair in PAIRS
            if not INCLUSIVE.search(pair["question"])
            and not same(
                rows(files[pair["db_id"]], pair["query"]),
                rows(purged[pair["db_id"]], pair["query"]),
            )
        ]
        assert hanging == []

    def test_leaving_out_any_one_convention_changes_the_answer(
        self, files: dict[str, Path]
    ) -> None:
        """So that each rule learned is paid for, and none is right by coincidence."""
        for pair in PAIRS:
            path = files[pair["db_id"]]
            gold = rows(path, pair["query"])
            for convention in pair["conventions"]:
                for slip in slips(convention, pair["query"]):
                    assert not same(rows(path, slip), gold), (pair["id"], slip)

    def test_sums_of_money_do_not_depend_on_the_order_of_arithmetic(
        self, files: dict[str, Path]
    ) -> None:
        money = [pair for pair in PAIRS if ") / 100.0" in pair["query"]]
        assert len(money) >= 8
        for pair in money:
            inside = pair["query"].replace(") / 100.0", " / 100.0)")
            assert same(
                rows(files[pair["db_id"]], pair["query"]), rows(files[pair["db_id"]], inside)
            )

    def test_no_limit_cuts_through_a_tie(self, files: dict[str, Path]) -> None:
        for pair in PAIRS:
            match = re.match(r"SELECT .* FROM (.* ORDER BY (\w+) DESC) LIMIT 1$", pair["query"])
            assert ("LIMIT" in pair["query"]) == bool(match)
            if match:
                keys = [
                    r[0] for r in rows(files[pair["db_id"]], f"SELECT {match[2]} FROM {match[1]}")
                ]
                assert keys[0] > keys[1]

    def test_a_note_speaks_of_its_conventions_and_not_of_the_answer(self) -> None:
        signs = {
            "cents": "100.0", "cancelled": "'X'", "deleted": "deleted_at", "dates": "LIKE",
            "fiscal_year": "BETWEEN", "full_name": "first_name ||", "column_order": "order",
        }  # fmt: skip
        for pair in PAIRS:
            for convention, sign in signs.items():
                if convention in pair["conventions"]:
                    assert sign in pair["note"], pair["id"]
            assert pair["query"] not in pair["note"]

    @pytest.mark.parametrize("order", ["of the file", "of seed 42"])
    def test_every_convention_comes_early_and_often(self, order: str) -> None:
        indices = np.arange(len(PAIRS))
        if order == "of seed 42":
            indices = np.random.default_rng(42).permutation(len(PAIRS))
        seen = Counter(c for i in indices[:36] for c in PAIRS[i]["conventions"] or ["none"])
        assert {c for c, n in seen.items() if n >= 3} == CONVENTIONS | {"none"}


class TestBenchmark:
    def test_labels_are_no_inputs(self) -> None:
        examples = house_rules.load()
        assert len(examples) == len(PAIRS)
        assert all(set(e.inputs().keys()) == {"db_schema", "question"} for e in examples)

    def test_limit_keeps_the_first(self) -> None:
        whole = house_rules.load()
        assert [e.id for e in house_rules.load(limit=5)] == [e.id for e in whole[:5]]
        with pytest.raises(ValueError, match="-1"):
            house_rules.load(limit=-1)

    def test_gold_is_right_and_informative_for_every_pair(self, judge: Any) -> None:
        for example in house_rules.load():
            verdict = judge(example, dspy.Prediction(sql=example.query))
            assert (verdict.score, verdict.informative) == (1.0, True), example.id
            assert example.query not in verdict.feedback
            assert example.note not in verdict.feedback

    def test_a_wrong_answer_gets_the_note_and_the_difference(self, judge: Any) -> None:
        example = next(e for e in house_rules.load() if e.conventions == ["cents"])
        naive = next(p["naive"] for p in PAIRS if p["id"] == example.id)
        verdict = judge(example, dspy.Prediction(sql=naive))
        assert verdict.score == 0.0
        assert verdict.informative
        assert verdict.feedback.startswith(example.note + "\n\n")
        assert len(verdict.feedback) > len(example.note) + 10
        assert example.query not in verdict.feedback

    def test_where_no_convention_is_at_stake_only_the_judge_speaks(self, judge: Any) -> None:
        example = next(e for e in house_rules.load() if not e.conventions)
        verdict = judge(example, dspy.Prediction(sql="SELECT 1, 2, 3"))
        assert verdict.score == 0.0
        assert "\n\n" not in verdict.feedback
        assert example.note not in verdict.feedback

    def test_a_judge_that_fails_says_nothing_of_the_house(self) -> None:
        example = house_rules.load(limit=1)[0]
        lost = house_rules.Review({}, workers=1)
        verdict = lost(example, dspy.Prediction(sql="SELECT 1"))
        assert math.isnan(verdict.score)
        assert example.note not in verdict.feedback

    def test_the_program_answers_and_takes_policy_and_examples(self) -> None:
        from dspy.utils import DummyLM

        example = house_rules.load(limit=1)[0]
        program = house_rules.program()
        fields = program.write_sql.signature.input_fields
        assert list(fields) == ["db_schema", "examples", "policy", "question"]
        with dspy.context(lm=DummyLM([{"sql": "SELECT 1"}])):
            assert program(**example.inputs()).sql == "SELECT 1"

    def test_the_oracle_policy_is_short(self) -> None:
        lines = house_rules.ORACLE_POLICY.splitlines()
        assert len(lines) == 6
        assert all(line.startswith("- ") and len(line) < 180 for line in lines)

    def test_the_card_is_true(self) -> None:
        card = house_rules.__doc__ or ""
        assert f"{len(PAIRS)} questions" in card
        assert f"house_rules-v{builder.VERSION}" in card
        assert all(f"``{name}``" in card for name in CONVENTIONS)
        example = next(p for p in PAIRS if p["question"] == "What is the total rent of all cafés?")
        assert example["query"] in card
        assert example["note"] in " ".join(card.split())

    def test_key_is_the_question(self) -> None:
        assert (
            house_rules.BENCHMARK.key({"db_schema": "t(a)", "question": "How many?"}) == "How many?"
        )


class TestPredictions:
    def test_json_lines_may_come_in_any_order_and_lack_some(self, tmp_path: Path) -> None:
        examples = house_rules.load(limit=3)
        path = tmp_path / "p.jsonl"
        given = [{"id": e.id, "prediction": e.query} for e in (examples[2], examples[0])]
        path.write_text("\n".join(map(json.dumps, given)) + "\n")
        found = house_rules.read_predictions(path, examples)
        assert [p.sql for p in found] == [examples[0].query, "", examples[2].query]

    def test_one_query_a_line_follows_the_whole_order(self, tmp_path: Path) -> None:
        path = tmp_path / "p.sql"
        path.write_text("\n".join(pair["query"] for pair in PAIRS) + "\n")
        examples = house_rules.load()[5:8]
        found = house_rules.read_predictions(path, examples)
        assert [p.sql for p in found] == [e.query for e in examples]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("SELECT 1\nSELECT 2\n", "2 lines"),
            ('{"id": "webshop-001"}\n', "line 1"),
            ('{"id": "webshop-999", "prediction": "x"}\n', "webshop-999"),
            ('{"id": "webshop-001", "prediction": "x"}\n' * 2, "comes twice"),
            ('{"id": "webshop-001", "prediction": "x"}\nSELECT 1\n', "line 2"),
        ],
    )
    def test_a_file_of_another_form_is_refused(
        self, tmp_path: Path, text: str, message: str
    ) -> None:
        path = tmp_path / "p"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            house_rules.read_predictions(path, house_rules.load(limit=1))

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="nowhere"):
            house_rules.read_predictions(tmp_path / "nowhere", house_rules.load(limit=1))
