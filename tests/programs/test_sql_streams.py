"""The text-to-SQL programs under the methods, with a language model that a function plays."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields
from programs import bird, cosql, spider

PAIRS = [
    ("How many goods are there?", "SELECT count(*) FROM goods"),
    ("And the dearest one?", "SELECT Name FROM goods ORDER BY Price DESC LIMIT 1"),
    ("What does it cost?", "SELECT max(Price) FROM goods"),
    ("List the names.", "SELECT Name FROM goods"),
    ("Now with prices.", "SELECT Name, Price FROM goods"),
    ("Only the cheap ones.", "SELECT Name, Price FROM goods WHERE Price < 2"),
]
RIGHT = {0, 2, 3, 5}  # the answers that the model gets right
RULE = "Name the columns in the order of the question"
METHODS: dict[str, Callable[[], OnlineOptimizer]] = {
    "zero_shot": lambda: ZeroShot(),
    "self_stream_icl": lambda: SelfStreamICL(k=4),
    "drpg": lambda: DRPG(k=4),
}
CONTEXT = {"spider": "", "cosql": "history", "bird": "evidence"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with all three benchmarks on one database of Spider's and BIRD's form."""
    for folder in ("spider/database", "bird/dev_databases"):
        shop = tmp_path / folder / "shop"
        shop.mkdir(parents=True)
        connection = sqlite3.connect(shop / "shop.sqlite")
        connection.executescript(
            "CREATE TABLE goods(Name TEXT, Price REAL);"
            "INSERT INTO goods VALUES ('pen', 1.5), ('ink', 7), ('nib', 1);"
        )
        connection.close()
    (tmp_path / "cosql").mkdir()
    turns = [{"utterance": question, "query": sql} for question, sql in PAIRS]
    files = {
        "spider/dev.json": [{"db_id": "shop", "question": q, "query": s} for q, s in PAIRS],
        "bird/dev.json": [
            {"db_id": "shop", "question": q, "SQL": s, "evidence": f"hint {n} on goods"}
            for n, (q, s) in enumerate(PAIRS)
        ],
        "cosql/cosql_dev.json": [
            {"database_id": "shop", "interaction": turns[:3]},
            {"database_id": "shop", "interaction": turns[3:]},
        ],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text(json.dumps(rows))
    return tmp_path


def reply(messages: list[Message]) -> str:
    if "coach" in messages[0]["content"]:
        return json.dumps({"rules": [RULE]})
    asked = messages[-1]["content"].rsplit("[[ ## question ## ]]", 1)[1]
    number = next(i for i, (question, _) in enumerate(PAIRS) if question in asked)
    return fields(sql=PAIRS[number][1] if number in RIGHT else f"SELECT {number}")


def part(prompt: list[Message], field: str) -> str:
    """The value of an input field in the prompt's last message."""
    text = prompt[-1]["content"].split(f"[[ ## {field} ## ]]\n", 1)[1]
    return text.split("[[ ## ", 1)[0].strip()


def meet(
    program: ModuleType, method: str, root: Path, order: list[int], **options: Any
) -> tuple[list[dspy.Example], list[list[Message]], list[list[Message]], float]:
    """Run a stream; return the examples met, the prompts for answers and policies, the score."""
    lm = ScriptedLM(reply)
    student = program.program()
    student.set_lm(lm)
    optimizer = METHODS[method]()
    if isinstance(optimizer, DRPG):
        optimizer.policy_lm = lm
    loaded = program.load(root, **options)
    examples = [loaded[i] for i in order]
    learner = OnlinePolicyOptimizer(
        student,
        optimizer,
        memory=SQLiteMemory(root / "memory.db", HashingEmbedder(32)),
        key=program.key,
    )
    with program.evaluator(root, workers=1) as metric, learner:
        summary = run_stream(learner, examples, metric)
    assert (summary.n, summary.failed, summary.not_judged) == (len(order), 0, 0)
    writing = [p for p in lm.prompts if "coach" in p[0]["content"]]
    answering = [p for p in lm.prompts if "coach" not in p[0]["content"]]
    return examples, answering, writing, summary.score


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("program", [spider, cosql, bird], ids=lambda p: p.BENCHMARK.name)
def test_every_program_runs_under_every_method(
    program: ModuleType, method: str, root: Path
) -> None:
    order = [3, 1, 5, 0, 4, 2]
    examples, answering, writing, score = meet(program, method, root, order)
    assert score == pytest.approx(len(RIGHT) / len(PAIRS))
    assert len(answering) == len(order)
    context = CONTEXT[program.BENCHMARK.name]
    for step, (example, prompt) in enumerate(zip(examples, answering, strict=True)):
        assert part(prompt, "db_schema") == example.db_schema
        assert part(prompt, "question").startswith(example.question)
        if context:
            assert part(prompt, context) == example[context]
        right = sum(number in RIGHT for number in order[:step])
        shown = part(prompt, "examples")
        expected = 0 if method == "zero_shot" else min(4, right)
        assert shown.count("question: ") == shown.count("sql: ") == expected
        assert "TEXT" not in shown  # no schema
        assert not context or f"{context}: " not in shown
        wanted = f"- {RULE}" if method == "drpg" and step else ""
        assert part(prompt, "policy") == wanted
    assert bool(writing) == (method == "drpg")


@pytest.mark.parametrize("method", list(METHODS))
def test_without_evidence_bird_has_no_field_for_it_under_any_method(
    method: str, root: Path
) -> None:
    order = [3, 1, 5, 0, 4, 2]
    _, answering, writing, score = meet(bird, method, root, order, evidence=False)
    assert score == pytest.approx(len(RIGHT) / len(PAIRS))
    texts = [message["content"] for prompt in [*answering, *writing] for message in prompt]
    assert not any("evidence" in text for text in texts)
    last = answering[-1]
    assert part(last, "policy") == (f"- {RULE}" if method == "drpg" else "")
    shots = 0 if method == "zero_shot" else 4
    assert part(last, "examples").count("sql: ") == min(shots, sum(n in RIGHT for n in order[:-1]))


@pytest.mark.parametrize("method", ["self_stream_icl", "drpg"])
def test_the_gold_query_of_a_turn_to_come_is_seen_in_a_history_alone(
    method: str, root: Path
) -> None:
    # The last turns come first: their histories hold the gold queries of the others.
    examples, answering, writing, _ = meet(cosql, method, root, [2, 5, 4, 1, 0, 3])
    for step, prompt in enumerate(answering):
        history = examples[step].history
        text = "\n".join(m["content"] for m in prompt)
        assert not history or history in text
        met = {f"sql: {example.query}" for example in examples[:step]}
        for coming in examples[step:]:
            elsewhere = text.replace(history, "") if history else text
            shown = [line for line in elsewhere.splitlines() if line.endswith(coming.query)]
            assert set(shown) <= met
    for prompt in writing:
        assert "SQL: " not in "\n".join(m["content"] for m in prompt)
