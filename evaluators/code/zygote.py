"""A process that has the libraries loaded, and forks a confined pair for every answer.

Started by :mod:`evaluators.code.runner` in the interpreter that judges. It never sees a row: the
parent hands it the socket on which the examiner will read the row, so that the candidate, which
is forked from here too, cannot find in its memory what was never there. One pair at a time.

The zygote watches the pair: the examiner says when a program starts and ends, and a program is
given ``seconds`` of time of its own, in which it ran or slept, not in which it waited for a busy
processor (``/proc/PID/schedstat``). The kernel's limit on CPU time stands behind that.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from evaluators.code import channel as wire
from evaluators.code.candidate import serve, settle
from evaluators.code.confine import confine, readable_places
from evaluators.code.examiner import examine

__all__ = ["DATA_FOLDERS", "PACKAGES", "main"]

PACKAGES = {
    "Pandas": ("numpy", "pandas"),
    "Numpy": ("numpy",),
    "Scipy": ("numpy", "scipy"),
    "Sklearn": ("numpy", "scipy", "sklearn"),
    "Matplotlib": ("numpy", "matplotlib", "matplotlib.pyplot", "PIL"),
    "Pytorch": ("numpy", "torch"),
    "Tensorflow": ("numpy", "tensorflow"),
}
"""By library of DS-1000: what all its rows need, loaded in advance."""

_MORE = {
    "Numpy": ["pandas"],
    "Scipy": ["pandas"],
    "Sklearn": ["pandas"],
    "Matplotlib": ["pandas", "seaborn"],
    "Pytorch": ["pandas"],
}
DATA_FOLDERS = ("SEABORN_DATA", "SCIKIT_LEARN_DATA")
"""Variables that name folders of downloaded example data, which some rows read."""

_TICK = 0.05
_MOST_ENTRIES = 5000


def main(control_fd: int, library: str) -> None:
    """Answer requests on the control socket until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    sys.path[:] = [place for place in sys.path if place and os.path.isabs(place)]
    control = socket.socket(fileno=control_fd)
    try:
        versions = {name: _version(name) for name in PACKAGES[library]}
    except ImportError as error:
        _tell(control, {"missing": error.name or str(error)})
        return
    for name in _MORE.get(library, []):
        with contextlib.suppress(ImportError):  # a row that needs it will say so
            versions[name] = _version(name)
    _list_fonts()
    named = (*DATA_FOLDERS, "MPLCONFIGDIR")
    places = readable_places() + [os.environ[name] for name in named if name in os.environ]
    _tell(control, {"guards": _guards(places), "python": sys.version, "versions": versions})
    while True:
        message, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            return
        order = json.loads(message)
        with socket.socket(fileno=fds[0]) as row:
            report = _Pair(order, places, row, control).watch()
        _tell(control, report)


class _Pair:
    """The two processes that deal with one answer, or the one, where they are not kept apart."""

    def __init__(
        self, order: dict[str, Any], places: list[str], row: socket.socket, control: socket.socket
    ) -> None:
        self.order = order
        self.places = places
        self.candidate = 0
        ours, theirs = socket.socketpair()
        if order["apart"]:
            # First the candidate: it must inherit neither the row nor the way to the examiner.
            self.candidate = self._fork("candidate", lambda: serve(ours), keep=ours.fileno())
        ours.close()
        self.bell, clock = os.pipe()
        self.examiner = self._fork("examiner", lambda: self._examine(row, theirs, clock, control))
        theirs.close()
        os.close(clock)
        self.worker = self.candidate or self.examiner

    def _examine(
        self, row: socket.socket, candidate: socket.socket, clock: int, control: socket.socket
    ) -> None:
        control.close()
        os.close(self.bell)
        request, _ = wire.receive(row, 0)
        channel = candidate if self.candidate else None
        wire.send(row, examine(request, channel, lambda event: os.write(clock, event)))

    def _fork(self, name: str, work: Callable[[], None], keep: int | None = None) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setpgid(0, 0)
            if keep is not None:
                os.closerange(3, keep)
                os.closerange(keep + 1, 4096)
            folder = os.path.join(self.order["folder"], name)
            settle(folder)
            spare = 0 if name == "candidate" else 60
            confine(
                folder,
                self.places,
                seconds=self.order["seconds"] + spare,
                memory=self.order["memory"],
                file_bytes=self.order["file_bytes"],
            )
            work()
            status = 0
        finally:
            os._exit(status)  # nothing of the zygote's, or of an answer's, runs at exit

    def watch(self) -> dict[str, Any]:
        """Wait for the examiner; end what exceeds its limits; say how both ended."""
        reason = ""
        started, clock = time.monotonic(), _Clock(self.worker)
        folder = os.path.join(self.order["folder"], "candidate" if self.candidate else "examiner")
        while not reason:
            if select.select([self.bell], [], [], _TICK)[0]:
                events = os.read(self.bell, 4096)
                if not events:
                    break
                clock.turn(events)
            if clock.seconds() > self.order["seconds"]:
                reason = "timeout"
            elif time.monotonic() - started > self.order["wall_seconds"]:
                reason = "stalled"
            elif self._fills(folder):
                reason = "files"
        ends: dict[str, Any] = {"reason": reason}
        done = not reason
        if self.candidate:
            if reason in ("timeout", "files"):
                _kill(self.candidate)  # the examiner notices, and says in which test it was
                done = _closes(self.bell)
            ends["candidate"] = _end(self.candidate)
        if not done:
            _kill(self.examiner)
        ends["examiner"] = _reap(self.examiner)
        os.close(self.bell)
        return ends

    def _fills(self, folder: str) -> bool:
        try:
            return _too_much(folder, self.order["folder_bytes"])
        except OSError:  # a path that is too long
            return True


class _Clock:
    """Measures the time that a process has had for its programs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.spent = 0.0
        self.since: float | None = None

    def turn(self, events: bytes) -> None:
        """Start or stop, as the last of the events says."""
        self.spent = self.seconds()
        self.since = self._now() if events.endswith(b"+") else None

    def seconds(self) -> float:
        """Return what it has had so far."""
        return self.spent + (0.0 if self.since is None else self._now() - self.since)

    def _now(self) -> float:
        try:
            with open(f"/proc/{self.pid}/schedstat", encoding="ascii") as file:
                waited = int(file.read().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            waited = 0.0
        return time.monotonic() - waited


def _version(name: str) -> str:
    module = importlib.import_module(name)
    if name == "torch":
        module.set_num_threads(1)
    if name == "matplotlib":
        importlib.import_module("matplotlib.font_manager")  # the list of fonts, made once
    return str(getattr(module, "__version__", ""))


def _list_fonts() -> None:
    """Have Matplotlib's list of fonts made where it is to lie: no answer may write there."""
    place = os.environ.get("MPLCONFIGDIR", os.curdir)
    if importlib.util.find_spec("matplotlib") is None or any(
        name.startswith("fontlist") and name.endswith(".json") for name in os.listdir(place)
    ):
        return
    pid = os.fork()
    if not pid:
        try:
            importlib.import_module("matplotlib.font_manager")
        finally:
            os._exit(0)
    _reap(pid)


def _guards(places: list[str]) -> list[str]:
    """Return what confines a process here, found by confining one."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if not pid:
            try:
                guards = confine(folder, places, seconds=5, memory=1 << 30, file_bytes=1 << 20)
                os.write(writer, json.dumps(guards).encode("ascii"))
            finally:
                os._exit(0)
        os.close(writer)
        _reap(pid)
        with open(reader, "rb") as pipe:
            return list(json.loads(pipe.read() or b"[]"))


def _too_much(folder: str, most: int) -> bool:
    """Tell whether a folder holds more bytes, or more entries, than it may."""
    total = entries = 0
    waiting = [folder]  # no recursion: folders may be nested deeply, on purpose
    while waiting and entries <= _MOST_ENTRIES and total <= most:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for entry in os.scandir(waiting.pop()):
                entries += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return entries > _MOST_ENTRIES or total > most


def _closes(bell: int) -> bool:
    """Wait for the examiner to be done, and say whether it is."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if select.select([bell], [], [], 0.5)[0] and not os.read(bell, 4096):
            return True
    return False


def _end(pid: int) -> int:
    """End a process and return how it had ended, if it had."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        # One that is on its way out, and has closed its files already, keeps its own end.
        _kill(pid)
        status = _reap(pid)
    ours = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return 0 if ours and not done else status


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _reap(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def _tell(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode("ascii") + b"\n")
