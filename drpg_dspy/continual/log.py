"""A run under the protocol, on disk: one file of JSON lines, and the method's last states.

::

    NAME/config.json     what the run was started with
    NAME/run.jsonl       one line for each adaptation and each answer, in order; one for the
                         checks of an answer where the judge was out of reach at first
    NAME/state/step-7/   what the method kept after adapting to step 7

A line is written and synced before the next thing is done. After ``kill -9`` the last line may be
half written: it is dropped, and what it was about is done again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import ResumeMismatch, StorageError
from drpg_dspy.plain import dumps, loads
from drpg_dspy.streaming.lock import is_locked, lock_for

__all__ = ["RunLog"]

_CONFIG = "config.json"
_LINES = "run.jsonl"
_STATES = "state"
_LATER = {"threads": 1}
"""Settings that came later, and what the runs from before them had."""

_FREE = {"data", "schedule_name", "versions"}
"""Settings that may differ when a run is continued."""


class RunLog:
    """The records of one run.

    Args:
        folder: Its folder; made when the run begins.
        settings: What the run is started with, as plain JSON; ``None`` = only to read.

    Raises:
        ResumeMismatch: The folder holds a run with other settings; the message names them.
        StorageError: A file is damaged beyond its last line, or there is no run to read.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        path = folder / _CONFIG
        if settings is not None and not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            draft = folder / f".{_CONFIG}.{os.getpid()}"
            draft.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
            os.replace(draft, path)
        self.settings = _read_settings(path)
        if settings is not None:
            _check_same(folder.name, self.settings, settings)

    @property
    def name(self) -> str:
        """The run's name: that of its folder."""
        return self.folder.name

    @property
    def running(self) -> bool:
        """True while a live process writes it."""
        return is_locked(self.folder / _LINES)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run against every other process.

        Raises:
            RunInUse: Another live process writes it.
        """
        return lock_for(self.folder / _LINES, remove=True)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the records; a half-written last line is left out.

        An answer whose checks came later has them, and is ``unchecked`` no more.

        Raises:
            StorageError: Another line is damaged, or says again what an earlier one said.
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for number, record in self._numbered():
            kind, step, prompt = record["kind"], int(record["step"]), record.get("prompt")
            answer = found.get(("answer", step, prompt))
            if kind == "checks" and answer is not None and answer.pop("unchecked", False):
                names = ("checks", "scoring_seconds", "judging")
                answer.update({name: record[name] for name in names})
            elif kind == "checks" or (kind, step, prompt) in found:
                of = f"prompt {prompt!r} at step {step}" if prompt is not None else f"step {step}"
                raise StorageError(
                    f"{self.folder / _LINES}, line {number} is a second {kind!r} of {of}. Remove "
                    "that line."
                )
            else:
                found[kind, step, prompt] = record
        yield from found.values()

    def _numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        path = self.folder / _LINES
        if not path.exists():
            return
        kept = path.read_bytes().split(b"\n")
        for number, line in enumerate(kept[:-1], 1):  # after the last newline: nothing, or a half
            try:
                record = loads(line.decode())
                if record["kind"] == "answer":
                    str(record["prompt"]), int(record["step"])
                yield number, record
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(
                    f"{path}, line {number} is damaged ({type(error).__name__}: {error}). Remove "
                    "the lines from there on: what they were about is done again."
                ) from error

    def repair(self) -> None:
        """Cut off a half-written last line; the caller holds the lock."""
        path = self.folder / _LINES
        if path.exists() and (raw := path.read_bytes()) and not raw.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(raw.rfind(b"\n") + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record and wait until it is on disk."""
        with (self.folder / _LINES).open("ab") as file:
            file.write(dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def new_state(self, step: int) -> Path:
        """Return an empty folder for the state after a step; see :meth:`keep_state`."""
        draft = self.folder / _STATES / f".step-{step}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        return draft

    def keep_state(self, step: int) -> None:
        """Put the folder of :meth:`new_state` in its place and drop those before the last."""
        place = self.state(step)
        shutil.rmtree(place, ignore_errors=True)
        os.replace(self.folder / _STATES / f".step-{step}", place)
        for old in place.parent.glob("step-*"):
            if int(old.name.removeprefix("step-")) < step - 1:
                shutil.rmtree(old, ignore_errors=True)

    def state(self, step: int) -> Path:
        """Return the folder of the state after a step."""
        return self.folder / _STATES / f"step-{step}"


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise StorageError(f"{path.parent} holds no run of drpg recap.") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}. Restore it from a copy.") from error
    if not isinstance(stored, dict):
        raise StorageError(f"{path} does not hold a run's settings. Restore it from a copy.")
    return stored


def _check_same(name: str, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    now = {**_LATER, **json.loads(json.dumps(given))}
    stored = {**_LATER, **stored}
    differing = [
        f"{key}: {stored.get(key)!r} stored, {now.get(key)!r} given"
        for key in sorted({*stored, *now} - _FREE)
        if stored.get(key) != now.get(key)
    ]
    if differing:
        raise ResumeMismatch(
            f"The run {name!r} was started with other settings ({'; '.join(differing)}). Give "
            "another name, or start over with --overwrite."
        )
