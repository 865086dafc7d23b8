"""Which rollout and which policy version a trace was made under."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from drpg_dspy.carrier import overridden
from drpg_dspy.types import Rollout

__all__ = ["LEARNER_TAG", "ROLLOUT_TAG", "current_trace_id", "tag_current_trace", "traced_as"]

ROLLOUT_TAG = "drpg.rollout_id"
LEARNER_TAG = "drpg.learner"

_KEPT = 1_000  # traces of which it is remembered what was answered in them
_answered: OrderedDict[str, list[str]] = OrderedDict()
_lock = threading.Lock()


def tag_current_trace(rollout: Rollout, *, run_id: str = "", learner: str = "") -> bool:
    """Write the rollout's identity into the MLflow trace that is open on this thread, if any.

    Tags: ``drpg.rollout_id``, ``drpg.step``, ``drpg.learner``, ``policy.ROUTE.version`` for each
    route that was given a policy, and ``drpg.run_id``. They can be searched:
    ``tags.`policy.predict.version` = '7'``. Must be called while the trace is open, so before the
    traced call returns. A trace in which several answers were given, within a span of the user's
    own, holds all their ids, with a space between them; the other tags are those of the last one.

    Args:
        rollout: As stored: its policies carry their version numbers.
        run_id: The MLflow run that the learner reports to. It may differ from the run in which
            MLflow files the trace, which is whatever run the user has active.
        learner: The learner's name.

    Returns:
        Whether a trace was open. Without one, or without MLflow imported, nothing happens.
    """
    tags = {"drpg.step": str(rollout.step)}
    if run_id:
        tags["drpg.run_id"] = run_id
    for route, policy in rollout.guidance.policies.items():
        if policy.rules:
            tags[f"policy.{route}.version"] = str(policy.version)
    return _tag(rollout.id, learner, tags)


def current_trace_id() -> str:
    """Return the id of the MLflow trace that is open on this thread; ``""`` = none is."""
    mlflow = sys.modules.get("mlflow")
    span = None if mlflow is None else mlflow.get_current_active_span()
    return "" if span is None else str(span.trace_id)


@contextmanager
def traced_as(rollout_id: str, learner: str = "") -> Iterator[None]:
    """Tag the trace that the next module call inside the block opens.

    For calls that are recorded only after their trace was closed: of the tags they get the
    rollout's id and the learner's name.
    """
    if "mlflow" not in sys.modules or not dspy.settings.callbacks:
        yield
        return
    callbacks = [*dspy.settings.callbacks, _TagOnStart(rollout_id, learner)]
    with overridden({"callbacks": callbacks}):
        yield


class _TagOnStart(BaseCallback):
    """Runs after MLflow's own callback has opened the span: it stands behind it in the list."""

    def __init__(self, rollout_id: str, learner: str) -> None:
        self.rollout_id = rollout_id
        self.learner = learner
        self.done = False

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        if not self.done:
            self.done = _tag(self.rollout_id, self.learner, {})


def _tag(rollout_id: str, learner: str, tags: dict[str, str]) -> bool:
    mlflow = sys.modules.get("mlflow")
    if mlflow is None:  # nobody traces
        return False
    span = mlflow.get_current_active_span()
    if span is None:
        return False
    tags[ROLLOUT_TAG] = " ".join(_ids_with(span.trace_id, rollout_id))
    if learner:
        tags[LEARNER_TAG] = learner
    mlflow.update_current_trace(tags=tags)
    return True


def _ids_with(trace_id: str, rollout_id: str) -> list[str]:
    """Return the rollouts of a trace, this one included."""
    with _lock:
        ids = _answered.setdefault(trace_id, [])
        if rollout_id not in ids:
            ids.append(rollout_id)
        while len(_answered) > _KEPT:
            _answered.popitem(last=False)
        return list(ids)
