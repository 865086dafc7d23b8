"""Online policy optimisation for DSPy: a running program rewrites its own rules from feedback."""

from __future__ import annotations

from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import (
    DRPG,
    CaseWriter,
    OnlineOptimizer,
    SelfStreamICL,
    SetWriter,
    ZeroShot,
)
from drpg_dspy.types import (
    Experience,
    Feedback,
    Guidance,
    Policy,
    PolicyField,
    Rollout,
    Rule,
    ShotsField,
)

__version__ = "0.1.0"

__all__ = [
    "DRPG",
    "CaseWriter",
    "Experience",
    "Feedback",
    "Guidance",
    "OnlineOptimizer",
    "OnlinePolicyOptimizer",
    "Policy",
    "PolicyField",
    "Rollout",
    "Rule",
    "SelfStreamICL",
    "SetWriter",
    "ShotsField",
    "ZeroShot",
]
