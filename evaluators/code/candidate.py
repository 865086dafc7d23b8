"""The process in which an answer runs: it computes a result, and judges nothing.

It is forked before the row's tests are known to anybody it came from, gets the program with the
answer in it and the pickled input from the examiner, and sends back what became of ``result``.
It holds no expected result, no reference and no test; there is nothing here to be forged.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import random
import socket
import sys
import tempfile
import traceback
import warnings
from typing import Any

from evaluators.code import channel as wire
from evaluators.code.transport import Unsendable, send

__all__ = ["MOST_BYTES", "read_files", "restore", "serve", "settle", "write_files"]

MOST_BYTES = 256 << 20
_MOST_FILES = 50
_PROGRAM = "<program>"


def serve(channel: socket.socket) -> None:
    """Run the programs that the examiner sends, one after the other, until it hangs up."""
    warnings.simplefilter("ignore")
    with contextlib.suppress(wire.Closed):
        while True:
            request, (env, state, *files) = wire.receive(channel, MOST_BYTES)
            write_files(dict(zip(request["files"], files, strict=True)))
            header, parts = _run(request, env, state)
            wire.send(channel, header, parts)


def _run(
    request: dict[str, Any], packed: bytes, state: bytes
) -> tuple[dict[str, Any], list[bytes]]:
    for name in request["modules"]:
        # What the tests import is imported here as well: in the official single process it is.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    env = pickle.loads(packed)  # the examiner's: trusted
    restore(pickle.loads(state))
    before = _files()
    try:
        exec(compile(request["code"], _PROGRAM, "exec"), env)
    except BaseException as error:  # noqa: BLE001 - an answer may raise anything, SystemExit too
        return {"status": "error", **_described(error, request["code"])}, []
    if "result" not in env:
        return {"status": "no result"}, []
    try:
        parts = [send(env["result"]), send(_figures(), plots=True)]
    except Unsendable as error:
        return {"status": "lost", "message": str(error)[:500]}, []
    written = [name for name, stamp in _files().items() if before.get(name) != stamp]
    contents = read_files(written)
    return {"status": "done", "files": list(contents)}, [*parts, *contents.values()]


def restore(state: dict[str, Any]) -> None:
    """Put random generators into a state."""
    random.setstate(state["random"])
    if "numpy" in state:
        importlib.import_module("numpy").random.set_state(state["numpy"])
    if "torch" in state:
        torch = importlib.import_module("torch")
        torch.set_rng_state(torch.tensor(list(state["torch"]), dtype=torch.uint8))


def write_files(files: dict[str, bytes]) -> None:
    """Write files of the working directory."""
    for name, content in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(content)


def read_files(names: list[str]) -> dict[str, bytes]:
    """Return the content of files, as far as there is room for it."""
    contents: dict[str, bytes] = {}
    room = MOST_BYTES // 4
    for name in names[:_MOST_FILES]:
        with contextlib.suppress(OSError), open(name, "rb") as file:
            content = file.read(room + 1)
            if len(content) <= room:
                contents[name] = content
                room -= len(content)
    return contents


def _files() -> dict[str, tuple[int, int]]:
    """Return size and time of the plain files here; what begins with a dot is left out."""
    found = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names[: 10 * _MOST_FILES]:
            path = os.path.relpath(os.path.join(folder, name))
            if not name.startswith(".") and os.path.isfile(path) and not os.path.islink(path):
                status = os.stat(path)
                found[path] = (status.st_size, status.st_mtime_ns)
    return found


def _figures() -> list[Any]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return []
    return [manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()]


def _described(error: BaseException, code: str) -> dict[str, Any]:
    """Return the error's last line and the line of the program that raised it."""
    try:
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
    except Exception:  # noqa: BLE001 - the error's own code may fail
        message = type(error).__name__
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == _PROGRAM]
    number = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    number = number or (lines[-1] if lines else None)
    source = code.split("\n")
    line = source[number - 1].strip() if number and number <= len(source) else ""
    return {"message": message.splitlines()[-1][:1000] if message else "", "line": line[:300]}


def settle(folder: str) -> None:
    """Have temporary files go to a hidden folder of the working directory."""
    place = os.path.join(folder, ".tmp")
    os.makedirs(place, exist_ok=True)
    os.environ["TMPDIR"] = os.environ["HOME"] = place
    tempfile.tempdir = place
