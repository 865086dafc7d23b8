"""What goes wrong around a wrapped pipeline is said, counted, and takes no answer down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from catalogue import PIPELINES, cast
from wild import fifty_labels

from drpg_dspy import DRPG, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder

PIPELINE = PIPELINES["fifty labels"]


def raising(example: Any, prediction: Any, trace: Any = None) -> float:
    raise KeyError("label")


METRICS: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (raising, "KeyError"),
    "returns None": (lambda example, prediction: None, "None"),
    "returns a word": (lambda example, prediction: "good", "'good'"),
    "returns 7": (lambda example, prediction: 7, "7"),
}


@pytest.fixture(autouse=True)
def _model() -> Any:
    with dspy.context(lm=cast(PIPELINE).small):
        yield


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    return SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())


@pytest.mark.parametrize("what", METRICS)
def test_an_answer_is_given_whatever_the_metric_does(
    memory: SQLiteMemory, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    metric, said = METRICS[what]
    online = OnlinePolicyOptimizer(fifty_labels.build(), DRPG(k=2), memory=memory, metric=metric)
    prediction = online(**PIPELINE.inputs(1), labels={"label": "mobile.bug"})

    assert prediction.label == "mobile.bug"
    assert online.unlearned == 1
    assert memory.count() == 0
    assert said in caplog.text
    assert online(**PIPELINE.inputs(2)).label == "mobile.bug"


@pytest.mark.parametrize("what", ["returns None", "returns a word", "returns 7"])
def test_late_labels_with_such_a_metric_are_refused(memory: SQLiteMemory, what: str) -> None:
    metric, said = METRICS[what]
    online = OnlinePolicyOptimizer(fifty_labels.build(), DRPG(k=2), memory=memory, metric=metric)
    prediction = online(**PIPELINE.inputs(1))

    with pytest.raises(ValueError, match=said):
        online.feedback(prediction.rollout_id, labels={"label": "mobile.bug"})
    assert memory.feedback(prediction.rollout_id) is None


def test_a_program_without_predictors_is_refused_with_the_remedy(memory: SQLiteMemory) -> None:
    class Rules(dspy.Module):
        def forward(self, message: str) -> dspy.Prediction:
            return dspy.Prediction(label=dspy.Predict("message -> label")(message=message).label)

    with pytest.raises(ValueError, match=r"Rules holds no predictor.*__init__"):
        OnlinePolicyOptimizer(Rules(), ZeroShot(), memory=memory)


def test_two_learners_of_one_name_share_what_they_learn_if_the_program_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = OnlinePolicyOptimizer(fifty_labels.build(), DRPG(k=2), name="desk")
    prediction = one(**PIPELINE.inputs(1))
    two = OnlinePolicyOptimizer(fifty_labels.build(), DRPG(k=2), name="desk")
    two.feedback(prediction.rollout_id, score=1.0)

    assert one.memory.count("correct") == 1
    with pytest.raises(ResumeMismatch, match="another program"):
        OnlinePolicyOptimizer(dspy.Predict("question -> answer"), DRPG(k=2), name="desk")
    assert one(**PIPELINE.inputs(2)).label == "mobile.bug"
