from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.governance import Governance, RegistryFollower
from drpg_dspy.governance.following import STATUS_KEY
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import DRPG
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.tracking import MLflowTracker
from drpg_dspy.tracking.handmade import HandMade, RegistryReader

PROMPT = "shop.self.policy"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SQLiteMemory]:
    with closing(SQLiteMemory(tmp_path / "memory.sqlite")) as memory:
        yield memory


def looking(memory: SQLiteMemory, *seen: HandMade) -> tuple[Governance, RegistryFollower]:
    governance = Governance(memory, ["self"])
    return governance, RegistryFollower(governance, lambda: seen)


def test_a_champion_stands_and_one_taken_away_lets_the_optimizer_go_on(
    memory: SQLiteMemory,
) -> None:
    governance, follower = looking(memory, HandMade("self", PROMPT, 2, "- A"))

    assert follower.look()
    assert follower.look()
    current = governance.current("self")
    assert current is not None
    assert current.text == "- A"
    (decision,) = governance.log()
    assert (decision.action, decision.author) == ("take up", "person:mlflow")

    _, follower = looking(memory, HandMade("self", PROMPT))
    follower.look()
    assert governance.state().route("self").standing is None


def test_a_champion_taken_away_undoes_no_later_decision(memory: SQLiteMemory) -> None:
    governance, follower = looking(memory, HandMade("self", PROMPT, 2, "- A"))
    follower.look()
    governance.edit("self", "- B", author="person:ada")

    _, follower = looking(memory, HandMade("self", PROMPT))
    follower.look()

    current = governance.current("self")
    assert current is not None
    assert current.text == "- B"


def test_of_two_processes_one_takes_a_change_up(memory: SQLiteMemory) -> None:
    governance, one = looking(memory, HandMade("self", PROMPT, 2, "- A"))
    _, other = looking(memory, HandMade("self", PROMPT, 2, "- A"))

    threads = [threading.Thread(target=follower.look) for follower in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(governance.log()) == 1


def test_an_old_version_by_hand_is_left_alone_at_the_first_look(memory: SQLiteMemory) -> None:
    old = HandMade("self", PROMPT, newest=3, newest_text="- old", newest_is_last=False)
    governance, follower = looking(memory, old)
    follower.look()
    assert governance.log() == []

    new = HandMade("self", PROMPT, newest=9, newest_text="- new", author="ada", message="bug 12")
    _, follower = looking(memory, new)
    follower.look()
    (decision,) = governance.log()
    assert (decision.author, decision.reason) == ("person:ada", "bug 12")


def test_a_registry_that_is_down_is_counted_and_shown(memory: SQLiteMemory) -> None:
    def down() -> Any:
        raise ConnectionError("no route to host")

    follower = RegistryFollower(Governance(memory, ["self"]), down)

    assert not follower.look()
    assert not follower.look()
    assert follower.failures == 2
    status = json.loads(memory.get_meta(STATUS_KEY) or "{}")
    assert status["failures"] == 2
    assert "no route to host" in status["error"]

    follower.read = list
    assert follower.look()
    assert json.loads(memory.get_meta(STATUS_KEY) or "{}")["error"] == ""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A learner that reports to MLflow and looks often, and MLflow's client."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"

    def reply(messages: list[dict[str, str]]) -> str:
        if "coach" in messages[0]["content"]:
            return json.dumps({"rules": [lm.rule]})
        return fields(answer="42")

    lm = ScriptedLM(reply)
    lm.rule = "Learned rule."
    program = dspy.Predict("question -> answer")
    program.lm = lm
    online = OnlinePolicyOptimizer(
        program,
        DRPG(k=2, policy_lm=lm),
        memory=SQLiteMemory(tmp_path / "memory.sqlite", HashingEmbedder(32)),
        tracker=MLflowTracker("shop", tracking_uri=uri, run_name="shop", follow_every=0.05),
        name="shop",
    )
    with online:
        for n in range(3):
            online.feedback(online(question=f"What is {n}?").rollout_id, float(n % 2))
        wait_until(lambda: online._writer.behind() == 0)
        yield online, mlflow.MlflowClient(tracking_uri=uri), lm


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    """Wait for what another thread does; fails when it never does."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError("it did not happen")


def test_what_a_person_does_in_mlflow_is_in_the_next_answer(served: Any) -> None:
    online, client, lm = served
    assert "Learned rule." in lm.texts()[-1] or "Learned rule." in lm.texts()[-2]

    client.create_prompt_version(PROMPT, "- Answer in French.", description="brand voice")
    wait_until(lambda: online.governance.log())
    online(question="And now?")

    assert "Answer in French." in lm.texts()[-1]
    assert "Learned rule." not in lm.texts()[-1]
    (decision,) = online.governance.log()
    assert decision.reason == "brand voice"

    client.create_prompt_version(PROMPT, [{"role": "system", "content": "- Say it as a chat."}])
    wait_until(lambda: len(online.governance.log()) == 2)
    online(question="And as a chat?")
    assert "- Say it as a chat.\n" in lm.texts()[-1]
    assert "role" not in lm.texts()[-1]

    client.set_prompt_alias(PROMPT, "champion", 1)
    wait_until(lambda: len(online.governance.log()) == 3)
    online(question="And then?")
    assert "Learned rule." in lm.texts()[-1]

    client.delete_prompt_alias(PROMPT, "champion")
    wait_until(lambda: len(online.governance.log()) == 4)
    assert online.governance.state().idle
    assert online.registry_failures == 0


def test_the_reader_leaves_prompts_of_others_alone(served: Any) -> None:
    _, client, _ = served
    client.create_prompt("other.self.policy", tags={"drpg.name": "somebody else"})

    uri = served[0].tracker.registry("shop", ["self"]).uri
    assert RegistryReader(uri, "other", ["self"]).read() == []
    (found,) = RegistryReader(uri, "shop", ["self"]).read()
    assert (found.champion, found.newest) == (0, 0)


def test_a_candidate_is_seen_in_mlflow_and_approved_there(served: Any) -> None:
    online, client, lm = served
    online.governance.require_approval(author="person:ada")
    lm.rule = "Another rule."
    for _ in range(2):  # the second time there is other evidence than before
        online.feedback(online(question="How long do whales sleep?").rollout_id, 1.0)
    assert "Another rule." not in lm.texts()[-1]
    wait_until(lambda: online._writer.behind() == 0)

    found = client.get_prompt_version(PROMPT, 2)
    assert found.template == "- Another rule."
    assert "candidate" in found.commit_message
    assert client.get_prompt_version_by_alias(PROMPT, "current").version == 1
    client.set_prompt_alias(PROMPT, "champion", 2)
    wait_until(lambda: len(online.governance.log()) == 2)
    online(question="What is 8?")

    assert "Another rule." in lm.texts()[-1]
    (status,) = online.governance.status()
    assert status.standing is not None
    assert status.standing.version == 2
    assert 2 not in [policy.version for policy in status.candidates]


def test_a_text_that_no_policy_may_hold_is_not_taken_up_and_said_once(
    memory: SQLiteMemory, caplog: pytest.LogCaptureFixture
) -> None:
    governance, follower = looking(memory, HandMade("self", PROMPT, 2, "- A"))
    follower.look()
    _, follower = looking(memory, HandMade("self", PROMPT, 3, f"- B\n- {'b' * 2001}"))

    assert follower.look()
    assert follower.look()

    current = governance.current("self")
    assert current is not None
    assert current.text == "- A"
    assert len(governance.log()) == 1
    assert follower.failures == 0
    assert caplog.text.count(f"version 3 of {PROMPT} is not taken up: Rule 2 must have") == 1
    assert "version 3" in json.loads(memory.get_meta(STATUS_KEY) or "{}")["refused"]


def test_a_refused_text_is_forgotten_once_another_stands(memory: SQLiteMemory) -> None:
    versions = [HandMade("self", PROMPT, 2, "Say \x00."), HandMade("self", PROMPT, 3, "- A")]
    governance = Governance(memory, ["self"])
    follower = RegistryFollower(governance, lambda: [versions.pop(0)])
    follower.look()
    follower.look()

    assert json.loads(memory.get_meta(STATUS_KEY) or "{}")["refused"] == ""
    current = governance.current("self")
    assert current is not None
    assert current.text == "- A"


def test_a_version_that_is_the_newest_since_a_later_one_was_deleted_is_not_taken_up(
    memory: SQLiteMemory,
) -> None:
    both = HandMade("self", PROMPT, newest=3, newest_text="- B", newest_is_last=True)
    governance, follower = looking(memory, both)
    follower.look()
    governance.edit("self", "- C", author="person:ada")
    _, follower = looking(memory, HandMade("self", PROMPT, newest=2, newest_text="- A"))
    follower.look()

    current = governance.current("self")
    assert current is not None
    assert current.text == "- C"


def test_champion_says_which_of_the_versions_made_by_hand_stands(memory: SQLiteMemory) -> None:
    looking(memory)[1].look()
    found = HandMade(
        "self", PROMPT, 2, "- chosen", newest=3, newest_text="- draft", newest_is_last=True
    )
    governance, follower = looking(memory, found)
    follower.look()
    follower.look()

    current = governance.current("self")
    assert current is not None
    assert current.text == "- chosen"


def test_a_server_that_does_not_answer_is_a_failure_at_once(memory: SQLiteMemory) -> None:
    reader = RegistryReader("http://127.0.0.1:9", "shop", ["self"], lambda: False)
    follower = RegistryFollower(Governance(memory, ["self"]), reader.read)

    assert not follower.look()
    assert (follower.failures, follower.looks) == (1, 0)
    assert "does not answer" in follower.last_error
