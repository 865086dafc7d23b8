"""Runs answers of DS-1000 in confined processes of the interpreter that has its libraries."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from drpg_dspy.exceptions import EvaluationFailed
from evaluators.code import channel as wire
from evaluators.code.zygote import DATA_FOLDERS, PACKAGES

__all__ = ["Limits", "Outcome", "ProgramRunner"]

_ROOT = Path(__file__).resolve().parents[2]
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from evaluators.code.zygote import main; "
    "sys.path.remove(sys.argv[1]); main(int(sys.argv[2]), sys.argv[3])"
)
_PINNED = Path(__file__).with_name("requirements-ds1000.txt")
REMEDY = (
    "Make an interpreter with the libraries of DS-1000 (make ds1000, or: python3.11 -m venv "
    f"ds1000-venv && ds1000-venv/bin/python -m pip install -r {_PINNED}) and name it: "
    "DRPG_DS1000_PYTHON=ds1000-venv/bin/python."
)
"""How rows become judged for which a library is absent or of another version."""
_START_SECONDS = 300.0  # a first import of TensorFlow on a slow disk
_GRACE = 30.0
_ENVIRONMENT = {
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "LOKY_MAX_CPU_COUNT": "1",
    "MALLOC_ARENA_MAX": "2",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one answer may use.

    Attributes:
        seconds: Of its own, running or sleeping; waiting for a busy processor is not counted.
            Also the limit on CPU time.
        memory: Bytes that it may allocate beside the libraries.
        file_bytes, folder_bytes: Sizes of one file, and of all of them.
    """

    seconds: float = 120.0
    memory: int = 4 << 30
    file_bytes: int = 64 << 20
    folder_bytes: int = 256 << 20

    @property
    def wall_seconds(self) -> float:
        """When a row that a busy machine does not get done is given up."""
        return 10 * self.seconds + 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one answer.

    Attributes:
        kind: ``"match"``; ``"difference"``, ``"error"``, ``"no result"``, ``"lost"``,
            ``"string"``, ``"exit"``, ``"timeout"``, ``"files"``, ``"crash"``: the answer's
            fault; ``"test"``, ``"stalled"``: not its fault.
        text: What happened, in the program's or the tests' words.
        line: The line of the program that raised an error.
        case: Number of the test that it failed, from 1; 0 = none was reached.
        missing: The package that the tests need and do not find.
        dropped: Lines of the answer that the tests of plots leave out before they run it.
    """

    kind: str
    text: str = ""
    line: str = ""
    case: int = 0
    missing: str = ""
    dropped: tuple[str, ...] = ()


class ProgramRunner:
    """Runs answers, in processes of their own.

    Any number of threads may call :meth:`run`; ``workers`` answers run at once. For each library
    a process with that library loaded is kept for each answer that ran at once.

    Args:
        python: The interpreter.
        limits: What one answer may use.
        workers: How many run at once.
    """

    def __init__(self, python: str, limits: Limits, workers: int) -> None:
        self.python = python
        self.limits = limits
        self.workers = workers
        self._start_over()

    def run(self, library: str, context: str, code: str, *, apart: bool = True) -> Outcome:
        """Run a row's tests on an answer; never raises for a bad answer.

        Args:
            library: The row's library, as DS-1000 writes it.
            context: The row's ``code_context``.
            code: The answer.
            apart: The answer runs in another process than the tests.

        Raises:
            EvaluationFailed: The interpreter does not start, or lacks the library.
        """
        if self._pid != os.getpid():
            self._start_over()  # a forked child must not talk through its parent's sockets
        request = {"context": context, "code": code}
        with self._slots:
            outcome = self._attempt(library, request, apart)
            if outcome.kind == "stalled":
                outcome = self._attempt(library, request, apart)
        return outcome

    def describe(self, library: str) -> dict[str, Any]:
        """Return the interpreter's ``python``, ``versions`` of packages, and ``guards``.

        Raises:
            EvaluationFailed: The interpreter does not start, or lacks the library.
        """
        with self._slots:
            zygote = self._zygote(library)
            self._idle.setdefault(library, []).append(zygote)
            return dict(zygote.hello)

    def close(self) -> None:
        """End the processes. The runner starts new ones if it is used again."""
        _end_all(self._idle, os.getpid())

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._slots = threading.BoundedSemaphore(self.workers)
        self._idle: dict[str, list[_Zygote]] = {}
        self._absent: dict[str, str] = {}
        self._finalizer = weakref.finalize(self, _end_all, self._idle, self._pid)

    def _zygote(self, library: str) -> _Zygote:
        with contextlib.suppress(IndexError, KeyError):
            return self._idle[library].pop()
        if library not in PACKAGES:
            raise ValueError(f"library must be one of {', '.join(PACKAGES)}; got {library!r}.")
        if library in self._absent:
            raise EvaluationFailed(self._absent[library])
        try:
            return _Zygote(self.python, library)
        except EvaluationFailed as error:
            self._absent[library] = str(error)
            raise

    def _attempt(self, library: str, request: dict[str, Any], apart: bool) -> Outcome:
        zygote = self._zygote(library)
        try:
            outcome = zygote.ask(request, self.limits, apart)
        except BaseException:
            zygote.end()
            raise
        if zygote.alive:
            self._idle.setdefault(library, []).append(zygote)
        else:
            zygote.end()
        return outcome


class _Zygote:
    """One process with a library loaded; used by one thread at a time."""

    def __init__(self, python: str, library: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="drpg-ds1000-")
        self.control, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = self._start(python, library, theirs)
            self.hello = self._hear(_START_SECONDS)
        except BaseException:
            self.end()
            raise
        if missing := self.hello.get("missing"):
            self.end()
            raise EvaluationFailed(
                f"{library} rows need the package {missing!r}, which {python} does not have. "
                f"{REMEDY}"
            )
        if "guards" not in self.hello:
            self.end()
            raise EvaluationFailed(f"{python} does not start as a judge of {library} rows.")

    def _start(
        self, python: str, library: str, theirs: socket.socket
    ) -> subprocess.Popen[bytes] | None:
        command = [python, "-s", "-c", _START, str(_ROOT), str(theirs.fileno()), library]
        places = dict.fromkeys(("HOME", "TMPDIR"), self.folder)
        places["MPLCONFIGDIR"] = _font_list(self.folder)
        places.update({name: os.environ[name] for name in DATA_FOLDERS if name in os.environ})
        try:
            return subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                env={**_ENVIRONMENT, **places},
                start_new_session=True,
            )
        except OSError as error:
            raise EvaluationFailed(
                f"The interpreter {python} cannot be started: {error.strerror}. Name another "
                "with python=… or DRPG_DS1000_PYTHON."
            ) from error

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, request: dict[str, Any], limits: Limits, apart: bool) -> Outcome:
        folder = Path(tempfile.mkdtemp(prefix="row-", dir=self.folder))
        try:
            for name in ("candidate", "examiner"):
                (folder / name).mkdir()
            return self._ask(request, limits, apart, str(folder))
        finally:
            _remove(str(folder))

    def _ask(self, request: dict[str, Any], limits: Limits, apart: bool, folder: str) -> Outcome:
        order = {
            "folder": folder,
            "apart": apart,
            "seconds": limits.seconds,
            "wall_seconds": limits.wall_seconds,
            "memory": limits.memory,
            "file_bytes": limits.file_bytes,
            "folder_bytes": limits.folder_bytes,
        }
        ours, theirs = socket.socketpair()
        ours.settimeout(limits.wall_seconds + _GRACE)
        with ours:
            with theirs, contextlib.suppress(BrokenPipeError):
                socket.send_fds(
                    self.control, [json.dumps(order).encode("ascii")], [theirs.fileno()]
                )
            verdict = _verdict(ours, request)
        report = self._hear(limits.wall_seconds + _GRACE)
        if not report:
            self.end()
            return Outcome("stalled", "the process that starts answers is gone")
        return _outcome(verdict, report, limits)

    def _hear(self, seconds: float) -> dict[str, Any]:
        """Read a line of JSON; an empty answer means that the process is gone or silent."""
        self.control.settimeout(seconds)
        line = b""
        try:
            while not line.endswith(b"\n"):
                part = self.control.recv(1 << 16)
                if not part:
                    return {}
                line += part
        except (TimeoutError, ConnectionResetError):
            return {}
        return dict(json.loads(line))

    def end(self) -> None:
        self.control.close()
        process = getattr(self, "process", None)
        if process is not None:
            process.kill()
            process.wait()
        _remove(self.folder)


def _font_list(otherwise: str) -> str:
    """Return a lasting folder for Matplotlib's list of fonts, which takes seconds to make."""
    home = os.environ.get("DRPG_HOME") or platformdirs.user_cache_dir("drpg-dspy", False)
    folder = Path(home).expanduser() / "matplotlib"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return otherwise
    return str(folder)


def _verdict(row: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """Hand the examiner its row and return its verdict; none if it did not come to one."""
    try:
        wire.send(row, request)
        return wire.receive(row, 0)[0]
    except (wire.Closed, TimeoutError):
        return {}


def _outcome(verdict: dict[str, Any], report: dict[str, Any], limits: Limits) -> Outcome:
    case = int(verdict.get("case", 0))
    dropped = tuple(verdict.get("dropped", ()))
    reason = report["reason"]
    if reason == "stalled":
        return Outcome("stalled", f"not done within {limits.wall_seconds:g} s")
    if reason == "files":
        return Outcome("files", "it wrote too much to its folder", case=case)
    kind = verdict.get("kind", "ended")
    if reason == "timeout" or kind == "ended":
        ended = report.get("candidate", report["examiner"]) if verdict else report["examiner"]
        return _ended(reason, ended, case, limits)
    return Outcome(
        kind=kind,
        text=verdict.get("text", ""),
        line=verdict.get("line", ""),
        case=case,
        missing=verdict.get("missing") or "",
        dropped=dropped,
    )


def _ended(reason: str, status: int, case: int, limits: Limits) -> Outcome:
    """Say why a process ended before it had anything to say."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if reason == "timeout" or number == getattr(signal, "SIGXCPU", -1):
        return Outcome("timeout", f"still running after {limits.seconds:g} s", case=case)
    if number == 0:
        return Outcome("exit", f"it ended its process with code {status >> 8}", case=case)
    return Outcome("crash", f"its process ended with {signal.Signals(number).name}", case=case)


def _remove(folder: str) -> None:
    try:
        shutil.rmtree(folder, onerror=_make_removable)
    except RecursionError:  # folders nested deeply, on purpose
        subprocess.run(["rm", "-rf", "--", folder], check=False)


def _make_removable(remove: Any, path: str, _: Any) -> None:
    """Give a folder back the permissions that an answer took from it; then try again."""
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        remove(path)


def _end_all(idle: dict[str, list[_Zygote]], owner: int) -> None:
    if owner == os.getpid():
        for zygotes in idle.values():
            while zygotes:
                zygotes.pop().end()
