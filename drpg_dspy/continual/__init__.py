"""Constraints that come, change and go: methods, and the protocol that tests them.

See :mod:`programs.recap` for the benchmark, and ``drpg recap`` for the command.
"""

from __future__ import annotations

from drpg_dspy.continual.compiled import Compiled, gepa, miprov2
from drpg_dspy.continual.context import (
    Answer,
    Method,
    Prompt,
    StepContext,
    with_requirements,
)
from drpg_dspy.continual.defaults import DefaultAnswers
from drpg_dspy.continual.learners import RegistryLearner, SelfPlayLearner
from drpg_dspy.continual.log import RunLog
from drpg_dspy.continual.prompting import BaseLM, InContext
from drpg_dspy.continual.runner import Protocol, run_protocol
from drpg_dspy.continual.self_play import SelfJudge

__all__ = [
    "Answer",
    "BaseLM",
    "Compiled",
    "DefaultAnswers",
    "InContext",
    "Method",
    "Prompt",
    "Protocol",
    "RegistryLearner",
    "RunLog",
    "SelfJudge",
    "SelfPlayLearner",
    "StepContext",
    "gepa",
    "miprov2",
    "run_protocol",
    "with_requirements",
]
