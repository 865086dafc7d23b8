"""The assistant of an invented shop, played by a script, that reports to MLflow.

As a program it answers: each line on stdin is a question, and what its LM was shown comes back as
one line of JSON. ::

    python scripted_shop.py MEMORY TRACKING_URI
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path

os.environ.setdefault("DRPG_EMBEDDER", "hashing")

import dspy

from drpg_dspy import DRPG, OnlinePolicyOptimizer
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.tracking import MLflowTracker

NAME = "shop"
EXPERIMENT = "shop assistant"
PROMPT = "shop.self.policy"
ROUTE = "self"
FOLLOW_EVERY = 0.2
SCHEMA = """\
CREATE TABLE orders (id INTEGER, customer INTEGER, day TEXT, amount INTEGER, status TEXT);
CREATE TABLE customer (id INTEGER, first_name TEXT, last_name TEXT, deleted_at TEXT);"""

# What a question is about; the rule that answers it; SQL without and with that rule.
LESSONS = {
    "revenue": (
        "Money is in cents: divide amount by 100.0.",
        "SELECT SUM(amount) FROM orders WHERE day LIKE '{day}%'",
        "SELECT SUM(amount) / 100.0 FROM orders WHERE day LIKE '{day}%'",
        "amount holds cents; report euros.",
    ),
    "orders": (
        "Never count cancelled orders: status <> 'X'.",
        "SELECT COUNT(*) FROM orders WHERE day LIKE '{day}%'",
        "SELECT COUNT(*) FROM orders WHERE day LIKE '{day}%' AND status <> 'X'",
        "Cancelled orders (status X) do not count.",
    ),
    "customers": (
        "Leave out deleted customers: deleted_at IS NULL.",
        "SELECT first_name FROM customer WHERE id < {day}",
        "SELECT first_name FROM customer WHERE id < {day} AND deleted_at IS NULL",
        "Customers with a deleted_at are gone.",
    ),
}
ASKED = {
    "revenue": "What was the revenue in month {day}?",
    "orders": "How many orders came in month {day}?",
    "customers": "Which customers have a number below {day}?",
}


def question(n: int) -> str:
    """Return the n-th question, from 0."""
    return ASKED[list(LESSONS)[n % 3]].format(day=202401 + n // 3)


def _topic(text: str) -> str:
    return next((topic for topic in LESSONS if topic in text), "")


def _coach(prompt: str) -> str:
    """Write a rule for each topic of which a wrong case is shown, and one on the newest month."""
    wrong = prompt.rpartition("[[ ## wrong_cases ## ]]")[2].partition("[[ ## right_cases")[0]
    right = prompt.rpartition("[[ ## right_cases ## ]]")[2]
    rules = [rule for topic, (rule, *_) in LESSONS.items() if topic in wrong]
    months = [month for month in range(202401, 202425) if str(month) in right]
    rules += [f"Months up to {max(months)} follow the same conventions."] if months else []
    return json.dumps({"rules": rules})


def _answer(prompt: str) -> str:
    asked = prompt.rpartition("[[ ## question ## ]]")[2]
    rule, naive, right, _ = LESSONS[_topic(asked) or "orders"]
    digits = "".join(c for c in asked if c.isdigit())[:6]
    return fields(sql=(right if rule in prompt else naive).format(day=digits))


def _reply(messages: list[dict[str, str]]) -> str:
    text = "\n\n".join(message["content"] for message in messages)
    return _coach(text) if "coach" in messages[0]["content"] else _answer(text)


def learner(
    memory: Path, tracking_uri: str | None = None
) -> tuple[OnlinePolicyOptimizer, ScriptedLM]:
    """Return the assistant and its LM; without an address it reports to nobody."""
    tracker = None
    if tracking_uri is not None:
        tracker = MLflowTracker(
            EXPERIMENT, tracking_uri=tracking_uri, run_name=NAME, follow_every=FOLLOW_EVERY
        )
    lm = ScriptedLM(_reply)
    program = dspy.Predict(
        dspy.Signature("db_schema, question -> sql", "Answer the question in SQL.")
    )
    program.lm = lm
    online = OnlinePolicyOptimizer(
        program,
        DRPG(k=6, policy_lm=lm),
        memory=SQLiteMemory(memory, HashingEmbedder(64)),
        tracker=tracker,
        name=NAME,
    )
    return online, lm


def serve(online: OnlinePolicyOptimizer, count: int, begin: int = 0) -> None:
    """Answer questions and learn from the reviewer's verdict on each."""
    for n in range(begin, begin + count):
        asked = question(n)
        prediction = online(db_schema=SCHEMA, question=asked)
        _, _, right, note = LESSONS[_topic(asked)]
        correct = prediction.sql == right.format(day=202401 + n // 3)
        online.feedback(
            prediction.rollout_id, float(correct), "" if correct else note, author="person:reviewer"
        )


def main() -> None:
    """Answer what comes on stdin."""
    online, lm = learner(Path(sys.argv[1]), sys.argv[2])
    with closing(online):
        for line in sys.stdin:
            online(db_schema=SCHEMA, question=line.strip())
            print(json.dumps(lm.texts()[-1]), flush=True)


if __name__ == "__main__":
    main()
