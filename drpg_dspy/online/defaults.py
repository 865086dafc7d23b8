"""What a learner is made of when nothing is said, and what may not be said."""

from __future__ import annotations

import re
import tempfile
import weakref
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.retrieval import default_embedder
from drpg_dspy.tracking import Tracker

__all__ = ["check_kinds", "default_memory", "flat_params", "temporary_file"]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def check_kinds(program: Any, optimizer: Any, metric: Any, tracker: Any, name: Any) -> None:
    """Refuse arguments of the wrong kind, each with what was meant."""
    if not isinstance(program, dspy.Module):
        raise ValueError(
            f"program must be a dspy.Module, got {program!r}; wrap a function in a module."
        )
    if not isinstance(optimizer, OnlineOptimizer):
        wanted = "an instance, as in DRPG(k=16)" if isinstance(optimizer, type) else "e.g. DRPG()"
        raise ValueError(f"optimizer must be {wanted}, got {optimizer!r}.")
    if metric is not None and not callable(metric):
        raise ValueError(f"metric must be callable, got {metric!r}.")
    if tracker is not None and not isinstance(tracker, Tracker):
        raise ValueError(f"tracker must be a Tracker, e.g. MLflowTracker(…), got {tracker!r}.")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(
            "name must be 1 to 100 letters, digits, '.', '_' or '-', and not begin with '.' or "
            f"'-', got {name!r}; leave it out for a temporary memory."
        )


def default_memory(owner: object, name: str | None, threshold: float) -> SQLiteMemory:
    """Return the memory of a learner: kept under its name, else as long as ``owner`` lives."""
    if name:
        # A tracker's label may hold anything; a learner's own name was checked.
        path = Path(".drpg") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-')}.sqlite"
        path.parent.mkdir(exist_ok=True)
    else:
        path = temporary_file(owner)
    return SQLiteMemory(path, default_embedder(), threshold=threshold)


def temporary_file(owner: object) -> Path:
    """Return a place for a file that goes when ``owner`` does."""
    folder = tempfile.TemporaryDirectory(prefix="drpg-", ignore_cleanup_errors=True)
    weakref.finalize(owner, folder.cleanup)
    return Path(folder.name) / "memory.sqlite"


def flat_params(optimizer: OnlineOptimizer) -> dict[str, Any]:
    """Return an optimizer's arguments as a tracker shows them."""
    plain = (str, int, float, bool, type(None))
    params: dict[str, Any] = {
        name: value if isinstance(value, plain) else getattr(value, "model", repr(value))
        for name, value in optimizer.get_params().items()
    }
    return {"optimizer": optimizer.name, **params}
