"""A whole learner in a folder: its program, its optimizer's state and its memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.online.identity import check_program
from drpg_dspy.types import ProgramCard

__all__ = ["learner_folder", "read_learner", "write_learner"]

_PROGRAM = "program.json"
_MEMORY = "memory.sqlite"


def learner_folder(path: str | Path, options: Mapping[str, Any]) -> Path:
    """Return the folder meant, or say how a program alone is saved."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"A learner is kept in a folder; got {path!r} instead of its path.")
    folder = Path(path)
    if options or folder.suffix in {".json", ".pkl"} or folder.is_file():
        raise ValueError(
            f"A learner is kept in a folder, got {str(path)!r} {dict(options) or ''}; "
            "for the program alone use online.program.save(…) and .load(…)."
        )
    return folder


def write_learner(folder: Path, program: Any, memory: Any) -> None:
    """Write program and memory; the optimizer's state is part of the memory."""
    folder.mkdir(parents=True, exist_ok=True)
    program.save(folder / _PROGRAM)
    memory.copy_to(folder / _MEMORY)


def read_learner(folder: Path, program: Any, memory: Any, card: ProgramCard) -> None:
    """Read what :func:`write_learner` wrote.

    Raises:
        FileNotFoundError: The folder holds no learner.
        ResumeMismatch: It holds a learner of another program.
        StorageError: One of its files is damaged; nothing was changed.
    """
    for name in (_PROGRAM, _MEMORY):
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder} holds no saved learner ({name} is missing).")
    try:
        json.loads((folder / _PROGRAM).read_text(encoding="utf-8"))
    except ValueError as error:
        raise StorageError(f"{folder / _PROGRAM} is damaged: {error}.") from error
    with closing(SQLiteMemory(folder / _MEMORY, read_only=True)) as saved:
        check_program(saved, card, f"The learner in {folder}")
    # The memory first: a damaged one is refused before the program has changed.
    memory.copy_from(folder / _MEMORY)
    program.load(folder / _PROGRAM)
