from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from drpg_dspy.tracking.reach import answers


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server that answers with the status its ``status`` says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(made.status)  # type: ignore[attr-defined]
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Keep quiet."""

    asked: list[str] = []
    made = HTTPServer(("127.0.0.1", 0), Handler)
    made.status, made.asked = 200, asked  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize(
    ("status", "there"), [(200, True), (401, True), (404, True), (502, False), (503, False)]
)
def test_a_server_is_there_when_it_answers_and_a_gateway_alone_is_none(
    server: HTTPServer, status: int, there: bool
) -> None:
    server.status = status  # type: ignore[attr-defined]

    assert answers(f"http://user:secret@127.0.0.1:{server.server_port}/") is there
    assert server.asked == ["/health"]  # type: ignore[attr-defined]


def test_a_port_that_nobody_listens_on_and_a_name_that_nobody_has_are_not_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    assert not answers(f"http://127.0.0.1:{port}")
    assert not answers("http://no-such-host.invalid")


def test_a_server_that_takes_the_connection_and_says_nothing_is_not_there() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        assert not answers(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.2)
