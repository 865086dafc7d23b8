"""Which figures MLflow is given of a step, and under which heading of the run's charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from drpg_dspy.tracking.base import StepRecord

__all__ = ["chart_name", "keyed", "points"]

_BY_VERDICT = frozenset(
    {"rolling_score", "prequential_score", "judged", "not_judged", "memory_size", "learning_failed"}
)
_BY_LM_CALLS = frozenset({"prompt_tokens", "completion_tokens", "lm_calls", "cost"})
_SCORES = frozenset({"prequential_score", "rolling_score", "score"})


def chart_name(figure: str) -> str:
    """Return the metric that a figure is.

    MLflow's page makes a section of charts whose names share what is before a slash, and shows
    these sections first. So the curves for which people come are not the last of twenty.

    >>> chart_name("rolling_score"), chart_name("lm_calls")
    ('scores/rolling_score', 'lm_calls')
    """
    return f"scores/{figure}" if figure in _SCORES else figure


def points(records: Sequence[StepRecord]) -> list[Any]:
    """Return MLflow's metrics for what the records change, in their order."""
    from mlflow.entities import Metric

    metrics = []
    for record in records:
        at = int((record.at or record.rollout.created_at) * 1000)
        now = int(record.metrics.get("steps", record.rollout.step))
        changed = sorted(_changed(record) & record.metrics.keys())
        for key, figure in keyed({chart_name(name): name for name in changed}).items():
            value = record.metrics[figure]
            if math.isfinite(value):
                # A late verdict belongs to its own step; what it does to the running figures
                # happens now.
                step = now if figure in _BY_VERDICT else record.rollout.step
                metrics.append(Metric(key, value, at, step))
    return metrics


def keyed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values under names that MLflow allows, still one name for each.

    >>> keyed({"k": 4, "a b?": 1, "a b!": 2})
    {'k': 4, 'a b_': 1, 'a b__': 2}
    """
    allowed: dict[str, Any] = {}
    for key, value in values.items():
        name = re.sub(r"[^\w./: -]", "_", key)[:240].strip("/") or "_"
        while name in allowed:
            name += "_"
        allowed[name] = value
    return allowed


def _changed(record: StepRecord) -> set[str]:
    """Return the figures that this kind of event can change: each is logged once a step."""
    if record.kind == "rollout":
        return set(record.metrics) - _BY_VERDICT - {"score", "steps"}
    if record.kind == "policy":
        return set()
    learned_with_lm = record.feedback is not None and record.feedback.usage.calls > 0
    return {"score", *_BY_VERDICT, *(_BY_LM_CALLS if learned_with_lm else ())}
