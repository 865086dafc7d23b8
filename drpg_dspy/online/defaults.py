"""What a learner is made of when nothing is said, and what may not be said."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.judging import check_metric
from drpg_dspy.memory import Memory, SQLiteMemory
from drpg_dspy.optimizers.base import OnlineOptimizer, named
from drpg_dspy.retrieval import default_embedder
from drpg_dspy.tracking import Tracker
from drpg_dspy.types import ProgramCard

__all__ = ["check_kinds", "check_names", "default_memory", "flat_params"]


_PATIENCE = 5.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def check_kinds(
    program: Any, optimizer: Any, *, memory: Any, metric: Any, tracker: Any, name: Any, key: Any
) -> None:
    """Refuse arguments of the wrong kind, each with what was meant."""
    if not isinstance(program, dspy.Module):
        raise ValueError(
            f"program must be a dspy.Module, got {program!r}; wrap a function in a module."
        )
    if not isinstance(optimizer, OnlineOptimizer):
        wanted = "an instance, as in DRPG(k=16)" if isinstance(optimizer, type) else "e.g. DRPG()"
        raise ValueError(f"optimizer must be {wanted}, got {optimizer!r}.")
    if metric is not None:
        check_metric(metric)
    if memory is not None and not isinstance(memory, Memory):
        raise ValueError(
            f"memory must be a Memory, e.g. SQLiteMemory(path, default_embedder()), got {memory!r}."
        )
    if key is not None and not callable(key):
        raise ValueError(
            "key must be a function from a call's inputs to the text that is embedded, e.g. "
            f"lambda inputs: inputs['question']; got {key!r}."
        )
    if tracker is not None and not isinstance(tracker, Tracker):
        raise ValueError(f"tracker must be a Tracker, e.g. MLflowTracker(…), got {tracker!r}.")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise ValueError(
            "name must be 1 to 100 letters, digits, '.', '_' or '-', and not begin with '.' or "
            f"'-', got {name!r}; leave it out for a temporary memory."
        )


def check_names(program: dspy.Module, card: ProgramCard) -> None:
    """Refuse a program whose own call uses a name that the learner's call needs."""
    forward = getattr(type(program), "forward", None)
    parameters = inspect.signature(forward).parameters.values() if callable(forward) else ()
    taken = {parameter.name for parameter in parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        taken |= {field for route in card.routes for field in route.inputs}
    if "labels" in taken:
        raise ValueError(
            "The program takes an argument called 'labels', under which a learner is given what "
            "its metric compares with. Rename the program's argument."
        )
    if len(card.routes) == 1 and "rollout_id" in card.routes[0].outputs:
        raise ValueError(
            "The program has an output called 'rollout_id', under which a learner names its "
            "answers. Rename the program's field."
        )


def default_memory(name: str | None, threshold: float) -> SQLiteMemory:
    """Return the memory of a learner: kept under its name, else as long as the object lives."""
    path = Path(":memory:")
    if name:
        # A tracker's label may hold anything; a learner's own name was checked.
        path = Path(".drpg") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-')}.sqlite"
        path.parent.mkdir(exist_ok=True)
    # Serving waits for no lock for long: the answer is given, and counted as unrecorded.
    return SQLiteMemory(path, default_embedder(), threshold=threshold, timeout=_PATIENCE)


def flat_params(optimizer: OnlineOptimizer) -> dict[str, Any]:
    """Return an optimizer's arguments as a tracker shows them."""
    plain = (str, int, float, bool, type(None))
    params = {name: named(value) for name, value in optimizer.get_params().items()}
    shown = {
        name: value if isinstance(value, plain) else repr(value) for name, value in params.items()
    }
    return {"optimizer": optimizer.name, **shown}
