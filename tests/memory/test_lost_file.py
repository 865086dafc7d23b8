"""A file that is deleted or replaced under an open memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing.memory_contract import plain_rollout
from drpg_dspy.types import Feedback


@pytest.fixture
def memory(tmp_path: Path) -> SQLiteMemory:
    memory = SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder(16))
    memory.record(plain_rollout("r", "text"))
    memory.copy_to(tmp_path / "copy.sqlite")
    return memory


def forget_writer(memory: SQLiteMemory) -> None:
    """Start over as a process does that has only read so far."""
    memory.close()
    memory.__init__(memory.path, HashingEmbedder(16))  # type: ignore[misc]


WRITES: dict[str, Callable[[SQLiteMemory], Any]] = {
    "record": lambda memory: memory.record(plain_rollout("s", "more")),
    "commit": lambda memory: memory.commit("r", Feedback(1.0)),
    "retract": lambda memory: memory.retract("r"),
    "set_meta": lambda memory: memory.set_meta("a", "b"),
    "reindex": lambda memory: memory.reindex(HashingEmbedder(8)),
    "copy_from": lambda memory: memory.copy_from(memory.path.with_name("copy.sqlite")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("prepare", [lambda memory: None, forget_writer], ids=["written", "read"])
def test_nothing_is_written_to_a_deleted_file(
    memory: SQLiteMemory, write: Callable[[SQLiteMemory], Any], prepare: Any
) -> None:
    prepare(memory)
    memory.path.unlink()

    with pytest.raises(StorageError, match=r"m\.sqlite was deleted.*copy_to.*open it anew"):
        write(memory)


@pytest.mark.parametrize("prepare", [lambda memory: None, forget_writer], ids=["written", "read"])
def test_a_file_put_in_its_place_is_neither_read_nor_written(
    memory: SQLiteMemory, tmp_path: Path, prepare: Any
) -> None:
    prepare(memory)
    other = SQLiteMemory(tmp_path / "other.sqlite", HashingEmbedder(16))
    other.close()
    os.replace(other.path, memory.path)

    with pytest.raises(StorageError, match="was replaced while it was open"):
        memory.record(plain_rollout("s", "more"))
    assert memory.count_rollouts() == 1


def test_what_a_deleted_file_held_can_be_kept(memory: SQLiteMemory, tmp_path: Path) -> None:
    memory.path.unlink()
    memory.copy_to(tmp_path / "kept.sqlite")

    assert SQLiteMemory(tmp_path / "kept.sqlite").rollout("r").key == "text"


def test_a_file_that_was_moved_and_put_back_is_the_same(
    memory: SQLiteMemory, tmp_path: Path
) -> None:
    shutil.move(memory.path, tmp_path / "aside")
    shutil.move(tmp_path / "aside", memory.path)

    memory.record(plain_rollout("s", "more"))
    assert memory.count_rollouts() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_notices_as_well(memory: SQLiteMemory) -> None:
    memory.path.unlink()
    pid = os.fork()
    if pid == 0:
        try:
            memory.count_rollouts()
        except StorageError as error:
            os._exit(0 if "was deleted" in str(error) else 1)
        os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
