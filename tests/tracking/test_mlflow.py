"""MLflowTracker on the default kind of store: a SQLite file without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

mlflow = pytest.importorskip("mlflow")

from drpg_dspy.testing.tracker_contract import (  # noqa: E402
    AWKWARD_TEXTS,
    TrackerContract,
    sample_records,
)
from drpg_dspy.tracking import BackgroundWriter, MLflowTracker, RunInfo, Tracker  # noqa: E402
from drpg_dspy.tracking.records import replay  # noqa: E402


def all_versions(client, name: str) -> list:
    found = client.search_prompt_versions(name, max_results=1000)
    return sorted(found, key=lambda version: int(version.version))


def history(client, run_id: str, key: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in client.get_metric_history(run_id, key)]


@pytest.fixture
def client(mlflow_uri: str):
    return mlflow.MlflowClient(tracking_uri=mlflow_uri)


def tell(memory, uri: str, *, name: str = "first", **options) -> MLflowTracker:
    """Send a memory to MLflow and close; return the tracker."""
    tracker = MLflowTracker("exp", tracking_uri=uri, **options)
    writer = BackgroundWriter(memory, tracker, RunInfo(name, {"k": 4}, ("predict",)))
    assert writer.close(), writer.failure_kinds
    return tracker


def test_a_dead_server_is_known_without_a_request_of_mlflows(mlflow_uri: str) -> None:
    assert MLflowTracker("exp", tracking_uri=mlflow_uri).reachable()
    assert not MLflowTracker("exp", tracking_uri="http://127.0.0.1:1").reachable()


class TestMLflowTracker(TrackerContract):
    routes = ("a b", "a/b")

    def records(self) -> list:
        return sample_records(4, routes=self.routes)

    @pytest.fixture(autouse=True)
    def _store(self, mlflow_uri: str) -> None:
        self.uri = mlflow_uri

    def make(self, folder: Path) -> Tracker:
        return MLflowTracker("contract", tracking_uri=self.uri, artifacts=False)

    def told(self, tracker: Tracker) -> list[int]:
        # A verdict is a metric and cannot be counted by record, so the rollouts' events are
        # read from the policy versions that came with them.
        client = mlflow.MlflowClient(tracking_uri=self.uri)
        came = {(p.place, p.version): r.seq for r in self.records() for p in r.policies}
        seqs = []
        for prompt in client.search_prompts():
            place = prompt.tags["drpg.route"]
            found = all_versions(client, prompt.name)
            seqs += [came[place, int(version.tags["drpg.version"])] for version in found]
        steps = history(client, tracker.run_id, "policy_chars")
        assert len(steps) == len(set(steps)), "a metric was logged twice"
        return sorted(seqs)

    def _expect(self, tracker: Tracker, records: list) -> None:
        with_policies = [r.seq for r in records for _ in r.policies]
        assert self.told(tracker) == with_policies


def test_each_new_text_is_one_version_with_its_provenance(memory, play, mlflow_uri, client) -> None:
    play(memory, 1, rules=("A.", "B."))
    play(memory, 2, rules=("B.", "C."))
    play(memory, 3, rules=("A.", "B."))  # an old text again: no new version
    tracker = tell(memory, mlflow_uri)
    one, two = all_versions(client, "first.predict.policy")
    assert (one.template, two.template) == ("- A.\n- B.", "- B.\n- C.")
    assert one.commit_message == "Step 1 of first · +2 −0 rules · drpg"
    assert two.commit_message == "Step 2 of first · +1 −1 rules · drpg"
    assert two.tags["parent_version"] == "1"
    assert (two.tags["step"], two.tags["author"]) == ("2", "drpg")
    assert two.tags["drpg.run_id"] == tracker.run_id
    assert (one.tags["score_before"], two.tags["score_before"]) == (
        "not judged yet",
        "1.0000, last 50: 1.0000",
    )


def test_current_is_the_version_in_force_not_the_newest(memory, play, mlflow_uri, client) -> None:
    play(memory, 1, rules=("A.",))
    play(memory, 2, rules=("B.",))
    play(memory, 3, rules=("A.",))
    tell(memory, mlflow_uri)
    assert client.get_prompt_version_by_alias("first.predict.policy", "current").version == 1


def test_best_is_the_version_under_which_the_rolling_score_peaked(
    memory, play, mlflow_uri, client
) -> None:
    for n in range(1, 80):
        play(memory, n, score=float(n % 2 or 20 < n <= 60), rules=(f"Rule {n // 10}.",))
    tracker = tell(memory, mlflow_uri)
    peak = max(
        (r for r in replay(memory) if r.kind == "feedback" and r.metrics["judged"] >= 50),
        key=lambda r: r.metrics["rolling_score"],
    )
    used = peak.rollout.guidance.policies["predict"]
    found = client.get_prompt_version_by_alias("first.predict.policy", "best")
    assert found.template == used.text
    note = client.get_run(tracker.run_id).data.tags["mlflow.note.content"]
    assert f"best at step {peak.rollout.step}" in note


def test_a_handful_of_verdicts_names_no_best(memory, play, mlflow_uri, client) -> None:
    for n in range(1, 6):
        play(memory, n)
    tell(memory, mlflow_uri)
    assert all("best" not in v.aliases for v in all_versions(client, "first.predict.policy"))


def test_braces_and_backslashes_come_back_byte_for_byte(memory, play, mlflow_uri, client) -> None:
    texts = AWKWARD_TEXTS[:4]
    for n, text in enumerate(texts, 1):
        play(memory, n, rules=(text,))
    tell(memory, mlflow_uri)
    stored = [v.template for v in all_versions(client, "first.predict.policy")]
    assert stored == [f"- {text}" for text in texts]


def test_a_text_that_mlflow_cannot_take_is_cut_visibly_there_and_whole_in_the_history(
    memory, play, mlflow_uri, client
) -> None:
    play(memory, 1, rules=("y" * 150_000,))
    play(memory, 2, rules=("half \ud800 pair, null \0.",))
    tracker = tell(memory, mlflow_uri)
    long, odd = all_versions(client, "first.predict.policy")
    assert len(long.template) <= 100_000
    assert "cut for MLflow: " in long.template[-100:]
    assert odd.template == "- half \\ud800 pair, null \\x00."
    path = client.download_artifacts(tracker.run_id, "history.jsonl")
    line = json.loads(Path(path).read_text().splitlines()[0])
    assert line["policies"][0]["text"] == "- " + "y" * 150_000


def test_an_empty_policy_is_not_registered(mlflow_uri, client) -> None:
    import dataclasses

    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri, artifacts=False)
    tracker.start(RunInfo("first", routes=("predict",)))
    record = sample_records(1)[0]
    bare = dataclasses.replace(record.policies[0], rules=())
    tracker.write([dataclasses.replace(record, policies=(bare,))])
    assert list(client.search_prompts()) == []


def test_metrics_stand_at_the_steps_of_the_stream(memory, play, mlflow_uri, client) -> None:
    for n in range(1, 6):
        play(memory, n)
    run_id = tell(memory, mlflow_uri).run_id
    assert history(client, run_id, "scores/score") == [(1, 1), (2, 1), (3, 0), (4, 1), (5, 1)]
    assert history(client, run_id, "scores/prequential_score")[-1] == (5, 0.8)
    assert history(client, run_id, "prompt_tokens") == [(n, 130.0 * n) for n in range(1, 6)]
    assert history(client, run_id, "step_tokens") == [(n, 145.0) for n in range(1, 6)]
    assert history(client, run_id, "odd")[-1] == (5, 3.0)


def test_a_late_verdict_belongs_to_its_step_and_moves_the_figures_now(
    memory, play, mlflow_uri, client
) -> None:
    from drpg_dspy.types import Feedback

    for n in range(1, 6):
        play(memory, n)
    memory.commit("r0003", Feedback(1.0))
    run_id = tell(memory, mlflow_uri).run_id
    assert (3, 1.0) in history(client, run_id, "scores/score")
    assert history(client, run_id, "scores/prequential_score")[-1] == (5, 1.0)


def test_a_resumed_run_is_the_same_run(memory, play, mlflow_uri, client) -> None:
    play(memory, 1)
    first = tell(memory, mlflow_uri)
    play(memory, 2)
    second = tell(memory, mlflow_uri)
    assert first.run_id == second.run_id
    assert len(all_versions(client, "first.predict.policy")) == 2
    assert all_versions(client, "first.predict.policy")[1].tags["parent_version"] == "1"
    assert len(client.search_runs([client.get_experiment_by_name("exp").experiment_id])) == 1


def test_a_run_deleted_by_hand_is_written_anew_from_the_first_step(
    memory, play, mlflow_uri, client
) -> None:
    play(memory, 1)
    first = tell(memory, mlflow_uri)
    client.delete_run(first.run_id)
    play(memory, 2)
    second = tell(memory, mlflow_uri)
    assert second.run_id != first.run_id
    assert [step for step, _ in history(client, second.run_id, "scores/score")] == [1, 2]


def test_a_call_that_failed_after_it_went_through_makes_no_second_version(
    memory, play, mlflow_uri, client, monkeypatch
) -> None:
    for n in range(1, 4):
        play(memory, n)
    create, failed = mlflow.MlflowClient.create_prompt_version, []

    def create_and_lose_the_answer(self, *args, **kwargs):
        made = create(self, *args, **kwargs)
        if not failed:
            failed.append(made)
            raise ConnectionError("the answer was lost")
        return made

    monkeypatch.setattr(mlflow.MlflowClient, "create_prompt_version", create_and_lose_the_answer)
    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri, artifacts=False)
    tracker.start(RunInfo("first", routes=("predict",)))
    records = list(replay(memory))
    with pytest.raises(ConnectionError):
        tracker.write(records)
    tracker.write(records)
    assert len(all_versions(client, "first.predict.policy")) == 3


def test_a_start_that_failed_half_way_leaves_no_second_run(mlflow_uri, client, monkeypatch) -> None:
    log, failed = mlflow.MlflowClient.log_batch, []

    def fail_once(self, *args, **kwargs):
        if not failed:
            failed.append(True)
            raise ConnectionError("away")
        return log(self, *args, **kwargs)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", fail_once)
    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri)
    with pytest.raises(ConnectionError):
        tracker.start(RunInfo("first", {"k": 4}))
    run_id = tracker.start(RunInfo("first", {"k": 4}))
    assert client.get_run(run_id).data.params == {"k": "4"}
    assert len(client.search_runs([client.get_experiment_by_name("exp").experiment_id])) == 1


def test_two_learners_and_a_foreign_prompt_never_share_versions(
    memory, play, mlflow_uri, client
) -> None:
    client.create_prompt("a-b.predict.policy")
    client.create_prompt_version("a-b.predict.policy", "somebody's prompt")
    play(memory, 1)
    for name in ("a b", "a/b"):
        tracker = MLflowTracker("exp", tracking_uri=mlflow_uri, artifacts=False)
        tracker.start(RunInfo(name, routes=("predict",)))
        tracker.write(list(replay(memory)))
    assert len(list(client.search_prompts())) == 3
    assert len(all_versions(client, "a-b.predict.policy")) == 1


def test_the_users_active_run_is_left_alone(memory, play, mlflow_uri, client) -> None:
    play(memory, 1)
    mlflow.set_tracking_uri(mlflow_uri)
    try:
        with mlflow.start_run() as mine:
            tracker = tell(memory, mlflow_uri)
            assert mlflow.active_run().info.run_id == mine.info.run_id
            mlflow.log_metric("mine", 1.0)
        found = client.get_run(mine.info.run_id)
    finally:
        mlflow.set_tracking_uri(None)
    assert found.data.metrics == {"mine": 1.0}
    assert "mlflow.linkedPrompts" not in found.data.tags
    assert "mlflow.parentRunId" not in client.get_run(tracker.run_id).data.tags


@pytest.mark.parametrize(
    ("status", "shown"),
    [("finished", "FINISHED"), ("stopped: 100 LM calls", "KILLED"), ("failed: Boom", "FAILED")],
)
def test_the_status_is_shown(mlflow_uri, client, status: str, shown: str) -> None:
    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri, tags={"team": "sql"})
    run_id = tracker.start(RunInfo("first", {"k": 4, "long": "x" * 9_000}))
    tracker.finish(status)
    run = client.get_run(run_id)
    assert run.info.status == shown
    assert run.data.tags["drpg.status"] == status
    assert run.data.tags["team"] == "sql"
    assert run.data.params["k"] == "4"
    assert "cut for MLflow" in run.data.params["long"]


def test_the_page_of_a_long_run_links_to_few_versions(mlflow_uri, client) -> None:
    from drpg_dspy.tracking.prompts import MAX_LINKS, PolicyRegistry

    tracker = MLflowTracker("exp", tracking_uri=mlflow_uri)
    run_id = tracker.start(RunInfo("first"))
    options = {"run_name": "r", "experiment_id": "1", "routes": ("p",), "link_every": 1}
    registry = PolicyRegistry(client, "n" * 150, run_id=run_id, **options)
    registry._known = {"p": {n: n for n in range(1, 5_000)}}
    registry.link_from_run({"p": 77})
    links = json.loads(client.get_run(run_id).data.tags["mlflow.linkedPrompts"])
    numbers = [int(link["version"]) for link in links]
    assert {1, 77, 4_999} <= set(numbers)
    assert 10 < len(numbers) <= MAX_LINKS


def test_the_first_the_best_and_the_last_version_link_to_their_run(
    memory, play, mlflow_uri, client
) -> None:
    from drpg_dspy.tracking.prompts import LINKED_BACK, RUNS_UI_TAG

    for n in range(1, LINKED_BACK + 16):
        play(memory, n, score=float(n < 25))
    run_id = tell(memory, mlflow_uri, link_every=11, artifacts=False).run_id
    versions = all_versions(client, "first.predict.policy")
    linked = [int(v.version) for v in versions if v.tags.get(RUNS_UI_TAG) == run_id]
    best = client.get_prompt_version_by_alias("first.predict.policy", "best").version
    assert linked == sorted({*range(1, LINKED_BACK + 1), 22, 33, int(best), LINKED_BACK + 15})
    assert all(run_id == v.tags["drpg.run_id"] for v in versions)
    from_run = json.loads(client.get_run(run_id).data.tags["mlflow.linkedPrompts"])
    assert not {int(link["version"]) for link in from_run} & set(linked), "listed twice"


def test_artifacts_can_be_left_out(memory, play, mlflow_uri, client) -> None:
    play(memory, 1)
    run_id = tell(memory, mlflow_uri, artifacts=False).run_id
    assert client.list_artifacts(run_id) == []


def test_history_and_inspector_are_attached(memory, play, mlflow_uri, client) -> None:
    play(memory, 1)
    run_id = tell(memory, mlflow_uri).run_id
    assert {a.path for a in client.list_artifacts(run_id)} == {"history.jsonl", "inspector.html"}


def test_the_destination_holds_no_password() -> None:
    tracker = MLflowTracker("exp", tracking_uri="http://ann:secret@mlflow.example:5000")
    assert tracker.destination == "mlflow:exp@http://mlflow.example:5000"


@pytest.mark.parametrize("wrong", [{"experiment": ""}, {"experiment": "e", "link_every": 0}])
def test_a_wrong_argument_is_named(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"experiment|link_every"):
        MLflowTracker(**wrong)


def test_without_mlflow_everything_else_works_and_the_error_names_the_extra(tmp_path) -> None:
    script = f"""
import sys
sys.modules["mlflow"] = None  # as if it were not installed
from drpg_dspy.tracking import JSONLTracker, MLflowTracker, NullTracker, RunInfo, tag_current_trace
from drpg_dspy.testing.tracker_contract import sample_records
tracker = JSONLTracker({str(tmp_path / "run.jsonl")!r})
tracker.start(RunInfo("first")); tracker.write(sample_records(2)); tracker.finish("finished")
assert not tag_current_trace(sample_records(1)[0].rollout)
try:
    MLflowTracker("exp")
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert "pip install 'drpg-dspy[mlflow]'" in done.stdout
    assert (tmp_path / "run.jsonl").stat().st_size > 0


def test_a_version_made_by_hand_and_taken_up_is_not_registered_again(
    memory, play, mlflow_uri, client
) -> None:
    from drpg_dspy.tracking.handmade import RegistryReader
    from drpg_dspy.types import Guidance, Policy, Rollout, Rule

    play(memory, 1, rules=("Quote names.",))
    tell(memory, mlflow_uri, artifacts=False)
    name = "first.predict.policy"
    by_hand = client.create_prompt_version(name, "* Quote  names.\n\n* No CROSS JOIN.")
    rules = (Rule("Quote names."), Rule("No CROSS JOIN.", author="person:ann"))
    taken = Policy("predict", rules, author="person:ann", message="by hand")
    for n in (2, 3):
        guidance = Guidance(policies={"predict": taken})
        memory.record(Rollout(f"t{n}", n, {"question": "q"}, {"answer": "a"}, guidance=guidance))
        run_id = tell(memory, mlflow_uri, artifacts=False).run_id  # each time in a new process

    first, second = all_versions(client, name)
    assert first.tags["drpg.version"] == "1"
    assert second.version == by_hand.version
    assert second.tags[f"drpg.version.{run_id}"] == "2"
    assert second.tags["mlflow.prompt.associatedRunIds"] == run_id
    assert client.get_prompt_version_by_alias(name, "current").version == by_hand.version
    (seen,) = RegistryReader(mlflow_uri, "first", ["predict"]).read()
    assert seen.newest == int(by_hand.version), "it must stay known as made by hand"


def test_what_a_person_wrote_elsewhere_is_registered_though_somebody_edited_here(
    memory, play, mlflow_uri, client
) -> None:
    from drpg_dspy.types import Guidance, Policy, Rollout, Rule

    play(memory, 1, rules=("Quote names.",))
    tell(memory, mlflow_uri, artifacts=False)
    client.create_prompt_version("first.predict.policy", "- No CROSS JOIN.")
    edited = Policy("predict", (Rule("Order by name."),), author="person:bob")
    guidance = Guidance(policies={"predict": edited})
    memory.record(Rollout("t2", 2, {"question": "q"}, {"answer": "a"}, guidance=guidance))

    tell(memory, mlflow_uri, artifacts=False)

    *_, last = all_versions(client, "first.predict.policy")
    assert (last.template, last.tags["drpg.version"]) == ("- Order by name.", "2")
