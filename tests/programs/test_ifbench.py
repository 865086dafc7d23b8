"""IFBench and IFEval: their rows, their programs, and files of responses."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest
from click.testing import CliRunner

from drpg_dspy.cli import cli
from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.scoring import score_predictions
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields
from evaluators.instructions import known
from programs import ifbench, ifeval
from programs._instruction_kinds import kinds_in

FILES = {ifbench: "IFBench_test.jsonl", ifeval: "input_data.jsonl"}
BOTH = pytest.mark.parametrize("benchmark", [ifbench, ifeval], ids=["ifbench", "ifeval"])
PLACES = [os.environ.get("DRPG_DATA"), Path(__file__).parents[2].parent / "shared" / "data"]


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "key": str(number),
        "prompt": f"Name {number} things. Do not use commas.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{"N": None, "keyword": None}],
        **changes,
    }


TWO = row(
    2,
    instruction_id_list=["format:list", "count:numbers"],
    kwargs=[{"sep": "-", "N": None}, {"N": 2.0, "sep": None}],
)


def folder(place: Path, rows: list[dict[str, Any]], benchmark: ModuleType = ifbench) -> Path:
    lines = [json.dumps(found, ensure_ascii=False) for found in rows]
    (place / FILES[benchmark]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def lines(place: Path, *rows: dict[str, Any]) -> Path:
    path = place / "said.jsonl"
    path.write_text("".join(json.dumps(found) + "\n" for found in rows))
    return path


@pytest.fixture
def data() -> Path:
    found = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)
    if found is None:
        pytest.skip("no benchmark data: neither DRPG_DATA nor ../shared/data")
    return found


@pytest.mark.benchmark_data
def test_the_first_instruction_of_every_prompt_is_told_from_its_words(data: Path) -> None:
    examples = ifbench.load(data)

    assert [ifbench.category(dict(one.inputs().items())) for one in examples] == [
        one.category for one in examples
    ]
    assert all(set(kinds_in(one.prompt)) == set(one.instruction_id_list) for one in examples)


def test_a_wording_that_is_not_known_is_of_no_category() -> None:
    assert ifbench.category({"prompt": "Name the sea."}) == ""
    assert ifbench.category({"prompt": "Use at least 3 unique words. Nest parentheses deep."}) == (
        "count:unique_word_count"
    )


@pytest.mark.benchmark_data
@pytest.mark.parametrize(("benchmark", "count", "ids"), [(ifbench, 300, 58), (ifeval, 541, 25)])
def test_every_row_of_the_data_has_its_checks(
    benchmark: ModuleType, count: int, ids: int, data: Path
) -> None:
    examples = benchmark.load(data)
    used = Counter(id for example in examples for id in example.instruction_id_list)
    assert len(examples) == count
    assert len(used) == ids
    assert set(used) <= set(known())
    judge = benchmark.evaluator()
    for example in examples:
        verdict = judge(example, f"Sure!\n{example.prompt}")
        assert len(verdict.row["loose"]["verdicts"]) == len(example.instruction_id_list)


@BOTH
def test_a_row_becomes_an_example_with_labels_to_route_by(
    benchmark: ModuleType, tmp_path: Path
) -> None:
    one, two = benchmark.load(folder(tmp_path, [row(1), TWO], benchmark))
    assert dict(one.inputs()) == {"prompt": one.prompt}
    assert (one.id, one.kwargs, one.category, one.family) == (
        "1", [{}], "punctuation:no_comma", "punctuation",
    )  # fmt: skip
    assert two.kwargs == [{"sep": "-"}, {"N": 2.0}]
    assert (two.category, two.categories) == ("format:list", ["format:list", "count:numbers"])
    assert (two.family, two.families) == ("format", ["format", "count"])
    assert len(benchmark.load(tmp_path, limit=1)) == 1
    assert benchmark.key(one.inputs()) == one.prompt


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1), row(1)], "row 2: the key '1' comes twice"),
        ([row(1), row(2, prompt=row(1)["prompt"])], "row 2: its prompt is that of an earlier"),
        ([row(1, prompt=" ")], "row 1: prompt must be a text"),
        ([row(1, kwargs=None)], "row 1: it has no kwargs"),
        ([row(1, instruction_id_list=[])], "must be a list with ids"),
        ([row(7, instruction_id_list=["odd:one"])], r"row 1 \(key 7\): Instruction 1: .*'odd:one'"),
        ([row(7, kwargs=[{"N": 3}])], r"row 1 \(key 7\): .*no_comma has no argument 'N'"),
        ([row(7, kwargs=[])], "got 0 for 1"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        ifbench.load(folder(tmp_path, rows))


@BOTH
def test_missing_data_and_a_negative_limit_are_refused(
    benchmark: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkDataMissing, match=FILES[benchmark]):
        benchmark.load(tmp_path)
    with pytest.raises(ValueError, match="limit must be 0 or more, got -1"):
        benchmark.load(folder(tmp_path, [row(1)], benchmark), limit=-1)


@BOTH
def test_predictions_are_paired_by_prompt_or_key_in_the_order_of_the_file(
    benchmark: ModuleType, tmp_path: Path
) -> None:
    examples = benchmark.load(folder(tmp_path, [row(1), TWO, row(3)], benchmark))
    said = lines(
        tmp_path,
        {"prompt": row(3)["prompt"], "response": "c", "model": "m"},
        {"key": 1, "prediction": None},
        {"id": "3", "response": "again"},
        {"prompt": f"{row(1)['prompt']}\n", "response": "trimmed"},
    )
    pairs = benchmark.read_predictions(said, examples)
    assert [(example.id, prediction.response) for example, prediction in pairs] == [
        ("3", "c"), ("1", ""), ("3", "again"), ("1", "trimmed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"prompt": "Never asked.", "response": "x"}, "1: no example has the prompt 'Never asked"),
        ({"key": 9, "response": "x"}, "no example has the key '9'"),
        ({"prompt": row(1)["prompt"]}, "got the fields prompt"),
        ({"response": "x"}, "got the fields response"),
        ({"key": 1, "response": ["x"]}, "response must be a text, got"),
    ],
)
def test_a_prediction_that_fits_no_example_is_named(
    line: dict[str, Any], message: str, tmp_path: Path
) -> None:
    examples = ifbench.load(folder(tmp_path, [row(1)]))
    with pytest.raises(ValueError, match=message):
        ifbench.read_predictions(lines(tmp_path, line), examples)
    with pytest.raises(ValueError, match="holds no prediction"):
        ifbench.read_predictions(lines(tmp_path), examples)


@pytest.mark.parametrize("benchmark", ["ifbench", "ifeval"])
def test_drpg_score_writes_both_forms_of_each_row_in_the_order_of_the_file(
    benchmark: str, tmp_path: Path
) -> None:
    module = {"ifbench": ifbench, "ifeval": ifeval}[benchmark]
    folder(tmp_path, [row(1), TWO, row(3)], module)
    said = lines(
        tmp_path,
        {"prompt": row(3)["prompt"], "response": "Yes, I will:\n- three things"},
        {"prompt": TWO["prompt"], "response": "- one of 2\n- no other"},
    )
    out = tmp_path / "rows.jsonl"
    result = CliRunner().invoke(
        cli,
        ["score", benchmark, "--data", str(tmp_path), "--predictions", str(said),
         "--rows", str(out), "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures.pop("compare_version").startswith("2")  # and what classifies words here
    assert figures == {
        "benchmark": benchmark, "score": 0.0, "n": 2, "correct": 0, "not_judged": 0,
        "missing": 1, "uninformative": 0, "compare": "strict",
        "subscores": {"followed": 0.25, "loose_all": 0.5, "strict_all": 0.0},
        "subscores_n": {"followed": 2, "loose_all": 2, "strict_all": 2},
    }  # fmt: skip
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [{name: found[name] for name in ("prompt", "strict", "loose")} for found in rows] == [
        {
            "prompt": row(3)["prompt"],
            "strict": {"follow_all": False, "verdicts": [False]},
            "loose": {"follow_all": True, "verdicts": [True]},
        },
        {
            "prompt": TWO["prompt"],
            "strict": {"follow_all": False, "verdicts": [True, False]},
            "loose": {"follow_all": False, "verdicts": [True, False]},
        },
    ]
    assert rows[1]["feedback"].endswith("count:numbers: asked for exactly 2 numbers, found 1")
    loose = score_predictions(module.BENCHMARK, tmp_path, said, compare="loose")
    assert (loose.score, loose.compare) == (0.5, "loose")


def answering(violations: str) -> ScriptedLM:
    def reply(messages: list[Message]) -> str:
        asked = messages[-1]["content"].rsplit("Respond with", 1)[-1]
        for name, value in {"repaired": "better", "violations": violations}.items():
            if f"## {name} ##" in asked:
                return fields(**{name: value})
        return fields(response="draft")

    return ScriptedLM(reply)


@pytest.mark.parametrize(
    ("violations", "response", "calls"),
    [("none", "draft", 2), ("None.", "draft", 2), ("asked for 5 numbers, found 2", "better", 3)],
)
def test_a_response_is_repaired_where_the_check_found_something(
    violations: str, response: str, calls: int, tmp_path: Path
) -> None:
    lm = answering(violations)
    example = ifbench.load(folder(tmp_path, [TWO]))[0]
    with dspy.context(lm=lm):
        got = ifbench.program()(**example.inputs())
    assert (got.response, got.draft, got.violations) == (response, "draft", violations)
    assert len(lm.texts()) == calls
    shown = "\n".join(lm.texts())
    assert "format:list" not in shown
    assert "count:numbers" not in shown


def test_the_programs_have_named_predictors_with_places_for_a_policy() -> None:
    assert [name for name, _ in ifbench.program().named_predictors()] == [
        "generate", "check", "repair",
    ]  # fmt: skip
    assert [name for name, _ in ifeval.program().named_predictors()] == ["respond"]
    for program in (ifbench.program(), ifeval.program()):
        for _, predictor in program.named_predictors():
            assert "policy" in predictor.signature.input_fields


def test_ifeval_answers_in_one_call(tmp_path: Path) -> None:
    lm = answering("none")
    with dspy.context(lm=lm):
        assert ifeval.program()(prompt="Say it.").response == "draft"
    assert len(lm.texts()) == 1
