"""A whole learner in a folder, and who holds its memory open."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from drpg_dspy.exceptions import StorageError
from drpg_dspy.injection import routes
from drpg_dspy.memory import Memory, SQLiteMemory
from drpg_dspy.online.identity import check_program
from drpg_dspy.types import ProgramCard

__all__ = ["hold", "learner_folder", "let_go", "read_learner", "write_learner"]

_PROGRAM = "program.json"
_MEMORY = "memory.sqlite"

_holders: weakref.WeakKeyDictionary[Memory, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def hold(memory: Memory, learner: Any) -> None:
    """Say that a learner uses a memory; one that is forgotten no longer counts.

    Raises:
        ValueError: Its tracker tells of another memory, for a learner that is still open.
    """
    with _guard:
        told = (other for other, users in _holders.items() if _shares_tracker(learner, users))
        for other in told:
            if other.place != memory.place:
                raise ValueError(
                    f"This {type(learner.tracker).__name__} tells of the memory {other.place} "
                    f"already, and the steps of {memory.place} would be mixed with them. "
                    "Construct another tracker, or close the first learner."
                )
        _holders.setdefault(memory, weakref.WeakSet()).add(learner)


def _shares_tracker(learner: Any, others: Iterable[Any]) -> bool:
    return learner.tracker is not None and any(o.tracker is learner.tracker for o in others)


def let_go(memory: Memory, learner: Any) -> None:
    """Close a memory, unless other learners of this process still use it."""
    with _guard:
        holders = _holders.get(memory)
        if holders is not None:
            holders.discard(learner)
            if len(holders):
                return
    memory.close()


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
    """Write program and memory; the optimizer's state is part of the memory.

    An LM that a predictor has of its own is written as DSPy writes it. One that has no such form
    (an engine of the user's own) is left out: the program that reads brings its own along.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _without_private_lms(program).save(folder / _PROGRAM)
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
    lms = {name: predictor.lm for name, predictor in routes(program).items()}
    program.load(folder / _PROGRAM)
    # DSPy reads an LM without its address, and none where none was written: the one that the
    # program was constructed with is the one that its user can reach.
    for name, predictor in routes(program).items():
        if lms[name] is not None:
            predictor.lm = lms[name]


def _without_private_lms(program: Any) -> Any:
    """Return the program, or a copy without those LMs that cannot be written."""
    private = [
        name for name, predictor in routes(program).items() if not _can_be_written(predictor.lm)
    ]
    if not private:
        return program
    copy = program.deepcopy()  # another thread may be answering with the program itself
    for name, predictor in routes(copy).items():
        if name in private:
            predictor.lm = None
    return copy


def _can_be_written(lm: Any) -> bool:
    if lm is None:
        return True
    try:
        lm.dump_state()
    except (TypeError, NotImplementedError):  # how DSPy refuses an engine without a state
        return False
    return True
