"""Online policy optimisation for DSPy: a running program rewrites its own rules from feedback."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpg_dspy.online import OnlinePolicyOptimizer
    from drpg_dspy.optimizers import (
        DRPG,
        NLPG,
        Ablation,
        CaseWriter,
        Gate,
        GrowPrompt,
        Holdout,
        MAMStreamICL,
        MemPrompt,
        OnlineOptimizer,
        QuoteWriter,
        Revision,
        SelfRefine,
        SelfStreamICL,
        SetWriter,
        ZeroShot,
    )
    from drpg_dspy.tracking import JSONLTracker, MLflowTracker
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

# Names are looked up on first use: `drpg --help` need not wait for DSPy to be imported.
_HOMES = {
    "Ablation": "optimizers",
    "CaseWriter": "optimizers",
    "DRPG": "optimizers",
    "Experience": "types",
    "Feedback": "types",
    "Gate": "optimizers",
    "GrowPrompt": "optimizers",
    "Guidance": "types",
    "Holdout": "optimizers",
    "JSONLTracker": "tracking",
    "MAMStreamICL": "optimizers",
    "MLflowTracker": "tracking",
    "MemPrompt": "optimizers",
    "NLPG": "optimizers",
    "OnlineOptimizer": "optimizers",
    "OnlinePolicyOptimizer": "online",
    "Policy": "types",
    "PolicyField": "types",
    "QuoteWriter": "optimizers",
    "Revision": "optimizers",
    "Rollout": "types",
    "Rule": "types",
    "SelfRefine": "optimizers",
    "SelfStreamICL": "optimizers",
    "SetWriter": "optimizers",
    "ShotsField": "types",
    "ZeroShot": "optimizers",
}

__all__ = [
    "DRPG",
    "NLPG",
    "Ablation",
    "CaseWriter",
    "Experience",
    "Feedback",
    "Gate",
    "GrowPrompt",
    "Guidance",
    "Holdout",
    "JSONLTracker",
    "MAMStreamICL",
    "MLflowTracker",
    "MemPrompt",
    "OnlineOptimizer",
    "OnlinePolicyOptimizer",
    "Policy",
    "PolicyField",
    "QuoteWriter",
    "Revision",
    "Rollout",
    "Rule",
    "SelfRefine",
    "SelfStreamICL",
    "SetWriter",
    "ShotsField",
    "ZeroShot",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
