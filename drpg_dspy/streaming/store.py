"""A named run on disk: its settings, its memory, its lock.

::

    .drpg/runs/first/config.json      what it was started with; only its limits may change
    .drpg/runs/first/memory.sqlite    everything that happened
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drpg_dspy.analysis.summary import STATUS_KEY
from drpg_dspy.exceptions import RunInUse, StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.memory.schema import creation_lock
from drpg_dspy.plain import to_plain
from drpg_dspy.streaming.lock import is_locked, lock_for, was_locked
from drpg_dspy.streaming.settings import check_settings

__all__ = ["RunConfig", "RunFolder", "damaged_runs", "list_runs", "runs_root"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CONFIG = "config.json"
_MEMORY = "memory.sqlite"
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("benchmark", "optimizer"), str),
    **dict.fromkeys(("options", "budget", "extra", "versions"), Mapping),
    **dict.fromkeys(("lm", "policy_lm", "embedder", "data", "compare"), (str, type(None))),
    **dict.fromkeys(("limit", "seed"), (int, type(None))),
    "delay": int,
    "threshold": (int, float),
    "exclude_db": (list, tuple),
}
"""What a stored setting must be, so that a file that was changed by hand is found out."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What a run is started with, as plain JSON: enough to build its learner again.

    Attributes:
        benchmark: The benchmark's name.
        optimizer: The method's name.
        options: The method's arguments.
        lm, policy_lm: Names of the answering and the policy-writing model.
        embedder: Name of the embedding model.
        data: Where the benchmark's data is. May change: what it holds is checked by the stream.
        limit: Number of examples; ``None`` = all. May change, down to the steps made.
        seed: Of the order; ``None`` = as loaded.
        delay: Steps between a prediction and its feedback.
        compare: Name of the scoring.
        exclude_db: Databases whose questions are left out.
        threshold: Scores from here on are correct.
        budget: Limits by name. May change.
        extra: Further settings that must not change.
        versions: Of this library, DSPy and Python, for the record.
    """

    benchmark: str
    optimizer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    lm: str | None = None
    policy_lm: str | None = None
    embedder: str | None = None
    data: str | None = None
    limit: int | None = None
    seed: int | None = 42
    delay: int = 0
    compare: str | None = None
    exclude_db: tuple[str, ...] = ()
    threshold: float = 0.5
    budget: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RunConfig:
        """Read what :meth:`as_dict` gave.

        Raises:
            StorageError: A setting is missing, or is not known to this version.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        if unknown := sorted(set(stored) - known):
            raise StorageError(
                f"The run has the settings {unknown}, which this drpg-dspy does not know; it was "
                "started by a newer version. Upgrade: pip install --upgrade drpg-dspy"
            )
        for name, value in stored.items():
            if not isinstance(value, _KINDS.get(name, object)):
                raise StorageError(f"The run's setting {name} is damaged: {value!r}.")
        values = {**stored, "exclude_db": tuple(stored.get("exclude_db", ()))}
        try:
            return cls(**values)
        except TypeError as error:
            raise StorageError(f"The run's settings are incomplete: {error}.") from error

    def check(self, given: Mapping[str, Any]) -> None:
        """Compare with settings given for a resume; ``data``, ``budget``, ``versions`` may differ.

        Args:
            given: Setting to value, only those that were given.

        Raises:
            ResumeMismatch: Some differ; the message prints the stored and the given value.
            ValueError: There is no such setting.
        """
        stored = self.as_dict()
        if unknown := sorted(set(given) - set(stored)):
            raise ValueError(f"A run has no settings {unknown}; it has {sorted(stored)}.")
        free = {"data", "budget", "versions"}
        check_settings(stored, {k: v for k, v in given.items() if k not in free})


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run on disk.

    Attributes:
        name: Its name.
        path: Its folder.
        config: What it was started with.
    """

    name: str
    path: Path
    config: RunConfig

    @classmethod
    def create(
        cls,
        name: str,
        config: RunConfig,
        root: str | Path | None = None,
        *,
        overwrite: bool = False,
    ) -> RunFolder:
        """Make the folder of a new run.

        Args:
            name: Letters, digits, dot, hyphen and underscore; starts with a letter or digit.
            config: What it is started with.
            root: Where runs are kept; ``None`` = :func:`runs_root`.
            overwrite: Delete a run of that name first.

        Raises:
            ValueError: The name is not allowed or taken.
            RunInUse: The run to be overwritten is running.
        """
        path = _folder(name, root)
        cls.check_free(name, root, overwrite=overwrite)
        if (path / _CONFIG).is_file():
            _remove(path)
        path.mkdir(parents=True, exist_ok=True)
        draft = _draft(path, config)
        try:
            os.link(draft, path / _CONFIG)  # fails where another process was faster
        except FileExistsError:
            raise _taken(name, path) from None
        finally:
            draft.unlink(missing_ok=True)
        return cls(name, path, config)

    @classmethod
    def check_free(
        cls, name: str, root: str | Path | None = None, *, overwrite: bool = False
    ) -> None:
        """Find out whether a run of that name can be made; changes nothing.

        Raises:
            ValueError, RunInUse: As :meth:`create` would.
        """
        path = _folder(name, root)
        if path.exists():
            _check_room(name, path, overwrite)

    @classmethod
    def open(cls, name: str, root: str | Path | None = None) -> RunFolder:
        """Open an existing run.

        Raises:
            ValueError: There is no such run; the message names those that come close.
            StorageError: Its settings cannot be read.
        """
        path = _folder(name, root)
        if not (path / _CONFIG).is_file():
            raise _unknown(name, path.parent)
        return cls(name, path, RunConfig.from_dict(_read(path / _CONFIG)))

    def with_limit(self, limit: int) -> RunFolder:
        """Write down another number of examples, and return the run with it.

        The caller holds the :meth:`lock` and has found the steps made to be fewer.
        """
        return self._rewritten(limit=limit)

    def with_budget(self, budget: Mapping[str, float]) -> RunFolder:
        """Write down other limits on what it may spend, and return the run with them.

        The caller holds the :meth:`lock`.
        """
        return self._rewritten(budget=dict(budget))

    def _rewritten(self, **changes: Any) -> RunFolder:
        stored = RunConfig.from_dict(_read(self.path / _CONFIG))
        draft = _draft(self.path, dataclasses.replace(stored, **changes))
        os.replace(draft, self.path / _CONFIG)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, **changes))

    @property
    def memory_path(self) -> Path:
        """The memory file; made by whoever opens it first."""
        return self.path / _MEMORY

    @property
    def running(self) -> bool:
        """True while a live process runs it."""
        return is_locked(self.memory_path)

    @property
    def status(self) -> str:
        """How the run stands.

        ``"new"``, ``"running"``, ``"finished"``, ``"stopped: REASON"`` (a budget is spent),
        ``"failed: REASON"`` (an error, or too many failed steps), ``"interrupted"`` (Ctrl-C, or
        its process was killed), or ``"damaged: WHY"``.
        """
        if self.running:
            return "running"
        if not self.memory_path.exists():
            return f"damaged: {self._loss}" if self._is_lost else "new"
        try:
            with closing(SQLiteMemory(self.memory_path, read_only=True)) as memory:
                kept = json.loads(memory.get_meta(STATUS_KEY) or '{"state": "new"}')
            state = str(kept["state"])
        except StorageError as error:
            return f"damaged: {error}"
        except (ValueError, KeyError, TypeError):
            return f"damaged: {self.memory_path} does not say how the run stands"
        if state in ("stopped", "failed"):
            return f"{state}: {kept['reason']}"
        return "interrupted" if state == "running" else state

    def check_whole(self) -> None:
        """Refuse a run whose steps are gone: to go on would repeat, and pay for, all of them.

        Raises:
            StorageError: Its memory was deleted; the message says what to do.
        """
        if self._is_lost:
            raise StorageError(f"The run {self.name!r} cannot be gone on with: {self._loss}")

    @property
    def _is_lost(self) -> bool:
        path = self.memory_path
        # Both files are left behind by a stream that was run, and survive the memory.
        return not path.exists() and creation_lock(path).exists() and was_locked(path)

    @property
    def _loss(self) -> str:
        return (
            f"its steps were in {self.memory_path}, which is gone. Restore the file from a copy, "
            f"or start over: drpg run {self.config.benchmark} … --name {self.name} --overwrite"
        )

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run against every other process for the length of a ``with`` block.

        The lock goes with its process, so a killed one leaves nothing behind.

        Raises:
            RunInUse: Another live process runs it.
        """
        return lock_for(self.memory_path)


def runs_root(root: str | Path | None = None) -> Path:
    """Return where runs are kept: ``root``, else ``DRPG_RUNS``, else ``.drpg/runs``."""
    return Path(root or os.environ.get("DRPG_RUNS") or Path(".drpg") / "runs")


def list_runs(root: str | Path | None = None) -> list[RunFolder]:
    """Return all runs, by name, without those of :func:`damaged_runs`."""
    return [run for run in _found(root).values() if isinstance(run, RunFolder)]


def damaged_runs(root: str | Path | None = None) -> dict[str, str]:
    """Return the runs whose settings cannot be read: name to what is wrong and its remedy."""
    return {name: str(run) for name, run in _found(root).items() if isinstance(run, Exception)}


def _found(root: str | Path | None) -> dict[str, RunFolder | Exception]:
    folder = runs_root(root)
    found: dict[str, RunFolder | Exception] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            if _NAME.fullmatch(path.name) and (path / _CONFIG).is_file():
                found[path.name] = RunFolder.open(path.name, folder)
        except StorageError as error:
            found[path.name] = error
        except PermissionError as error:
            found[path.name] = _unreadable(path / _CONFIG, error)
    return found


def _folder(name: str, root: str | Path | None) -> Path:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name for a run: use letters, digits, '.', '-' and '_' (at most 100), "
            "with a letter or digit first."
        )
    return runs_root(root) / name


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except PermissionError as error:  # which names what it failed at without its folder
        raise PermissionError(error.errno, error.strerror, str(path)) from error


def _draft(path: Path, config: RunConfig) -> Path:
    draft = path / f".{_CONFIG}.{os.getpid()}"
    draft.write_text(json.dumps(config.as_dict(), indent=2, sort_keys=True) + "\n")
    return draft


def _check_room(name: str, path: Path, overwrite: bool) -> None:
    if not path.is_dir():
        raise ValueError(f"{path} is a file; choose another name than {name!r}.")
    ours = (path / _CONFIG).is_file()
    if ours and not overwrite:
        raise _taken(name, path)
    if not ours and any(not entry.name.startswith(f".{_CONFIG}.") for entry in path.iterdir()):
        raise ValueError(f"{path} holds something that is no run; choose another name.")
    if is_locked(path / _MEMORY):
        raise RunInUse(f"The run {name!r} is running; stop it before you overwrite it.")


def _taken(name: str, path: Path) -> ValueError:
    return ValueError(
        f"There is a run {name!r} already ({path}). Give another name, continue it with "
        f"`drpg resume {name}`, or start over with --overwrite."
    )


def _unknown(name: str, folder: Path) -> ValueError:
    known = [run.name for run in list_runs(folder)]
    close = difflib.get_close_matches(name, known, n=3) or known[:10]
    remedy = f"There are: {', '.join(close)}." if close else "There are no runs yet."
    return ValueError(f"There is no run {name!r} in {folder}. {remedy}")


def _unreadable(path: Path, error: PermissionError) -> StorageError:
    reason = (error.strerror or "permission denied").lower()
    return StorageError(f"{path} cannot be read: {reason}. Give this user the right to it (chmod).")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except PermissionError as error:
        raise _unreadable(path, error) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}. Restore it from a copy.") from error
    if not isinstance(stored, dict):
        raise StorageError(f"{path} does not hold a run's settings. Restore it from a copy.")
    return stored
