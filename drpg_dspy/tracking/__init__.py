"""Who is told what happened: MLflow, a file, or nobody."""

from __future__ import annotations

from drpg_dspy.tracking.assessments import Pulled, pull_feedback
from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.jsonl import JSONLTracker
from drpg_dspy.tracking.mlflow import MLflowTracker
from drpg_dspy.tracking.null import NullTracker
from drpg_dspy.tracking.traces import tag_current_trace, traced_as
from drpg_dspy.tracking.writer import BackgroundWriter

__all__ = [
    "BackgroundWriter",
    "JSONLTracker",
    "MLflowTracker",
    "NullTracker",
    "Pulled",
    "RunInfo",
    "StepRecord",
    "Tracker",
    "pull_feedback",
    "tag_current_trace",
    "traced_as",
]
