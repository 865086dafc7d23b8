"""MLflowTracker against a real ``mlflow server`` on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

mlflow = pytest.importorskip("mlflow")

from drpg_dspy.testing.mlflow_server import mlflow_server  # noqa: E402
from drpg_dspy.testing.tracker_contract import AWKWARD_TEXTS  # noqa: E402
from drpg_dspy.tracking import BackgroundWriter, MLflowTracker, RunInfo  # noqa: E402


@pytest.fixture(scope="module")
def server(mlflow_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(mlflow_template, folder / "mlflow.db")
    with mlflow_server(folder) as address:
        yield address


def test_a_run_told_in_two_parts_over_http_is_whole(memory, play, server: str, capsys) -> None:
    run_ids = []
    for part in (AWKWARD_TEXTS[:4], ("the last",)):
        for n, text in enumerate(part, len(run_ids) * 4 + 1):
            play(memory, n, rules=(text,))
        tracker = MLflowTracker("over http", tracking_uri=server)
        writer = BackgroundWriter(memory, tracker, RunInfo("net", {"k": 4}, ("predict",)))
        assert writer.close(), writer.failure_kinds
        run_ids.append(tracker.run_id)
    assert capsys.readouterr().out == ""
    client = mlflow.MlflowClient(tracking_uri=server)
    assert run_ids[0] == run_ids[1]
    run = client.get_run(run_ids[0])
    assert (run.info.status, run.data.params["k"]) == ("FINISHED", "4")
    steps = [m.step for m in client.get_metric_history(run.info.run_id, "scores/score")]
    assert sorted(steps) == [1, 2, 3, 4, 5]
    versions = client.search_prompt_versions("net.predict.policy")
    stored = {int(v.version): v.template for v in versions}
    assert [stored[n] for n in range(1, 5)] == [f"- {text}" for text in AWKWARD_TEXTS[:4]]
    assert len(stored) == 5
    assert client.get_prompt_version_by_alias("net.predict.policy", "current").version == 5
    assert len(client.list_logged_prompts(run.info.run_id)) == 5
    names = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
    assert names == {"history.jsonl", "inspector.html"}


def test_records_offered_twice_over_http_are_logged_once(memory, play, server: str) -> None:
    from drpg_dspy.tracking.records import replay

    for n in range(1, 4):
        play(memory, n)
    tracker = MLflowTracker("over http", tracking_uri=server, artifacts=False)
    run_id = tracker.start(RunInfo("twice", routes=("predict",)))
    records = list(replay(memory))
    tracker.write(records)
    tracker.write(records)
    client = mlflow.MlflowClient(tracking_uri=server)
    assert len(client.search_prompt_versions("twice.predict.policy")) == 3
    assert [m.step for m in client.get_metric_history(run_id, "step_tokens")] == [1, 2, 3]
