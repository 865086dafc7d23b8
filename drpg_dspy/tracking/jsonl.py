"""A run as a text file: one JSON line for each record."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from drpg_dspy.arguments import checked_path
from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.records import record_to_plain

__all__ = ["JSONLTracker", "write_records"]

_log = logging.getLogger(__name__)
_BLOCK = 1 << 16


class JSONLTracker(Tracker):
    r"""Appends every record to a file, as one self-contained line of JSON.

    A line holds ``run``, ``seq``, ``at``, ``rollout`` (with the policies and shots used),
    ``feedback``, ``policies`` (stored for the first time by this event) and ``metrics``, in the
    plain form of :mod:`drpg_dspy.plain`. Needs no extra package.

    After a crash a torn last line is cut off and the file goes on behind its last whole line,
    so every ``seq`` stands in it once. A file that another run left at the same path is kept
    under a numbered name.

    Args:
        path: The file; its folder is made if need be.

    Raises:
        ValueError: ``path`` is no path; the file itself is opened by :meth:`start`.

    >>> import json, tempfile, pathlib
    >>> from drpg_dspy.types import Rollout
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.jsonl"
    >>> tracker = JSONLTracker(path)
    >>> token = tracker.start(RunInfo("first"))
    >>> tracker.write([StepRecord(1, Rollout("a", 1, {"q": "?"}, {"a": "!"}), None)])
    >>> tracker.finish("finished")
    >>> json.loads(path.read_text())["rollout"]["outputs"]
    {'a': '!'}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._file = checked_path("path", path).absolute()
        self.name = self._file.stem
        self._token = ""
        self._last = 0
        self._open: BinaryIO | None = None

    @property
    def destination(self) -> str:
        """The file's whole path."""
        return f"jsonl:{self._file}"

    def start(self, run: RunInfo) -> str:
        """Open the file, or go on behind its last whole line."""
        self._close()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        if self._file.exists():
            _cut_torn_line(self._file)
        token, last = _last_record(self._file) if self._file.exists() else ("", 0)
        if token and token == run.resume_token:
            self._token, self._last = token, last
        else:
            if token:
                _set_aside(self._file)
            # An empty file is where a run begins, or begins again after its file was removed:
            # a new token has everything told from the first event.
            self._token, self._last = uuid.uuid4().hex, 0
        self._open = self._file.open("ab")
        return self._token

    def write(self, records: Sequence[StepRecord]) -> None:
        """Append the records that the file does not hold yet."""
        if self._open is None:
            raise ValueError(f"{self._file} is not open; call start() first.")
        new = [record for record in records if record.seq > self._last]
        if not new:
            return
        end = self._file.stat().st_size
        try:
            self._open.write(b"".join(_line(record, self._token) for record in new))
            self._open.flush()
            os.fsync(self._open.fileno())
        except OSError:
            # A full disk leaves half a line, and the same records will be offered again.
            self._close()
            os.truncate(self._file, end)
            self._open = self._file.open("ab")
            raise
        self._last = new[-1].seq

    def finish(self, status: str) -> None:
        """Close the file."""
        self._close()

    def _close(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            file.close()


def write_records(path: Path, records: Iterable[StepRecord], run: str = "") -> None:
    """Write records to a new file, one line each, as :class:`JSONLTracker` does.

    Args:
        path: The file; overwritten.
        records: In order of ``seq``.
        run: What stands in each line's ``run``.
    """
    with path.open("wb") as file:
        file.writelines(_line(record, run) for record in records)


def _line(record: StepRecord, run: str) -> bytes:
    plain = {"run": run, **record_to_plain(record)}
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _cut_torn_line(path: Path) -> None:
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        keep = end
        while keep > 0:
            begin = max(0, keep - _BLOCK)
            file.seek(begin)
            newline = file.read(keep - begin).rfind(b"\n")
            keep = begin + newline + 1
            if newline >= 0:
                break
        if keep < end:
            _log.warning("%s ended in a torn line of %d bytes, which was cut.", path, end - keep)
            file.truncate(keep)


def _last_record(path: Path) -> tuple[str, int]:
    """Return run token and number of the last whole line; ``("?", 0)`` for a foreign file."""
    size = path.stat().st_size
    if size == 0:
        return "", 0
    with path.open("rb") as file:
        tail = b""
        begin = size
        while begin > 0 and b"\n" not in tail[:-1]:
            step = min(_BLOCK, begin)
            begin -= step
            file.seek(begin)
            tail = file.read(step) + tail
    try:
        line = json.loads(tail[:-1].rpartition(b"\n")[2])
        return str(line["run"]), int(line["seq"])
    except (ValueError, KeyError, TypeError):
        return "?", 0


def _set_aside(path: Path) -> None:
    number = 1
    while (other := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    path.rename(other)
    _log.warning("%s belongs to another run and was kept as %s.", path, other.name)
