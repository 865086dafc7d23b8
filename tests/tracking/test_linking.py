"""A trace is linked to the registered versions of the policies it was made under."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest

mlflow = pytest.importorskip("mlflow")

from mlflow.exceptions import MlflowException  # noqa: E402

from drpg_dspy import DRPG, OnlinePolicyOptimizer  # noqa: E402
from drpg_dspy.memory import SQLiteMemory  # noqa: E402
from drpg_dspy.retrieval import HashingEmbedder  # noqa: E402
from drpg_dspy.testing.scripted import ScriptedLM, fields  # noqa: E402
from drpg_dspy.tracking import MLflowTracker, linking  # noqa: E402
from drpg_dspy.types import Guidance, Policy, Rollout, Rule  # noqa: E402

PROMPT = "shop.self.policy"


@pytest.fixture
def traced(mlflow_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(linking, "_LAST_SECONDS", 600.0)  # on a machine that is busy
    mlflow.set_tracking_uri(mlflow_uri)
    mlflow.set_experiment("shop")
    mlflow.dspy.autolog()
    yield mlflow_uri
    mlflow.dspy.autolog(disable=True)
    mlflow.set_tracking_uri(None)


def answered(uri: str, folder: Path) -> MLflowTracker:
    """Answer three questions, the last two under one policy; return the tracker."""

    def reply(messages: list[dict[str, str]]) -> str:
        if "coach" in messages[0]["content"]:
            return json.dumps({"rules": ["Be brief."]})
        return fields(answer="42")

    lm = ScriptedLM(reply)
    program = dspy.Predict("question -> answer")
    program.lm = lm
    online = OnlinePolicyOptimizer(
        program,
        DRPG(k=2, policy_lm=lm),
        memory=SQLiteMemory(folder / "memory.sqlite", HashingEmbedder(32)),
        tracker=MLflowTracker("shop", tracking_uri=uri, follow_every=None, artifacts=False),
        name="shop",
    )
    with online:
        for n in range(3):
            online.feedback(online(question=f"What is {n}?").rollout_id, float(n % 2))
    return online.tracker


def test_a_trace_leads_to_its_version_and_a_version_to_its_traces(
    traced: str, tmp_path: Path
) -> None:
    tracker = answered(traced, tmp_path)

    client = mlflow.MlflowClient(tracking_uri=traced)
    experiment = client.get_experiment_by_name("shop").experiment_id
    traces = client.search_traces(locations=[experiment], include_spans=False)
    links = {
        int(trace.info.tags["drpg.step"]): json.loads(trace.info.tags["mlflow.linkedPrompts"])
        for trace in traces
        if "mlflow.linkedPrompts" in trace.info.tags
    }
    assert links == {step: [{"name": PROMPT, "version": "1"}] for step in (2, 3)}
    of_version = client.search_traces(
        locations=[experiment], filter_string=f"prompt = '{PROMPT}/1'", include_spans=False
    )
    assert sorted(trace.info.tags["drpg.step"] for trace in of_version) == ["2", "3"]
    assert (tracker._links.made, tracker._links.lost) == (2, 0)


def test_traces_that_go_elsewhere_are_not_linked(traced: str, tmp_path: Path) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'other.db'}")
    mlflow.set_experiment("elsewhere")
    tracker = answered(traced, tmp_path)
    assert (tracker._links.made, tracker._links.lost) == (0, 0)


class Client:
    """Takes links, or raises what it is given."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.linked: list[tuple[str, list[tuple[str, int]]]] = []

    def link_prompt_versions_to_trace(self, prompts: list[Any], trace_id: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.linked.append((trace_id, [(one.name, one.version) for one in prompts]))


def missing() -> MlflowException:
    from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

    return MlflowException("no such trace", error_code=RESOURCE_DOES_NOT_EXIST)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Iterator[linking.TraceLinks]:
    """Links that wait for nothing, with one trace noted."""
    monkeypatch.setattr(linking, "_SETTLED", 0.0)
    monkeypatch.setattr(linking, "current_trace_id", lambda: "tr-1")
    links = linking.TraceLinks()
    links.note(rollout(7))
    return links


def rollout(version: int) -> Rollout:
    policy = Policy("predict", (Rule("Answer."),), version=version)
    return Rollout("r", 1, {}, {}, guidance=Guidance(policies={"predict": policy}))


def found(place: str, version: int) -> tuple[str, int]:
    return f"{place}.policy", version + 10


def test_a_version_that_is_not_registered_yet_is_waited_for(links: linking.TraceLinks) -> None:
    client = Client()
    links.send(client, lambda place, version: None)
    assert client.linked == []
    links.send(client, found)
    links.send(client, found)
    assert client.linked == [("tr-1", [("predict.policy", 17)])]


def test_every_answer_of_a_trace_is_linked(links: linking.TraceLinks) -> None:
    links.note(rollout(8))
    client = Client()
    links.send(client, found)
    assert client.linked == [("tr-1", [("predict.policy", 17), ("predict.policy", 18)])]


def test_a_trace_that_is_not_stored_yet_is_tried_again_and_in_the_end_counted(
    links: linking.TraceLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "_SETTLED", -1e9)  # however long it is told to wait
    client = Client(missing())
    links.send(client, found)
    assert (links.made, links.lost) == (0, 0)
    links.send(client, found)
    assert (links.made, links.lost) == (1, 0)

    links.note(rollout(9))
    client = Client(*(missing() for _ in range(9)))
    for _ in range(9):
        links.send(client, found)
    assert (links.made, links.lost) == (1, 1)


def test_a_refusal_is_said_once_and_raises_nothing(
    links: linking.TraceLinks, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        links.note(rollout(7))
        links.send(Client(MlflowException("permission denied")), found)
    assert links.lost == 3
    assert len([record for record in caplog.records if "permission" in record.message]) == 1
