"""Cells of a sweep as tasks of a Ray cluster."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from drpg_dspy.cli.app import EXIT_FAILED, Stopped, wrong
from drpg_dspy.exceptions import missing_extra

__all__ = ["on_ray"]

_PATIENCE = 10.0
"""Seconds for a head node to take a connection; Ray itself tries for minutes."""


def on_ray(address: str, do: Callable[[Any, Sequence[str]], int]) -> Callable[..., int]:
    """Return what does one cell as a task of a cluster, in this folder, on any node.

    Args:
        address: ``HOST:PORT`` of the head node, ``ray://…``, ``auto``, or ``local`` to start one
            here.
        do: Does a cell with its command and returns the exit code. A task whose worker or node
            dies counts as failed, and the cell's log says why.

    Raises:
        BadParameter: Nothing answers at the address, or it is none.
        ImportError: The extra ``ray`` is absent.
        Stopped: The cluster is there but refuses.
    """
    try:
        import ray
        from ray.exceptions import RayError
    except ImportError as error:
        raise missing_extra("--ray", "ray", "ray") from error
    if not ray.is_initialized():
        _connect(ray, address)
    folder, path = os.getcwd(), [entry for entry in sys.path if entry]

    def task(cell: Any, command: Sequence[str]) -> int:
        os.chdir(folder)
        sys.path[:0] = [entry for entry in path if entry not in sys.path]
        return do(cell, command)

    remote = ray.remote(max_retries=0)(task)

    def done(cell: Any, command: Sequence[str]) -> int:
        try:
            return int(ray.get(remote.remote(cell, list(command))))
        except RayError as error:
            cell.log.parent.mkdir(parents=True, exist_ok=True)
            with cell.log.open("a", encoding="utf-8") as log:
                log.write(f"The cluster lost this cell: {error}\n")
            return EXIT_FAILED

    return done


def _connect(ray: Any, address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        _check_reachable(address, host.strip("[]"), int(port))
    try:
        ray.init(address=None if address == "local" else address, log_to_driver=False)
    except ValueError as error:
        raise wrong("--ray", f"{address!r} is no address of a cluster: {error}") from error
    except (ConnectionError, RuntimeError) as error:
        raise Stopped(
            f"The Ray cluster at {address} could not be joined: {error}. Where it was started with "
            "token authentication, set RAY_AUTH_MODE=token here, too, and give the same token; "
            "'ray status' tells whether it is up. --ray local starts one here."
        ) from error


def _check_reachable(address: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise wrong(
            "--ray",
            f"nothing answers at {address} ({error}). Start a head node there: "
            f"ray start --head --port {port}; or use --ray local.",
        ) from error
