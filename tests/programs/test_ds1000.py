from __future__ import annotations

import ast
import gzip
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import BenchmarkDataMissing
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG, OnlineOptimizer, SelfStreamICL, ZeroShot
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.scoring import score_predictions
from drpg_dspy.streaming import run_stream
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields
from drpg_dspy.types import OPEN_FIELD
from evaluators.code import extract_code, test_frame
from programs import ds1000

# Rows in DS-1000's form, of our own: the answer sets ``y`` to ``x`` with something done to it.
TASKS = [
    ("double", "x * 2"), ("halve", "x / 2"), ("square", "x ** 2"), ("negate", "-x"),
    ("increase by one", "x + 1"), ("reverse", "x[::-1]"),
]  # fmt: skip
RIGHT = {0, 2, 3, 5}  # the answers that the model gets right
RULE = "Use array arithmetic"
PROBLEM = """Problem:
How do I {task} an array, told apart by {task}?

A:
<code>
import numpy as np
x = np.arange(4)
</code>
y = ... # put solution in this variable
BEGIN SOLUTION
<code>
"""
CONTEXT = '''
import numpy as np
import copy

def generate_test_case(test_case_id):
    def generate_ans(data):
        x = data
        the_secret_reference = {solution}
        return the_secret_reference

    test_input = np.arange(4.0) + test_case_id
    return test_input, generate_ans(copy.deepcopy(test_input))

def exec_test(result, ans):
    np.testing.assert_allclose(result, ans)
    return 1

exec_context = r"""
import numpy as np
x = test_input
[insert]
result = y
"""

def test_execution(solution: str):
    code = exec_context.replace("[insert]", solution)
    for i in range(2):
        test_input, expected_result = generate_test_case(i + 1)
        test_env = {{"test_input": test_input}}
        exec(code, test_env)
        assert exec_test(test_env["result"], expected_result)
'''
METHODS: dict[str, Callable[[], OnlineOptimizer]] = {
    "zero_shot": lambda: ZeroShot(),
    "self_stream_icl": lambda: SelfStreamICL(k=4),
    "drpg": lambda: DRPG(k=4),
}
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="answers are confined by Linux"
)


def row(number: int, library: str = "Numpy", within: int | None = None) -> dict[str, Any]:
    task, solution = TASKS[number % len(TASKS)]
    return {
        "prompt": PROBLEM.format(task=task),
        "reference_code": f"y = {solution}\n",
        "metadata": {
            "problem_id": number, "library_problem_id": number if within is None else within,
            "library": library, "test_case_cnt": 2, "perturbation_type": "Origin",
            "perturbation_origin_id": number,
        },
        "code_context": CONTEXT.format(solution=solution),
    }  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the data as the hub has it."""
    data = tmp_path / "data"
    data.mkdir()
    write(data / "test.jsonl", [row(n) for n in range(6)] + [row(6, "Pandas", 0)])
    return data


@pytest.fixture(scope="session")
def real() -> Path:
    place = Path(os.environ.get("DRPG_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (place / "ds1000" / "ds1000.jsonl").is_file():
        pytest.skip("needs the DS-1000 data: set DRPG_DATA to the folder that holds ds1000/")
    return place


def test_examples_show_problem_and_frame_and_hide_the_labels(folder: Path) -> None:
    example = ds1000.load(folder)[1]
    assert set(example.inputs().keys()) == {"problem", "frame"}
    assert {"library", "code_context", "reference_code"} <= set(example.labels().keys())
    assert (example.id, example.problem_id) == ("numpy-0001", 1)
    assert example.frame == "import numpy as np\nx = test_input\n[insert]\nresult = y"
    assert ds1000.key(example.inputs()) == example.problem


def test_both_official_distributions_are_read(folder: Path) -> None:
    whole = ds1000.load(folder)
    (folder / "ds1000.jsonl.gz").write_bytes(gzip.compress((folder / "test.jsonl").read_bytes()))
    (folder / "test.jsonl").unlink()
    assert [dict(e) for e in ds1000.load(folder)] == [dict(e) for e in whole]
    (folder / "ds1000.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"ds1000\.jsonl\.gz cannot be read as gzipped"):
        ds1000.load(folder)


def test_libraries_and_limit_choose_and_keep_ids(folder: Path) -> None:
    assert [e.id for e in ds1000.load(folder, libraries=["pandas"])] == ["pandas-0000"]
    assert [e.id for e in ds1000.load(folder, libraries="Numpy", limit=2)] == [
        "numpy-0000", "numpy-0001",
    ]  # fmt: skip
    assert len(ds1000.load(folder)) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "dev"}, "has the split test; got 'dev'"),
        ({"limit": -1}, "0 or more, got -1"),
        ({"libraries": ["polars"]}, "names polars; DS-1000 has Pandas, Numpy"),
    ],
)
def test_a_wrong_argument_is_named(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ds1000.load(folder, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("code_context"), "Row 2 of DS-1000 lacks 'code_context'"),
        (lambda r: r["metadata"].pop("library"), "Row 2 of DS-1000 lacks 'library'"),
        (lambda r: r["metadata"].update(library="Polars"), "Row 2 of DS-1000: 'Polars'"),
        (lambda r: r["metadata"].update(library_problem_id=0), "numpy-0000 comes twice"),
        (lambda r: r.update(code_context="x = 1"), "Row 2 of DS-1000: .*no exec_context"),
        (lambda r: r.update(code_context="x = ("), "Row 2 of DS-1000"),
        (lambda r: r.update(metadata=None), "Row 2 of DS-1000 lacks"),
    ],
)
def test_a_damaged_row_is_named(folder: Path, change: Callable[[Any], Any], message: str) -> None:
    rows = [row(0), row(1)]
    change(rows[1])
    write(folder / "test.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        ds1000.load(folder)


def test_missing_data_says_what_gets_it(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkDataMissing, match="hf download xlangai/DS-1000"):
        ds1000.load(tmp_path / "nowhere")


def test_a_line_of_the_frame_that_gives_the_reference_away_is_hidden() -> None:
    context = 'exec_context = "import numpy as np\\n[insert]\\nresult = sorted(result, key=len)"'
    reference = "import numpy as np\nresult = sorted(result, key=len)"
    shown = ds1000.shown_frame(context, reference, "")
    assert shown == "import numpy as np\n[insert]\n..."
    assert "sorted" in ds1000.shown_frame(context, reference, f"Given\n{reference}")


def test_predictions_are_read_in_both_forms(folder: Path, tmp_path: Path) -> None:
    examples = ds1000.load(folder, libraries=["numpy"], limit=3)
    path = tmp_path / "p.jsonl"
    write(path, [{"id": e.id, "prediction": f"y = {e.id[-1]}"} for e in reversed(examples[1:])])
    found = ds1000.read_predictions(path, examples)
    assert [p.code for p in found] == ["", "y = 1", "y = 2"]
    write(path, [{"id": "pandas-0000", "prediction": "left out"}])
    assert [p.code for p in ds1000.read_predictions(path, examples)] == ["", "", ""]
    official = [
        {"id": 1, "code": "y = 1", "metadata": {"problem_id": 2}},
        {"id": 1, "code": ["y = 2", "y = 3"]},
        {"id": 6, "code": "left out"},
    ]
    write(path, official)
    assert [p.code for p in ds1000.read_predictions(path, examples)] == ["", "y = 2", "y = 1"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "numpy-9999", "prediction": "x"}], "no example 'numpy-9999'"),
        ([{"id": "numpy-0000", "prediction": "x"}] * 2, "comes twice"),
        ([{"id": 0, "code": "x"}] * 2, "the id 0 comes twice"),
        ([{"id": 0, "answer": "x"}], "got the fields id, answer"),
        ([{"id": "a", "code": "x"}], "expected"),
    ],
)
def test_a_file_of_another_form_is_refused(
    folder: Path, tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    write(tmp_path / "p.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        ds1000.read_predictions(tmp_path / "p.jsonl", ds1000.load(folder))


def test_the_program_asks_in_the_papers_order_and_returns_code(folder: Path) -> None:
    lm = ScriptedLM([fields(code="y = x")])
    example = ds1000.load(folder)[0]
    with dspy.context(lm=lm):
        assert ds1000.program()(**example.inputs()).code == "y = x"
    (prompt,) = lm.texts()
    assert prompt.rindex(example.frame) < prompt.rindex(example.problem.strip())
    inputs = ds1000.FillIn.input_fields
    assert list(inputs) == ["frame", "examples", "policy", "problem"]
    assert [f.json_schema_extra.get(OPEN_FIELD) for f in inputs.values()] == [
        None, "shots", "policy", None,
    ]  # fmt: skip


def test_the_benchmark_object_is_complete() -> None:
    assert ds1000.BENCHMARK.k == 4
    assert ds1000.BENCHMARK.compares == ("repaired", "faithful")


@on_linux
@pytest.mark.parametrize("compare", ["repaired", "faithful"])
def test_references_score_one_and_corrupted_ones_nothing(
    folder: Path, tmp_path: Path, compare: str
) -> None:
    write(folder / "test.jsonl", [row(n) for n in range(6)])
    path = tmp_path / "p.jsonl"
    examples = ds1000.load(folder)
    write(path, [{"id": e.problem_id, "code": e.reference_code} for e in examples])
    report = score_predictions(ds1000.BENCHMARK, folder, path, compare=compare)
    assert (report.n, report.correct, report.not_judged) == (6, 6, 0)
    write(path, [{"id": e.id, "prediction": e.reference_code + "y = y + 3"} for e in examples])
    report = score_predictions(ds1000.BENCHMARK, folder, path, compare=compare)
    assert (report.n, report.correct, report.not_judged) == (6, 0, 0)


def reply(messages: list[Message]) -> str:
    if "coach" in messages[0]["content"]:
        return json.dumps({"rules": [RULE]})
    asked = messages[-1]["content"].rsplit("[[ ## problem ## ]]", 1)[1]
    number = next(i for i, (task, _) in enumerate(TASKS) if f"told apart by {task}?" in asked)
    return fields(code=f"```python\ny = {TASKS[number][1] if number in RIGHT else 'None'}\n```")


@on_linux
@pytest.mark.parametrize("method", list(METHODS))
def test_the_program_runs_under_every_method(method: str, folder: Path) -> None:
    lm = ScriptedLM(reply)
    student = ds1000.program()
    student.set_lm(lm)
    optimizer = METHODS[method]()
    if isinstance(optimizer, DRPG):
        optimizer.policy_lm = lm
    examples = ds1000.load(folder, libraries=["Numpy"])
    learner = OnlinePolicyOptimizer(
        student,
        optimizer,
        memory=SQLiteMemory(folder / "memory.db", HashingEmbedder(32)),
        key=ds1000.key,
    )
    with ds1000.evaluator(workers=1, python=sys.executable) as metric, learner:
        summary = run_stream(learner, examples, metric)
    assert (summary.n, summary.failed, summary.not_judged) == (6, 0, 0)
    assert summary.score == pytest.approx(len(RIGHT) / len(TASKS))
    answering = [p for p in lm.prompts if "coach" not in p[0]["content"]]
    for step, prompt in enumerate(answering):
        shown = _part(prompt, "examples")
        right = sum(number in RIGHT for number in range(step))
        expected = 0 if method == "zero_shot" else min(4, right)
        assert shown.count("problem:\n") == shown.count("code:\n") == expected
        assert "test_input" not in shown  # no frame
        assert _part(prompt, "policy") == (f"- {RULE}" if method == "drpg" and step else "")
    for prompt in lm.prompts:
        assert not any("the_secret_reference" in message["content"] for message in prompt)


def _part(prompt: list[Message], field: str) -> str:
    text = prompt[-1]["content"].split(f"[[ ## {field} ## ]]\n", 1)[1]
    return text.split("[[ ## ", 1)[0].strip()


@pytest.mark.benchmark_data
def test_all_thousand_problems_load_and_show_nothing_of_their_references(real: Path) -> None:
    examples = ds1000.load(real)
    assert Counter(e.library for e in examples) == {
        "Pandas": 291, "Numpy": 220, "Matplotlib": 155, "Sklearn": 115, "Scipy": 106,
        "Pytorch": 68, "Tensorflow": 45,
    }  # fmt: skip
    assert [e.problem_id for e in examples] == list(range(1000))
    hidden = []
    for example in examples:
        shown = "\n".join(map(str, example.inputs().values()))
        for text in ("generate_test_case", "exec_test", "expected_result", "def test_execution"):
            assert text not in shown
        reference = example.reference_code.strip()
        assert reference not in example.frame or reference in example.problem, example.id
        for line in map(str.strip, reference.splitlines()):
            telling = len(line) >= 15 and not line.startswith(("import ", "from "))
            assert not (telling and line in example.frame.split("\n")) or line in example.problem
        if example.frame != test_frame(example.code_context):
            hidden.append(example.id)
    assert hidden == ["pandas-0286"]


@pytest.mark.benchmark_data
def test_every_reference_is_taken_from_a_reply_unchanged(real: Path) -> None:
    for example in ds1000.load(real):
        frame = test_frame(example.code_context)
        reference = example.reference_code
        assert extract_code(reference, frame, example.problem) == reference, example.id
        for dress in ("Sure:\n```python\n{}\n```\nIt works.", "{}\n</code>\nEND SOLUTION\nwords"):
            reply = dress.replace("{}", reference.rstrip("\n"))
            found = extract_code(reply, frame, example.problem)
            assert _program(frame, found) == _program(frame, reference), (example.id, found)


def _program(frame: str, code: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in a row's strings
        return ast.dump(ast.parse(frame.replace("[insert]", code)))


@on_linux
@pytest.mark.benchmark_data
def test_references_of_a_sample_pass_and_corrupted_ones_fail(real: Path) -> None:
    python = os.environ.get("DRPG_DS1000_PYTHON")
    if not python:
        pytest.skip("needs the pinned libraries: make ds1000, and set DRPG_DS1000_PYTHON")
    libraries = ("Pandas", "Numpy", "Scipy", "Sklearn", "Matplotlib")
    sample = [e for name in libraries for e in ds1000.load(real, libraries=[name])[::40]]
    with ds1000.evaluator(python=python) as judge:
        for example in sample:
            assert judge(example, example.reference_code).score == 1.0, example.id
            corrupted = judge(example, "raise ValueError\n")
            assert corrupted.score == 0.0
            assert corrupted.processes == 2
