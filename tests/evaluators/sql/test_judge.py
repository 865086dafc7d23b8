from __future__ import annotations

import copy
import hashlib
import inspect
import math
import os
import pickle
import sqlite3
import sys
import threading
import time
from pathlib import Path

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.testing.scripted import ScriptedLM, fields
from evaluators.sql import SCORINGS, ExecutionAccuracy
from evaluators.sql.runner import Limits

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT count(*) FROM r"
GOLD = "SELECT id FROM t"


@pytest.fixture(autouse=True)
def _by_cpu_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock too ends a query that gets too little CPU: on a busy machine any of these might.
    monkeypatch.setattr(Limits, "wall_seconds", 600.0)


def case(gold: str = GOLD, db: str = "shop") -> dspy.Example:
    return dspy.Example(db_id=db, query=gold, question="?").with_inputs("question")


@pytest.mark.parametrize("compare", SCORINGS)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT avg(value) FROM meter",
        'SELECT max(value) AS "value" FROM meter',
        "SELECT n FROM p",
        "SELECT count(DISTINCT city) FROM t WHERE city <> 'DISTINCT value'",
    ],
)
def test_a_gold_query_scores_one_against_itself(judge, compare: str, sql: str) -> None:
    verdict = judge(sql, sql, compare)
    assert (verdict.score, verdict.informative) == (1.0, True), verdict.feedback


def test_sets_and_multisets_are_two_named_and_versioned_scorings(judge) -> None:
    verdicts = {
        name: [
            judge("SELECT name FROM fruit", "SELECT name FROM fruit GROUP BY name", name),
            judge("SELECT name FROM fruit ORDER BY price, name", "SELECT name FROM fruit", name),
        ]
        for name in ("repaired", "test_suite")
    }
    assert [v.score for v in verdicts["repaired"]] == [1.0, 1.0]
    assert [v.score for v in verdicts["test_suite"]] == [0.0, 0.0]
    assert {(v.compare, v.compare_version) for v in verdicts["test_suite"]} == {("test_suite", "1")}


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("SELECT id FROM t ORDER BY price DESC LIMIT 1", "tie"),
        ("SELECT id FROM t ORDER BY price LIMIT 1", "NULL comes first"),
        ("SELECT id FROM t ORDER BY qty DESC LIMIT 1", "numbers stored as text"),
        ("SELECT id FROM t LIMIT 2", "without ORDER BY"),
        ("SELECT id FROM t WHERE id = (SELECT id FROM t ORDER BY price DESC LIMIT 1)", "tie"),
        ("SELECT id FROM t ORDER BY random() LIMIT 1", "random()"),
    ],
)
def test_a_gold_answer_that_the_data_does_not_determine_teaches_nothing(
    judge, gold: str, reason: str
) -> None:
    verdict = judge(gold, gold)
    assert not verdict.informative
    assert "not determined by the data" in verdict.feedback
    assert reason in verdict.feedback


@pytest.mark.parametrize(
    "gold",
    [
        "SELECT id FROM t ORDER BY id DESC LIMIT 2",
        "SELECT price FROM t ORDER BY price DESC LIMIT 1",
        "SELECT city FROM t ORDER BY id LIMIT 9",
        "SELECT city FROM t WHERE price IS NOT NULL ORDER BY price LIMIT 1",
        "SELECT city FROM t ORDER BY city LIMIT 1",
        "SELECT city, count(*) FROM t GROUP BY city ORDER BY count(*) DESC LIMIT 1",
        "SELECT price FROM t WHERE price = (SELECT price FROM t ORDER BY price DESC LIMIT 1)",
    ],
)
def test_a_gold_answer_that_the_data_determines_teaches(judge, gold: str) -> None:
    verdict = judge(gold, gold)
    assert (verdict.score, verdict.informative) == (1.0, True), verdict.feedback


def test_an_order_that_the_sort_key_leaves_open_is_not_taught(judge) -> None:
    gold = "SELECT name, price FROM fruit ORDER BY length(name) > 0"
    verdict = judge(gold, "SELECT name, price FROM fruit ORDER BY name DESC", "test_suite")
    assert (verdict.score, verdict.informative) == (0.0, False)
    verdict = judge("SELECT id FROM t ORDER BY id", "SELECT id FROM t ORDER BY -id", "test_suite")
    assert (verdict.score, verdict.informative) == (0.0, True)
    assert verdict.feedback == "The right rows in another order: row 1 is (4), expected (1)."


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("SELECT id FROM t WHERE city='Atlantis'", "SELECT id FROM t WHERE 0"),
        ("SELECT id FROM t WHERE city='Atlantis'", "SELECT price FROM t WHERE city='X'"),
        ("SELECT avg(price) FROM t WHERE 0", "SELECT max(price) FROM t WHERE 0"),
        ("SELECT count(*) FROM void", "SELECT count(a) FROM void"),
    ],
)
def test_agreeing_on_nothing_counts_but_teaches_nothing(judge, gold: str, answer: str) -> None:
    verdict = judge(gold, answer)
    assert (verdict.score, verdict.informative) == (1.0, False)
    assert "proves nothing" in verdict.feedback


def test_a_count_of_zero_over_rows_that_exist_teaches(judge) -> None:
    assert judge("SELECT count(*) FROM t WHERE id > 9", "SELECT 0").informative


def test_the_faithful_scoring_calls_every_empty_result_wrong_and_teaches_nothing(judge) -> None:
    gold = "SELECT id FROM t WHERE 0"
    verdict = judge(gold, gold, "faithful")
    assert (verdict.score, verdict.informative) == (0.0, False)
    verdict = judge(GOLD, gold, "faithful")
    assert (verdict.score, verdict.informative) == (0.0, True)
    assert judge(GOLD, "select id from t", "faithful").kind == "sql"


def test_text_that_is_not_utf8_is_told_apart(judge) -> None:
    first, second = (f"SELECT n FROM p WHERE rowid = {i}" for i in (1, 2))
    assert judge(first, first).score == 1.0
    verdict = judge(first, second)
    assert verdict.score == 0.0
    assert verdict.feedback == r"The row is wrong: got ('Alb\xfb'), expected ('Alb\xfa')."


@pytest.mark.parametrize(
    ("gold", "answer", "compare", "feedback"),
    [
        ("SELECT id FROM t", "SELECT nope FROM t", "repaired", "SQL error: no such column: nope."),
        (
            "SELECT city FROM t WHERE id = 1",
            "SELECT id, city FROM t WHERE id = 1",
            "repaired",
            "The result has 2 columns (id, city); expected 1 (city).",
        ),
        (
            "SELECT id, city FROM t",
            "SELECT city, id FROM t",
            "repaired",
            "The right columns in another order: got (city, id), expected (id, city).",
        ),
        (
            "SELECT id FROM t",
            "SELECT id FROM t WHERE price > 10",
            "repaired",
            "The query returns 2 rows; expected 4. Missing: (1) and 1 more.",
        ),
        (
            "SELECT id, qty FROM t",
            "SELECT id, coalesce(qty, 0) q FROM t",
            "repaired",
            "1 of 4 rows are wrong: got (4, 0), expected (4, NULL) in column 2 (qty).",
        ),
        (
            "SELECT name FROM fruit",
            "SELECT name FROM fruit UNION ALL SELECT 'pear'",
            "test_suite",
            "Extra duplicate rows: ('pear') comes 2 times, expected 1 (4 rows in all, expected 3).",
        ),
        (
            "SELECT id FROM t",
            "SELECT id FROM t WHERE 0",
            "repaired",
            "The query returns no rows; expected 4 rows, the first (1).",
        ),
        (
            "SELECT count(*) FROM t",
            "SELECT printf('%.*c', 99, 'x') || char(10)",
            "repaired",
            f"The row is wrong: got ('{'x' * 40}…'), expected (4).",
        ),
    ],
)
def test_feedback_names_the_first_difference(
    judge, gold: str, answer: str, compare: str, feedback: str
) -> None:
    assert judge(gold, answer, compare).feedback == feedback


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("WITH x AS (SELECT 1) DELETE FROM t WHERE id=1 -- limit", "forbidden"),
        ("ATTACH DATABASE 'evil.db' AS e", "forbidden"),
        ("PRAGMA writable_schema=1", "forbidden"),
        ("SELECT * FROM pragma_table_info('t')", "forbidden"),
        ("SELECT load_extension('x')", "forbidden"),
        ("VACUUM INTO 'evil.db'", "forbidden"),
        ("DROP TABLE t", "forbidden"),
        ("CREATE TEMP TABLE x(a)", "forbidden"),
        ("BEGIN", "forbidden"),
        ("REINDEX", "no result"),
        ("SELECT zeroblob(1000000000)", "sql"),
        ("SELECT a.a FROM big a, big b", "rows"),
        ("-- only a comment", "no statement"),
        ("SELECT 1; SELECT 2", "multiple statements"),
        ("SELECT id FROM t WHERE ?", "sql"),
        ("SELECT 'a\0'", "sql"),
        ("SELECT '\ud800'", "sql"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "sql"),
        ("I cannot answer that.", "sql"),
        (None, "no statement"),
    ],
)
@pytest.mark.parametrize("gold", [GOLD, "SELECT id FROM t WHERE 0"], ids=["rows", "empty"])
def test_a_hostile_or_useless_answer_is_wrong_and_leaves_no_trace(
    judge, shop: Path, monkeypatch, tmp_path: Path, gold: str, answer: str | None, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = _state(shop)
    verdict = judge(gold, answer)
    assert (verdict.score, verdict.kind) == (0.0, kind), verdict.feedback
    assert _state(shop) == before
    assert not list(tmp_path.iterdir())
    assert judge(GOLD, GOLD).score == 1.0


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (ENDLESS, {"timeout"}),
        ("SELECT count(*) FROM big a, big b, big c", {"timeout"}),
        # One long C function: the progress handler is never asked.
        ("SELECT printf('%.*c', 1000000000, 'x')", {"timeout", "difference"}),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 2000) "
            "SELECT group_concat(printf('%.*c', 9000, 'x')) FROM r",
            {"sql"},
        ),
    ],
    ids=["endless", "cross join", "huge string", "huge value"],
)
def test_a_query_without_bounds_is_stopped(judge, answer: str, kinds: set[str]) -> None:
    verdict = judge(GOLD, answer)
    assert verdict.score == 0.0
    assert verdict.kind in kinds
    assert judge(GOLD, GOLD).score == 1.0


def test_a_query_that_needs_too_much_memory_is_wrong(shop: Path) -> None:
    answer = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r LIMIT 400000) "
        "SELECT n || printf('%.*c', 200, 'x') FROM r ORDER BY 1 LIMIT 1 OFFSET 300000"
    )
    with ExecutionAccuracy(shop, memory_mb=16) as judge:
        assert judge(case(), dspy.Prediction(sql=answer)).kind == "memory"
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0


def test_eight_endless_queries_at_once_all_end_and_use_no_cpu_afterwards(shop: Path) -> None:
    kinds: list[str] = []
    with ExecutionAccuracy(shop, timeout=0.2) as judge:
        threads = [
            threading.Thread(
                target=lambda: kinds.append(judge(case(), dspy.Prediction(sql=ENDLESS)).kind)
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert kinds == ["timeout"] * 8
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0
        workers = [worker.process for worker in judge._runner._idle]
        assert 1 <= len(workers) <= judge.workers
        if sys.platform == "linux":
            assert all(_waits(process.pid) for process in workers)
    assert all(process.poll() is not None for process in workers)


def test_a_query_that_gets_too_little_cpu_is_not_judged(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExecutionAccuracy(shop, timeout=3600) as judge:
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0  # the gold result is kept
        monkeypatch.setattr(Limits, "wall_seconds", 0.05)
        verdict = judge(case(), dspy.Prediction(sql=ENDLESS))
        assert (math.isnan(verdict.score), verdict.kind) == (True, "not judged")
        assert "too busy to run the query: no answer within 0.05 s" in verdict.feedback
        monkeypatch.setattr(Limits, "wall_seconds", 600.0)
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0


def test_a_worker_that_died_is_replaced(shop: Path) -> None:
    with ExecutionAccuracy(shop, workers=1) as judge:
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0
        judge._runner._idle[0].process.kill()
        judge._runner._idle[0].process.wait()
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_judges_with_workers_of_its_own(shop: Path) -> None:
    with ExecutionAccuracy(shop) as judge:
        assert judge(case(), dspy.Prediction(sql=GOLD)).score == 1.0
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if judge(case("SELECT 1"), dspy.Prediction(sql="SELECT 1")).score else 2
                judge.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert judge(case("SELECT 2"), dspy.Prediction(sql="SELECT 2")).score == 1.0


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty", b""), ("text", b"hello" * 1000), ("corrupt", None), ("missing", None)],
)
def test_a_database_at_fault_is_not_judged(
    shop: Path, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if name == "corrupt":
        content = (shop / "shop.sqlite").read_bytes()[:4096] + b"\xff" * 20000
    if content is not None:
        (tmp_path / f"{name}.sqlite").write_bytes(content)
    with ExecutionAccuracy(tmp_path) as judge:
        verdict = judge(case(db=name), dspy.Prediction(sql=GOLD))
    assert math.isnan(verdict.score)
    assert verdict.kind == "not judged"
    assert not verdict
    assert name in verdict.feedback
    with (
        ExecutionAccuracy(tmp_path, raises=True) as judge,
        pytest.raises(EvaluationFailed, match=name),
    ):
        judge(case(db=name), dspy.Prediction(sql=GOLD))


def test_a_gold_query_that_fails_is_not_judged(judge) -> None:
    verdict = judge("SELECT nope FROM t", GOLD)
    assert math.isnan(verdict.score)
    assert "the gold query fails on shop: SQL error: no such column: nope" in verdict.feedback


def test_a_database_in_wal_mode_is_read_without_new_files(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "wal.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t(id)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    with ExecutionAccuracy(tmp_path) as judge:
        verdict = judge(case(db="wal"), dspy.Prediction(sql=GOLD))
        assert "not in the file yet" in verdict.feedback
        assert math.isnan(verdict.score)
        connection.close()
        before = _state(tmp_path)
        assert judge(case(db="wal"), dspy.Prediction(sql=GOLD)).score == 1.0
    assert _state(tmp_path) == before


def test_gold_results_are_kept_until_the_file_changes(shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    path.write_bytes((shop / "shop.sqlite").read_bytes())
    with ExecutionAccuracy(tmp_path) as judge:
        ran: list[str] = []
        run = judge._runner.run
        judge._runner.run = lambda database, sql, **more: (  # type: ignore[method-assign]
            ran.append(sql),
            run(database, sql, **more),
        )[1]
        for _ in range(3):
            assert judge(case(), dspy.Prediction(sql="SELECT 1 + id - 1 FROM t")).score == 1.0
        assert ran.count(GOLD) == 1
        connection = sqlite3.connect(path)
        connection.execute("DELETE FROM t WHERE id = 1")
        connection.commit()
        connection.close()
        os.utime(path, ns=(1, 1))
        assert judge(case(), dspy.Prediction(sql="SELECT id FROM t WHERE id > 1")).score == 1.0
        assert ran.count(GOLD) == 2


def test_a_judge_can_be_copied_pickled_and_given_files_by_name(shop: Path) -> None:
    with ExecutionAccuracy({"x": shop / "shop.sqlite"}, compare="test_suite") as judge:
        assert judge(case(db="x"), dspy.Prediction(sql=GOLD)).score == 1.0
        for other in (copy.deepcopy(judge), pickle.loads(pickle.dumps(judge))):
            with other:
                assert other(case(db="x"), dspy.Prediction(sql=GOLD)).compare == "test_suite"
        assert math.isnan(judge(case(db="y"), dspy.Prediction(sql=GOLD)).score)


def test_wrong_arguments_and_missing_fields_name_the_remedy(judges, shop: Path) -> None:
    with pytest.raises(ValueError, match=r"repaired, faithful, test_suite; got 'bird'"):
        ExecutionAccuracy(shop, compare="bird")
    with pytest.raises(ValueError, match="timeout must be more than 0"):
        ExecutionAccuracy(shop, timeout=0)
    with pytest.raises(ValueError, match=r"'sql' is missing from \(answer\)"):
        judges["repaired"](case(), dspy.Prediction(answer="SELECT 1"))
    with pytest.raises(ValueError, match="'query' is missing"):
        judges["repaired"](dspy.Example(db_id="shop"), dspy.Prediction(sql="SELECT 1"))


def test_it_serves_evaluate_and_the_five_arguments_of_gepa(judges) -> None:
    judge = judges["repaired"]
    inspect.signature(judge).bind(None, None, None, None, None)
    lm = ScriptedLM([fields(sql="SELECT id FROM t"), fields(sql="SELECT 1")])
    program = dspy.Predict("question -> sql")
    with dspy.context(lm=lm):
        result = dspy.Evaluate(devset=[case(), case()], metric=judge, num_threads=1)(program)
    assert result.score == 50.0


def test_a_wrong_answer_never_becomes_a_bootstrapped_demonstration(judges) -> None:
    lm = ScriptedLM(lambda messages: fields(sql="SELECT 1"))
    with dspy.context(lm=lm):
        compiled = dspy.BootstrapFewShot(metric=judges["repaired"], max_labeled_demos=0).compile(
            dspy.Predict("question -> sql"), trainset=[case(), case("SELECT 1")]
        )
    assert len(compiled.demos) == 1


def _state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def _waits(pid: int) -> bool:
    """True once the process sleeps; False if it is still running after a good while."""
    for _ in range(3000):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S":
            return True
        time.sleep(0.02)
    return False
