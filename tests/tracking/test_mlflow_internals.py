"""What of MLflow's inside this library relies on. A failure here means that MLflow changed it."""

from __future__ import annotations

from pathlib import Path

import pytest

mlflow = pytest.importorskip("mlflow")

from drpg_dspy.tracking import BackgroundWriter, MLflowTracker, RunInfo  # noqa: E402
from drpg_dspy.tracking import prompts as ours  # noqa: E402


def test_our_names_for_mlflows_tags_are_mlflows() -> None:
    from mlflow.prompt import constants
    from mlflow.tracing.constant import TraceTagKey

    assert ours.IS_PROMPT_TAG == constants.IS_PROMPT_TAG_KEY
    assert ours.RUNS_TAG == constants.PROMPT_ASSOCIATED_RUN_IDS_TAG_KEY
    assert ours.EXPERIMENTS_TAG == constants.PROMPT_EXPERIMENT_IDS_TAG_KEY
    assert ours.LINKED_PROMPTS_TAG == TraceTagKey.LINKED_PROMPTS


def test_the_pages_still_read_the_tags_that_link_version_and_run() -> None:
    pages = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    if not pages.is_dir():
        pytest.skip("this build of MLflow carries no web pages")
    code = "".join(path.read_text(encoding="utf-8") for path in pages.glob("*.js"))
    for tag in (ours.RUNS_UI_TAG, ours.LINKED_PROMPTS_TAG, ours.EXPERIMENTS_TAG):
        assert f'"{tag}"' in code, tag


def test_mlflows_limits_are_ours() -> None:
    from mlflow.utils import validation

    assert ours.MAX_TEXT == validation.MAX_MODEL_REGISTRY_TAG_VALUE_LENGTH
    assert ours._MAX_LINK_CHARS < validation.MAX_TAG_VAL_LENGTH


def test_the_alias_latest_belongs_to_mlflow_so_ours_is_current(mlflow_uri: str) -> None:
    from mlflow.exceptions import MlflowException

    client = mlflow.MlflowClient(tracking_uri=mlflow_uri)
    client.create_prompt("p")
    client.create_prompt_version("p", "text")
    with pytest.raises(MlflowException, match="reserved"):
        client.set_prompt_alias("p", "latest", 1)


def test_versions_are_found_by_run_and_prompts_by_experiment(memory, play, mlflow_uri) -> None:
    play(memory, 1)
    play(memory, 2)
    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri)
    assert BackgroundWriter(memory, tracker, RunInfo("first", routes=("predict",))).close()
    client = mlflow.MlflowClient(tracking_uri=mlflow_uri)
    assert len(client.list_logged_prompts(tracker.run_id)) == 2
    experiment = client.get_experiment_by_name("exp").experiment_id
    listed = client.search_prompts(filter_string=f"experiment_id = '{experiment}'")
    assert [prompt.name for prompt in listed] == ["first.predict.policy"]


def test_a_second_experiment_lists_the_same_prompt_too(memory, play, mlflow_uri) -> None:
    client = mlflow.MlflowClient(tracking_uri=mlflow_uri)
    for name in ("one", "two"):
        play(memory, 1 if name == "one" else 2)
        tracker = MLflowTracker(name, tracking_uri=mlflow_uri, artifacts=False)
        assert BackgroundWriter(memory, tracker, RunInfo("first", routes=("predict",))).close()
    for name in ("one", "two"):
        experiment = client.get_experiment_by_name(name).experiment_id
        listed = client.search_prompts(filter_string=f"experiment_id = '{experiment}'")
        assert [prompt.name for prompt in listed] == ["first.predict.policy"]


def test_linking_from_the_run_is_what_mlflow_itself_would_write(mlflow_uri: str) -> None:
    from mlflow.tracing.utils.prompt import update_linked_prompts_tag

    client = mlflow.MlflowClient(tracking_uri=mlflow_uri)
    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri)
    run_id = tracker.start(RunInfo("first"))
    client.create_prompt("first.p.policy")
    version = client.create_prompt_version("first.p.policy", "text")
    registry = ours.PolicyRegistry(
        client, "first", run_id=run_id, run_name="r", experiment_id="1", routes=("p",), link_every=9
    )
    registry._known = {"p": {1: 1}}
    registry.link_from_run({})
    written = client.get_run(run_id).data.tags[ours.LINKED_PROMPTS_TAG]
    assert written == update_linked_prompts_tag(None, [version])
