"""Order, delay, budget, resume: how a learner meets a stream."""

from __future__ import annotations

from drpg_dspy.streaming.attempts import Retry
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.streaming.epochs import (
    Epoch,
    EpochProgress,
    Paired,
    Tried,
    run_epoch,
    run_epochs,
)
from drpg_dspy.streaming.progress import ConsoleProgress, Progress, ProgressReport
from drpg_dspy.streaming.runner import run_stream
from drpg_dspy.streaming.schedule import stream_order
from drpg_dspy.streaming.splits import share_out
from drpg_dspy.streaming.store import RunConfig, RunFolder, damaged_runs, list_runs

__all__ = [
    "Budget",
    "ConsoleProgress",
    "Epoch",
    "EpochProgress",
    "Paired",
    "Progress",
    "ProgressReport",
    "Retry",
    "RunConfig",
    "RunFolder",
    "Tried",
    "damaged_runs",
    "list_runs",
    "run_epoch",
    "run_epochs",
    "run_stream",
    "share_out",
    "stream_order",
]
