from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.weights import hub_refusal

constants = pytest.importorskip("huggingface_hub.constants")


class Hub(BaseHTTPRequestHandler):
    """Has one model, lacks another one's config, is out of order for the third."""

    def do_HEAD(self) -> None:
        if "/some/model/" in self.path:
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "2")
        elif "/some/bare/" in self.path:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
        elif "/some/broken/" in self.path:
            self.send_response(503)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def point_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"http://127.0.0.1:{port}"
    paths = place + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", place)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", paths)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        point_to(server.server_port, monkeypatch)
        yield
        server.shutdown()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that takes the call and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        point_to(server.getsockname()[1], monkeypatch)
        yield


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("some/model", ""),
        ("some/bare", ""),
        ("some/broken", "the hub is out of order (status 503)"),
        ("some/other", "the hub has no such model, or not for you (HF_TOKEN)"),
        ("bare-name", "the hub has no such model, or not for you (HF_TOKEN)"),
        ("no name!", "no model can have that name"),
    ],
)
def test_the_hub_is_asked_once_what_it_has(model: str, said: str) -> None:
    assert hub_refusal(model) == said


@pytest.mark.usefixtures("silent")
def test_a_hub_that_says_nothing_is_not_waited_for() -> None:
    # Which of the two limits ends it first is the machine's affair.
    assert hub_refusal("some/model", seconds=0.3) in (
        "the hub does not answer within 0.3 s",
        "the hub cannot be reached (timed out)",
    )


def test_a_hub_out_of_reach_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(1, monkeypatch)

    assert hub_refusal("some/model").startswith("the hub cannot be reached (")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in hub_refusal("some/model")


def test_an_unknown_embedder_without_network_is_refused_without_the_clients_own_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = pytest.importorskip("sentence_transformers")
    from drpg_dspy.retrieval import resolve_embedder

    asked = []

    def model(name: str, *, local_files_only: bool, **_: object) -> None:
        asked.append(local_files_only)
        raise OSError("not in the cache")

    monkeypatch.setattr(models, "SentenceTransformer", model)
    point_to(1, monkeypatch)

    with pytest.raises(ModelNotFound, match=r"someone/model.*cannot be reached.*drpg lm pull"):
        resolve_embedder("someone/model")
    assert asked == [True]
