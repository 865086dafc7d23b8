from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.scoring import ScoreReport, score_predictions
from drpg_dspy.types import Benchmark


class Judge:
    compare_version = "7"

    def __init__(self) -> None:
        self.closed = 0

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> dspy.Prediction:
        if prediction.answer == "fail":
            raise EvaluationFailed("no verdict")
        if prediction.answer == "nan":
            return dspy.Prediction(score=math.nan, feedback="silent")
        if prediction.answer == "half":
            return dspy.Prediction(score=0.5, feedback="half \ud800")
        score = float(prediction.answer == example.answer)
        return dspy.Prediction(score=score, feedback="", informative=example.answer != "b")

    def close(self) -> None:
        self.closed += 1


def toy(judge: Judge, **changes: Any) -> Benchmark:
    def load(data: Any = None, *, exclude_db: tuple[str, ...] = ()) -> list[dspy.Example]:
        names = [name for name in "abcde" if name not in exclude_db]
        return [dspy.Example(id=name, answer=name).with_inputs() for name in names]

    def read(path: Any, examples: Any) -> list[dspy.Prediction]:
        lines = dict(zip("abcde", Path(path).read_text().split(), strict=True))
        return [dspy.Prediction(answer=lines[example.id]) for example in examples]

    settings: dict[str, Any] = {
        "name": "toy", "title": "", "paper": "", "licence": "", "metric": "exact", "k": 4,
        "load": load, "program": lambda: None, "key": str, "compares": ("strict", "loose"),
        "evaluator": lambda data, compare: judge, "read_predictions": read,
    }  # fmt: skip
    return Benchmark(**{**settings, **changes})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "predictions.txt"
    file.write_text("a b half fail nan")
    return file


def test_what_is_not_judged_counts_in_n_and_adds_nothing(path: Path) -> None:
    judge = Judge()
    report = score_predictions(toy(judge), None, path)
    assert report == ScoreReport("toy", 0.5, 5, 2, 2, 1, "strict", "7")
    assert (report.missing, report.left_out) == (0, 0)
    assert list(report.as_dict())[:5] == ["benchmark", "score", "n", "correct", "not_judged"]
    assert judge.closed == 1


def test_rows_hold_one_verdict_a_line_with_null_for_no_verdict(path: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    score_predictions(
        toy(Judge()), None, path, compare="loose", exclude_db=["b"], rows_path=rows, workers=3
    )
    verdicts = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(v["id"], v["score"]) for v in verdicts] == [
        ("a", 1.0), ("c", 0.5), ("d", None), ("e", None),
    ]  # fmt: skip
    assert verdicts[2]["feedback"] == "no verdict"
    assert {(v["compare"], v["compare_version"]) for v in verdicts} == {("loose", "7")}


def test_a_benchmark_with_one_scoring_gets_no_compare_argument(path: Path) -> None:
    judge = Judge()
    benchmark = toy(judge, compares=(), evaluator=lambda data: judge)
    assert score_predictions(benchmark, None, path).compare == ""


def test_pairs_are_judged_and_written_in_the_order_of_the_file(path: Path, tmp_path: Path) -> None:
    def read(path: Any, examples: Any) -> list[tuple[Any, dspy.Prediction]]:
        return [
            (examples[2], dspy.Prediction(answer="c")),
            (examples[0], dspy.Prediction(answer="b")),
        ]

    rows = tmp_path / "rows.jsonl"
    report = score_predictions(toy(Judge(), read_predictions=read), None, path, rows_path=rows)
    verdicts = [json.loads(line) for line in rows.read_text().splitlines()]
    assert (report.n, report.correct, report.missing, report.left_out) == (2, 1, 3, 3)
    assert [(v["id"], v["score"]) for v in verdicts] == [("c", 1.0), ("a", 0.0)]


def test_a_judge_may_add_to_its_row_but_not_replace_what_every_row_has(
    path: Path, tmp_path: Path
) -> None:
    def judge(example: Any, prediction: Any, trace: Any = None) -> dspy.Prediction:
        extra = None if example.id == "b" else {"parts": [example.id], "score": "mine"}
        return dspy.Prediction(score=1.0, feedback="", row=extra)

    rows = tmp_path / "rows.jsonl"
    benchmark = toy(Judge(), evaluator=lambda data, compare: judge)
    score_predictions(benchmark, None, path, rows_path=rows)
    verdicts = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [v.get("parts") for v in verdicts] == [["a"], None, ["c"], ["d"], ["e"]]
    assert {v["score"] for v in verdicts} == {1.0}


@pytest.mark.parametrize("nothing", [None, "", " \n", [], {}])
def test_a_prediction_that_says_nothing_is_missing(path: Path, nothing: Any) -> None:
    answers = [nothing, "b", nothing, 0, False]

    def read(path: Any, examples: Any) -> list[dspy.Prediction]:
        return [dspy.Prediction(answer=answer, other=None) for answer in answers]

    report = score_predictions(toy(Judge(), read_predictions=read), None, path)
    assert (report.n, report.correct, report.missing, report.left_out) == (5, 1, 2, 0)


def test_a_file_without_any_prediction_is_refused(path: Path, tmp_path: Path) -> None:
    benchmark = toy(Judge(), read_predictions=lambda path, all: [dspy.Prediction(answer="")] * 5)
    with pytest.raises(ValueError, match="no prediction for any of the 5 examples"):
        score_predictions(benchmark, None, path)
    for content in (b"", b" \r\n", b"\xef\xbb\xbf", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"predictions\.txt is empty: it holds no prediction"):
            score_predictions(benchmark, None, path)
    with pytest.raises(ValueError, match=r"nowhere cannot be read: No such file"):
        score_predictions(benchmark, None, tmp_path / "nowhere")


def test_too_few_predictions_are_refused(path: Path) -> None:
    few = toy(Judge(), read_predictions=lambda path, examples: [dspy.Prediction(answer="a")])
    with pytest.raises(ValueError, match="gave 1 predictions for 5 examples"):
        score_predictions(few, None, path)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"compare": "odd"}, "has the scorings: strict, loose; got 'odd'"),
        ({}, {"split": "test"}, "takes no argument .split."),
        ({}, {"workers": 0}, "at least 1"),
        ({}, {"exclude_db": list("abcde")}, "No examples of toy are left"),
        ({}, {"rows_path": "/nowhere/rows.jsonl"}, "cannot be written"),
        ({"read_predictions": None}, {}, "not scored from a file"),
    ],
)
def test_a_users_mistake_is_named(
    path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        score_predictions(toy(Judge(), **changes), None, path, **options)
