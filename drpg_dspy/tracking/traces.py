"""Which policy version a trace was made under."""

from __future__ import annotations

import sys

from drpg_dspy.types import Rollout

__all__ = ["tag_current_trace"]


def tag_current_trace(rollout: Rollout, *, run_id: str = "") -> bool:
    """Write the rollout's identity into the MLflow trace that is open on this thread, if any.

    Tags: ``drpg.rollout_id``, ``drpg.step``, ``policy.ROUTE.version`` for each route that was
    given a policy, and ``drpg.run_id``. They can be searched: ``tags.`policy.predict.version` =
    '7'``. Must be called while the trace is open, so before the traced call returns.

    Args:
        rollout: As stored: its policies carry their version numbers.
        run_id: The MLflow run that the learner reports to. It may differ from the run in which
            MLflow files the trace, which is whatever run the user has active.

    Returns:
        Whether a trace was open. Without one, or without MLflow imported, nothing happens.
    """
    mlflow = sys.modules.get("mlflow")
    if mlflow is None:  # nobody traces
        return False
    if mlflow.get_current_active_span() is None:
        return False
    tags = {"drpg.rollout_id": rollout.id, "drpg.step": str(rollout.step)}
    if run_id:
        tags["drpg.run_id"] = run_id
    for route, policy in rollout.guidance.policies.items():
        if policy.rules:
            tags[f"policy.{route}.version"] = str(policy.version)
    mlflow.update_current_trace(tags=tags)
    return True
