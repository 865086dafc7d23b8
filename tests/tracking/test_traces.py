"""A trace names the policy version and the run that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dspy
import pytest

mlflow = pytest.importorskip("mlflow")

from drpg_dspy.testing.scripted import ScriptedLM, fields  # noqa: E402
from drpg_dspy.tracking import tag_current_trace  # noqa: E402
from drpg_dspy.types import Guidance, Policy, Rollout, Rule  # noqa: E402


class Learner(dspy.Module):
    """Calls its program and tags the trace before it returns, as the real learner does."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.predict = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        prediction = self.predict(question=question)
        tag_current_trace(rollout(question, self.run_id), run_id=self.run_id)
        return prediction


def rollout(question: str, run_id: str) -> Rollout:
    number = int(question.split()[-1])
    policy = Policy("predict", (Rule("Answer."),), version=number * 10)
    bare = Policy("other")
    guidance = Guidance(policies={"predict": policy, "other": bare})
    return Rollout(f"{run_id}-{number}", number, {"question": question}, {}, guidance=guidance)


@pytest.fixture
def experiment(mlflow_uri: str) -> Iterator[str]:
    mlflow.set_tracking_uri(mlflow_uri)
    yield mlflow.set_experiment("traces").experiment_id
    mlflow.dspy.autolog(disable=True)
    mlflow.set_tracking_uri(None)


def ask(run_ids: list[str], count: int) -> None:
    """Two learners, four threads: ``count`` questions to each."""
    lm = ScriptedLM(lambda messages: fields(answer="42"))
    learners = [Learner(run_id) for run_id in run_ids]

    def one(job: tuple[Learner, int]) -> None:
        with dspy.context(lm=lm):
            job[0](question=f"question {job[1]}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, [(who, n) for n in range(1, count + 1) for who in learners]))


def runs(experiment: str) -> int:
    return len(mlflow.MlflowClient().search_runs([experiment]))


def test_every_trace_of_parallel_learners_names_its_own_run_and_version(experiment: str) -> None:
    mlflow.dspy.autolog()
    with mlflow.start_run() as mine:
        ask(["run-a", "run-b"], 4)
        mlflow.flush_trace_async_logging()
        assert mlflow.active_run().info.run_id == mine.info.run_id
    traces = mlflow.MlflowClient().search_traces(locations=[experiment], max_results=100)
    found = set()
    for trace in traces:
        tags = trace.info.tags
        step = int(tags["drpg.step"])
        assert tags["drpg.rollout_id"] == f"{tags['drpg.run_id']}-{step}"
        assert tags["policy.predict.version"] == str(step * 10)
        assert "policy.other.version" not in tags
        assert f"question {step}" in trace.info.request_preview
        found.add((tags["drpg.run_id"], step))
    assert found == {(run, n) for run in ("run-a", "run-b") for n in range(1, 5)}
    of_one_version = mlflow.MlflowClient().search_traces(
        locations=[experiment], filter_string="tags.`policy.predict.version` = '30'"
    )
    assert [trace.info.tags["drpg.step"] for trace in of_one_version] == ["3", "3"]
    assert runs(experiment) == 1


def test_without_autolog_there_is_no_trace_and_the_same_number_of_runs(experiment: str) -> None:
    with mlflow.start_run():
        ask(["run-a"], 2)
    traces = mlflow.MlflowClient().search_traces(locations=[experiment])
    assert list(traces) == []
    assert runs(experiment) == 1


def test_outside_a_trace_nothing_happens() -> None:
    assert tag_current_trace(rollout("question 1", "run-a")) is False
