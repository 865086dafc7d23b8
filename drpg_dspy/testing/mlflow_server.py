"""A real ``mlflow server`` of a test's own, on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drpg_dspy.tracking.reach import answers

__all__ = ["MLflowServerFailed", "mlflow_server"]

_LOOK = 0.1
_LOG_SHOWN = 2_000


class MLflowServerFailed(RuntimeError):
    """The server ended or did not answer in time; the message ends with its log."""


@contextmanager
def mlflow_server(folder: Path, *, patience: float = 180.0) -> Iterator[str]:
    """Run ``mlflow server`` on MLflow's default store, and yield its address.

    Database, artifacts and log lie in ``folder``: the SQLite file ``mlflow.db``, made where it is
    missing, and ``mlartifacts``. It listens on a free port of the loopback interface only. At the
    end the server goes with all its worker processes, whatever happened inside the block.

    Args:
        folder: An existing folder.
        patience: Seconds until it must answer.

    Raises:
        MLflowServerFailed: It does not.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
        *("--port", str(port), "--workers", "1"),
    ]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    env = {
        **kept,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_until_up(address, process, folder / "server.log", patience)
            yield address
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_up(
    address: str, process: subprocess.Popen[bytes], log: Path, patience: float
) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end and process.poll() is None:
        if answers(address):
            return
        time.sleep(_LOOK)
    said = log.read_text(encoding="utf-8", errors="replace")[-_LOG_SHOWN:]
    problem = (
        f"did not answer within {patience:g} s"
        if process.poll() is None
        else f"ended with status {process.returncode}"
    )
    raise MLflowServerFailed(f"mlflow server {problem}: {said}")
