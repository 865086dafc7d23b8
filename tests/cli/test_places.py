"""Folders and files that this user has no right to: named, with what mends it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from drpg_dspy.cli.app import Group
from drpg_dspy.streaming import RunFolder, store

Drpg = Callable[..., Result]
TINY = "tiny_bench:BENCHMARK"


@pytest.fixture
def locked(run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which nothing may be written; said of it by the system, also to root."""
    run("--limit", "2")
    (workdir / "said.txt").write_text("2 units\n")
    folder = workdir / "locked"
    folder.mkdir()
    access = os.access

    def refuse(path: str | Path, *kinds: int) -> bool:
        return Path(path).absolute() != folder and access(path, *kinds)

    monkeypatch.setattr(os, "access", refuse)
    return folder


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--html", ("show", "first", "--html", "locked/x.html")),
        ("--out", ("report", "first", "--out", "locked")),
        ("--out", ("report", "first", "--out", "locked/new/deeper")),
        ("--rows", ("score", TINY, "--predictions", "said.txt", "--rows", "locked/rows.jsonl")),
    ],
)
def test_an_output_that_cannot_be_written_is_wrong_usage_before_any_work(
    drpg: Drpg, locked: Path, option: str, arguments: tuple[str, ...]
) -> None:
    said = " ".join(drpg(*arguments, exit_code=2).stderr.split())

    assert f"'{option}'" in said
    assert "locked'" in said
    assert "or name another folder" in said
    assert not any(locked.iterdir())


def test_a_file_in_the_place_of_a_folder_is_named(drpg: Drpg, run: Drpg) -> None:
    run("--limit", "1")

    said = drpg("report", "first", "--out", "tiny_bench.py/out", exit_code=2).stderr

    assert "tiny_bench.py' is a file, no folder" in said


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_this_user_may_not_use_is_named_with_the_remedy(
    run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)

    said = run(exit_code=1).stderr

    assert f"{workdir / '.drpg' / 'runs' / 'first'} cannot be used: " in said
    assert "chmod" in said
    assert "DRPG_RUNS" in said
    assert "Errno" not in said


def test_a_run_that_may_not_be_overwritten_is_named_by_its_folder(
    run: Drpg, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--limit", "1")

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "memory.sqlite")

    monkeypatch.setattr(store.shutil, "rmtree", refuse)

    said = run("--overwrite", exit_code=1).stderr

    assert f"{workdir / '.drpg' / 'runs' / 'first'} cannot be used: permission denied" in said


def test_a_full_disk_is_called_one() -> None:
    group = Group("group")

    @group.command()
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/some/file")

    said = CliRunner().invoke(group, ["fail"]).stderr

    assert said == (
        "Error: /some/file cannot be written: no space left on device. Free some space, and try "
        "again.\n"
    )


def test_an_error_while_arguments_are_looked_up_is_one_message_too(
    drpg: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> list[RunFolder]:
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/config.json")

    monkeypatch.setattr("drpg_dspy.streaming.list_runs", refuse)

    said = drpg("show", "first", exit_code=1).stderr

    assert said.startswith("Error: /elsewhere/config.json cannot be used: permission denied.")
    assert "DRPG_RUNS" not in said
