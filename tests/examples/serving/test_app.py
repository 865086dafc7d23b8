"""The example service: it answers, learns from feedback by id, and survives being killed."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dspy
import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi.testclient import TestClient  # noqa: E402

from drpg_dspy.exceptions import StorageError  # noqa: E402
from drpg_dspy.memory import SQLiteMemory  # noqa: E402
from drpg_dspy.testing import ScriptedLM  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE)]

import scripted_service  # noqa: E402

from examples.serving import app as service  # noqa: E402

ASKED = {"question": "Can I return a gift card?"}
SAID = {"score": 0, "text": scripted_service.RULE, "author": "ann"}


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Any]:
    with dspy.context(lm=ScriptedLM(scripted_service.script)):
        yield scripted_service.learner(str(tmp_path / "shop.sqlite"))


@pytest.fixture
def client(online: Any) -> Iterator[TestClient]:
    with TestClient(service.create_app(online)) as client:
        yield client


def test_it_answers_takes_feedback_by_id_and_answers_better(client: TestClient) -> None:
    first = client.post("/answers", json=ASKED).json()
    assert first["answer"] == "No."
    given = client.put(f"/answers/{first['id']}/feedback", json=SAID)
    assert (given.status_code, given.content) == (204, b"")

    second = client.post("/answers", json={"question": "May I return this gift card?"}).json()
    assert second["answer"] == "No, see paragraph 2."
    assert (
        scripted_service.RULE
        in client.get(f"/answers/{second['id']}").json()["policies"]["answer.predict"]
    )
    looked_up = client.get(f"/answers/{first['id']}").json()
    assert (looked_up["score"], looked_up["text"]) == (0.0, scripted_service.RULE)
    assert client.get("/health").json() == {"answers": 2, "learned_from": 1, "unrecorded": 0}


def test_feedback_can_be_revised_and_taken_back(client: TestClient, online: Any) -> None:
    id = client.post("/answers", json=ASKED).json()["id"]
    for score in (0, 0, 1):
        client.put(f"/answers/{id}/feedback", json={"score": score})
    assert online.memory.feedback(id).score == 1.0
    assert len(online.memory.feedback_history(id)) == 2
    assert client.delete(f"/answers/{id}/feedback").status_code == 204
    assert online.memory.feedback(id) is None


@pytest.mark.parametrize(
    ("body", "status"),
    [({"score": 7}, 422), ({"score": "good"}, 422), ({}, 422), ({"score": 1}, 404)],
)
def test_a_wrong_verdict_is_refused(client: TestClient, body: Any, status: int) -> None:
    answer = client.put("/answers/nobody/feedback", json=body)

    assert answer.status_code == status
    assert client.get("/health").json()["learned_from"] == 0


def test_not_a_number_is_no_score(client: TestClient) -> None:
    id = client.post("/answers", json=ASKED).json()["id"]
    body = f'{{"score": {math.nan}}}'.replace("nan", "NaN")
    answer = client.put(
        f"/answers/{id}/feedback", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 422


def test_feedback_that_cannot_be_kept_is_asked_for_again(
    client: TestClient, online: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = client.post("/answers", json=ASKED).json()["id"]

    def locked(*_: Any, **__: Any) -> None:
        raise StorageError("The file is locked.")

    monkeypatch.setattr(online, "feedback", locked)
    answer = client.put(f"/answers/{id}/feedback", json=SAID)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_an_answer_that_cannot_be_recorded_is_given_without_an_id(
    client: TestClient, online: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(online.memory, "record", full)
    answer = client.post("/answers", json=ASKED)

    assert answer.status_code == 200
    assert answer.json() == {"id": None, "answer": "No."}
    assert client.get("/health").status_code == 500


# -- a real process ----------------------------------------------------------------------------


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """Run the service in a process of its own; yields a client of it, and the process."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{HERE}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--factory", "scripted_service:create",
         "--port", str(port), "--log-level", "warning"],
        cwd=folder, env=environment,
    )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            until = time.monotonic() + 120
            while True:
                try:
                    client.get("/health")
                    break
                except httpx.TransportError:
                    assert process.poll() is None, "the service ended by itself"
                    assert time.monotonic() < until, "the service does not come up"
                    time.sleep(0.2)
            yield client, process
    finally:
        process.kill()
        process.wait()


def test_eight_clients_lose_nothing_when_the_service_is_killed(tmp_path: Path) -> None:
    kept: dict[str, float] = {}

    def use(client: Any, number: int, rounds: int) -> None:
        for turn in range(rounds):
            score = float((number + turn) % 2)
            try:
                answer = client.post("/answers", json={"question": f"Question {number}.{turn}?"})
                id = answer.json()["id"]
                client.put(f"/answers/{id}/feedback", json={"score": score}).raise_for_status()
            except httpx.TransportError:
                return  # killed: what was not acknowledged is not promised
            kept[id] = score

    with serving(tmp_path) as (client, process), ThreadPoolExecutor(8) as pool:
        first = client.post("/answers", json=ASKED).json()
        users = [pool.submit(use, client, number, 1_000) for number in range(8)]
        while len(kept) < 60 and not any(user.done() for user in users):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        for user in users:
            user.result()
    assert len(kept) >= 60

    with serving(tmp_path) as (client, _):
        client.put(f"/answers/{first['id']}/feedback", json=SAID).raise_for_status()
        again = client.post("/answers", json=ASKED).json()
        assert again["answer"] == "No, see paragraph 2."
        assert client.get("/health").json()["unrecorded"] == 0
    with closing(SQLiteMemory(tmp_path / "shop.sqlite", read_only=True)) as memory:
        assert {id: memory.feedback(id).score for id in kept} == kept
