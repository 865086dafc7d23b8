"""Online policy optimisation for DSPy: a running program rewrites its own rules from feedback."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpg_dspy.comparing import Comparison, compare
    from drpg_dspy.online import OnlinePolicyOptimizer
    from drpg_dspy.optimizers import (
        ACE,
        DRPG,
        JERP,
        NLPG,
        Ablation,
        CaseWriter,
        Combined,
        ConstraintAdapter,
        DynamicCheatsheet,
        Gate,
        Gated,
        GrowPrompt,
        Holdout,
        MAMStreamICL,
        MemPrompt,
        Offline,
        OnlineOptimizer,
        QuoteWriter,
        Replay,
        Revision,
        SelfRefine,
        SelfStreamICL,
        SetWriter,
        Shadow,
        ZeroShot,
        judged_by,
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
    "ACE": "optimizers",
    "Ablation": "optimizers",
    "CaseWriter": "optimizers",
    "Combined": "optimizers",
    "Comparison": "comparing",
    "ConstraintAdapter": "optimizers",
    "DRPG": "optimizers",
    "DynamicCheatsheet": "optimizers",
    "Experience": "types",
    "Feedback": "types",
    "Gate": "optimizers",
    "Gated": "optimizers",
    "GrowPrompt": "optimizers",
    "Guidance": "types",
    "Holdout": "optimizers",
    "JERP": "optimizers",
    "JSONLTracker": "tracking",
    "MAMStreamICL": "optimizers",
    "MLflowTracker": "tracking",
    "MemPrompt": "optimizers",
    "NLPG": "optimizers",
    "Offline": "optimizers",
    "OnlineOptimizer": "optimizers",
    "OnlinePolicyOptimizer": "online",
    "Policy": "types",
    "PolicyField": "types",
    "QuoteWriter": "optimizers",
    "Replay": "optimizers",
    "Revision": "optimizers",
    "Rollout": "types",
    "Rule": "types",
    "SelfRefine": "optimizers",
    "SelfStreamICL": "optimizers",
    "SetWriter": "optimizers",
    "Shadow": "optimizers",
    "ShotsField": "types",
    "ZeroShot": "optimizers",
    "compare": "comparing",
    "judged_by": "optimizers",
}

__all__ = [
    "ACE",
    "DRPG",
    "JERP",
    "NLPG",
    "Ablation",
    "CaseWriter",
    "Combined",
    "Comparison",
    "ConstraintAdapter",
    "DynamicCheatsheet",
    "Experience",
    "Feedback",
    "Gate",
    "Gated",
    "GrowPrompt",
    "Guidance",
    "Holdout",
    "JSONLTracker",
    "MAMStreamICL",
    "MLflowTracker",
    "MemPrompt",
    "Offline",
    "OnlineOptimizer",
    "OnlinePolicyOptimizer",
    "Policy",
    "PolicyField",
    "QuoteWriter",
    "Replay",
    "Revision",
    "Rollout",
    "Rule",
    "SelfRefine",
    "SelfStreamICL",
    "SetWriter",
    "Shadow",
    "ShotsField",
    "ZeroShot",
    "compare",
    "judged_by",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
