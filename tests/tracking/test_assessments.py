"""People review traces in MLflow; what they say there teaches the program."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

mlflow = pytest.importorskip("mlflow")

from mlflow.entities import AssessmentSource, Expectation  # noqa: E402
from mlflow.entities import Feedback as Assessment  # noqa: E402

from drpg_dspy import DRPG, OnlinePolicyOptimizer, ZeroShot  # noqa: E402
from drpg_dspy.memory import SQLiteMemory  # noqa: E402
from drpg_dspy.retrieval import HashingEmbedder  # noqa: E402
from drpg_dspy.testing import ScriptedLM, fields  # noqa: E402
from drpg_dspy.tracking import MLflowTracker, pull_feedback  # noqa: E402

ANN = AssessmentSource("HUMAN", "ann@example.com")
RULE = "Answer in French."


def script(messages: list[dict[str, str]]) -> str:
    if "You coach" in messages[0]["content"]:
        return f'{{"rules": ["{RULE}"]}}'
    return fields(reasoning="r", answer="oui" if RULE in messages[-1]["content"] else "yes")


@pytest.fixture(scope="module")
def store(mlflow_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all tests, each in an experiment of its own: opening one takes a while."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    shutil.copy(mlflow_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def traced(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # MLflow puts the artifacts of a database store under ./mlruns
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment(request.node.name)
    mlflow.dspy.autolog()
    yield
    mlflow.dspy.autolog(disable=True)
    mlflow.set_tracking_uri(None)


@pytest.fixture
def online(traced: None, tmp_path: Path) -> Iterator[OnlinePolicyOptimizer]:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder())
    program = dspy.ChainOfThought("question -> answer")
    with dspy.context(lm=ScriptedLM(script)):
        optimizer = DRPG(k=2, feedback_text=True)
        with OnlinePolicyOptimizer(program, optimizer, memory=memory, name="shop") as online:
            yield online


def _active() -> str:
    return str(mlflow.tracking.fluent._get_experiment_id())


def trace_of(rollout_id: str) -> Any:
    mlflow.flush_trace_async_logging()
    found = mlflow.MlflowClient().search_traces(
        locations=[_active()],
        filter_string=f"tags.`drpg.rollout_id` LIKE '%{rollout_id}%'",
        include_spans=False,
    )
    (trace,) = found
    return trace.info


def review(prediction: Any, value: Any, rationale: str = "", **options: Any) -> Any:
    """Leave an assessment on the trace of an answer, as MLflow's UI does."""
    trace_id = trace_of(prediction.rollout_id).trace_id
    made = mlflow.log_feedback(
        trace_id=trace_id, value=value, rationale=rationale, **{"source": ANN, **options}
    )
    return trace_id, made.assessment_id


# -- traces ------------------------------------------------------------------------------------


async def _streamed(online: OnlinePolicyOptimizer) -> Any:
    return [chunk async for chunk in dspy.streamify(online)(question="q")][-1]


WAYS: dict[str, Callable[[OnlinePolicyOptimizer], Any]] = {
    "called": lambda online: online(question="q"),
    "awaited": lambda online: asyncio.run(online.acall(question="q")),
    "streamed": lambda online: asyncio.run(_streamed(online)),
    "in a batch": lambda online: online.batch([dspy.Example(question="q").with_inputs("question")])[
        0
    ],
    "as a rollout": lambda online: dspy.Prediction(
        rollout_id=online.predict_one({"question": "q"}).id
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_trace_of_an_answer_names_it_without_any_tracker(
    online: OnlinePolicyOptimizer, way: str
) -> None:
    prediction = WAYS[way](online)

    tags = trace_of(prediction.rollout_id).tags
    assert tags["drpg.rollout_id"] == prediction.rollout_id
    assert tags["drpg.learner"] == "shop"


def test_the_trace_of_an_answer_names_its_policy_version(online: OnlinePolicyOptimizer) -> None:
    first = online(question="Open today?")
    online.feedback(first.rollout_id, score=0.0, text="In French!")

    assert trace_of(online(question="Open now?").rollout_id).tags["policy.predict.version"] == "1"


def test_a_call_of_a_learner_is_no_compilation(online: OnlinePolicyOptimizer) -> None:
    mlflow.dspy.autolog(log_compiles=True)
    online(question="q")
    mlflow.flush_trace_async_logging()

    assert mlflow.MlflowClient().search_runs(["0", _active()]) == []


def test_a_trace_with_several_answers_passes_its_verdict_on_to_each(
    online: OnlinePolicyOptimizer,
) -> None:
    @mlflow.trace
    def handle() -> list[Any]:
        return [online(question="Open?"), online(question="Closed?")]

    both = handle()
    review(both[0], False)
    pulled = pull_feedback(online)

    assert (pulled.traces, pulled.learned) == (1, 2)
    assert [online.memory.feedback(p.rollout_id).score for p in both] == [0.0, 0.0]


def test_a_tracker_adds_its_run_to_the_tags(online: OnlinePolicyOptimizer) -> None:
    online.tracker = MLflowTracker("shop")
    online.tracker.run_id = "run 7"
    tags = trace_of(online(question="q").rollout_id).tags

    assert (tags["drpg.run_id"], tags["drpg.learner"]) == ("run 7", "shop")


# -- assessments -------------------------------------------------------------------------------


def test_a_reviewer_in_mlflow_teaches_the_program(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="Are you open today?")
    review(prediction, False, "Our customers are French.")
    experiment = mlflow.get_experiment(_active()).name

    assert pull_feedback(online, experiment).learned == 1
    feedback = online.memory.feedback(prediction.rollout_id)
    assert (feedback.score, feedback.text) == (0.0, "Our customers are French.")
    assert feedback.author == "person:ann@example.com"
    assert online(question="Are you open now?").answer == "oui"


def test_pulling_again_changes_nothing(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    review(prediction, 0.25, "meh")
    review(prediction, 0.5, "better than I thought")
    pull_feedback(online)
    events = len(online.memory.events())
    again = pull_feedback(online)

    assert (again.learned, again.retracted, again.unchanged) == (0, 0, 1)
    assert len(online.memory.events()) == events
    assert online.memory.feedback(prediction.rollout_id).score == 0.5


def test_the_last_assessment_stands_also_when_an_earlier_one_is_changed_later(
    online: OnlinePolicyOptimizer,
) -> None:
    prediction = online(question="q")
    trace_id, first = review(prediction, False, name="correctness")
    review(prediction, True, name="correctness")
    pull_feedback(online)
    assert online.memory.feedback(prediction.rollout_id).score == 1.0
    mlflow.update_assessment(
        trace_id=trace_id,
        assessment_id=first,
        assessment=Assessment(name="correctness", value=0.3, source=ANN, rationale="hm"),
    )

    assert pull_feedback(online).learned == 1
    assert online.memory.feedback(prediction.rollout_id).score == 0.3


def test_an_override_counts_instead_of_what_it_overrides(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    trace_id, first = review(prediction, True)
    mlflow.override_feedback(trace_id=trace_id, assessment_id=first, value=False, source=ANN)
    pull_feedback(online)

    assert online.memory.feedback(prediction.rollout_id).score == 0.0


def test_deleted_assessments_retract_the_verdict(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    trace_id, first = review(prediction, False, "one")
    _, second = review(prediction, True, "two")
    pull_feedback(online)
    mlflow.delete_assessment(trace_id=trace_id, assessment_id=second)
    assert pull_feedback(online).learned == 1
    assert online.memory.feedback(prediction.rollout_id).text == "one"
    mlflow.delete_assessment(trace_id=trace_id, assessment_id=first)

    assert pull_feedback(online).retracted == 1
    assert online.memory.feedback(prediction.rollout_id) is None
    assert online.memory.count() == 0
    assert pull_feedback(online).retracted == 0


def test_what_a_person_says_to_the_learner_later_stands(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    review(prediction, False)
    pull_feedback(online)
    online.feedback(prediction.rollout_id, score=1.0, text="I looked again.")
    assert pull_feedback(online).unchanged == 1
    assert online.memory.feedback(prediction.rollout_id).score == 1.0
    online.retract(prediction.rollout_id)
    assert pull_feedback(online).unchanged == 1
    assert online.memory.feedback(prediction.rollout_id) is None
    review(prediction, 0.5, "and again")

    assert pull_feedback(online).learned == 1


def test_a_person_overrules_a_metric_whoever_was_first(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    review(prediction, False)
    online.feedback(prediction.rollout_id, score=1.0, author="metric")

    assert pull_feedback(online).learned == 1
    assert online.memory.feedback(prediction.rollout_id).score == 0.0


def test_only_people_count_unless_others_are_named(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    review(prediction, False, source=AssessmentSource("LLM_JUDGE", "gpt"))
    review(prediction, True, source=None)  # MLflow takes it for code

    assert pull_feedback(online).learned == 0
    assert pull_feedback(online, sources=["LLM_JUDGE"]).learned == 1
    assert online.memory.feedback(prediction.rollout_id).author == "judge:gpt"


def test_several_names_are_subscores_and_may_be_chosen(online: OnlinePolicyOptimizer) -> None:
    prediction = online(question="q")
    review(prediction, "yes", "right", name="correct")
    review(prediction, 0.2, "rude", name="tone")
    pull_feedback(online)
    assert online.memory.feedback(prediction.rollout_id).subscores == {"correct": 1.0, "tone": 0.2}
    assert online.memory.feedback(prediction.rollout_id).score == 0.2

    pull_feedback(online, names=["correct"])
    assert online.memory.feedback(prediction.rollout_id).score == 1.0


def test_an_expectation_beside_a_verdict_is_part_of_what_was_said(
    online: OnlinePolicyOptimizer,
) -> None:
    prediction = online(question="q")
    trace_id, _ = review(prediction, False, "no")
    mlflow.log_assessment(trace_id, Expectation(name="answer", value="oui", source=ANN))
    pull_feedback(online)

    assert online.memory.feedback(prediction.rollout_id).text == "no\nExpected answer: oui"


@pytest.mark.parametrize("value", [7, "seven", ["a"], {"a": 1}, -0.1])
def test_a_value_that_is_no_score_is_counted_and_changes_nothing(
    online: OnlinePolicyOptimizer, value: Any
) -> None:
    prediction = online(question="q")
    review(prediction, True)
    pull_feedback(online)
    review(prediction, value)
    pulled = pull_feedback(online)

    assert pulled.learned == 0
    assert repr(value) in pulled.unreadable[0]
    assert "from 0 to 1" in pulled.unreadable[0]
    assert online.memory.feedback(prediction.rollout_id).score == 1.0


def test_traces_of_other_learners_are_left_alone(
    online: OnlinePolicyOptimizer, tmp_path: Path
) -> None:
    program = dspy.Predict("question -> answer")
    memory = SQLiteMemory(tmp_path / "other.sqlite", HashingEmbedder())
    with OnlinePolicyOptimizer(program, ZeroShot(), memory=memory, name="other") as other:
        review(other(question="q"), False)
        assert pull_feedback(online).traces == 0
        assert pull_feedback(other).learned == 1


def test_an_answer_that_the_memory_does_not_hold_is_counted(
    online: OnlinePolicyOptimizer, tmp_path: Path
) -> None:
    program = dspy.Predict("question -> answer")
    memory = SQLiteMemory(tmp_path / "other.sqlite", HashingEmbedder())
    with OnlinePolicyOptimizer(program, ZeroShot(), memory=memory, name="shop") as namesake:
        review(namesake(question="q"), False)

    assert pull_feedback(online).unknown == 1


def test_wrong_arguments_are_named(online: OnlinePolicyOptimizer) -> None:
    with pytest.raises(ValueError, match=r"no experiment 'nowhere'.*set_experiment"):
        pull_feedback(online, "nowhere")
    with pytest.raises(ValueError, match="sources must be some of"):
        pull_feedback(online, sources="HUMAN")
    with pytest.raises(ValueError, match="since must be"):
        pull_feedback(online, since="yesterday")


def test_tracking_needs_no_mlflow_to_be_imported() -> None:
    code = "import sys; sys.modules['mlflow'] = None; import drpg_dspy.tracking"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pull_that_does_not_look_for_an_assessment_leaves_its_verdict(
    online: OnlinePolicyOptimizer,
) -> None:
    prediction = online(question="q")
    trace_id, id = review(prediction, False, "rude", name="tone")
    pull_feedback(online)
    for filters in ({"names": ["correctness"]}, {"sources": ["CODE"]}):
        found = pull_feedback(online, **filters)
        assert (found.retracted, found.unchanged) == (0, 1)
    assert online.memory.feedback(prediction.rollout_id).score == 0.0
    mlflow.delete_assessment(trace_id=trace_id, assessment_id=id)

    assert pull_feedback(online, names=["correctness"]).retracted == 1
