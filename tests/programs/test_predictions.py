"""Files of predictions with a byte order mark, in every form that a benchmark reads."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from programs import (
    bird,
    cosql,
    ddxplus,
    ds1000,
    halumem,
    hotpotqa,
    hotpotqa_two_hop,
    house_rules,
    hover,
    ifbench,
    ifeval,
    locomo,
    longmemeval,
    spider,
)

SQL = "SELECT 'é'"
FIRST = dspy.Example(
    id="dev-0001", db_id="shop", question="Which?", prompt="Say é.", library="Pandas",
    problem_id=0, line=1, lines=1,
)  # fmt: skip


def lines(**row: Any) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


BY_ID = lines(id="dev-0001", prediction=SQL)
SUBMISSION = lines(**{"0": f"{SQL}\t----- bird -----\tshop"})
FACTS = {"dev-0001": [["Moon", 0]]}
FORMS: list[tuple[ModuleType, str, str]] = [
    *((program, "sql", f"{SQL}\tshop\n") for program in (spider, cosql, bird)),
    *((program, "sql", BY_ID) for program in (spider, cosql, bird)),
    (bird, "sql", SUBMISSION),
    (hotpotqa, "answer", lines(answer={"dev-0001": SQL}, sp=FACTS)),
    (hotpotqa_two_hop, "answer", lines(answer={"dev-0001": SQL}, sp=FACTS)),
    *((p, "answer", BY_ID) for p in (hotpotqa, hotpotqa_two_hop, locomo, longmemeval, halumem)),
    (ddxplus, "diagnosis", BY_ID),
    (hover, "label", BY_ID),
    (ds1000, "code", BY_ID),
    (ds1000, "code", lines(id=0, code=SQL)),
    (ifeval, "response", lines(prompt="Say é.", response=SQL)),
    (ifbench, "response", lines(key="dev-0001", prediction=SQL)),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(("program", "field", "text"), FORMS)
def test_a_byte_order_mark_changes_neither_form_nor_answer(
    tmp_path: Path, program: ModuleType, field: str, text: str, encoding: str, ends: str
) -> None:
    path = tmp_path / "predictions"
    path.write_bytes(text.replace("\n", ends).encode(encoding))

    (found,) = program.read_predictions(path, [FIRST])
    prediction = found[1] if isinstance(found, tuple) else found
    assert prediction[field] == SQL


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_house_rules_too(tmp_path: Path, encoding: str) -> None:
    examples = house_rules.load()
    path = tmp_path / "predictions"
    for text in ("".join(f"{SQL}\n" for _ in examples), lines(id=examples[0].id, prediction=SQL)):
        path.write_bytes(text.encode(encoding))
        assert house_rules.read_predictions(path, examples)[0].sql == SQL
