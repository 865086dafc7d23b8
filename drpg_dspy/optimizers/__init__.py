"""How the policy changes: one method, one file, one class."""

from __future__ import annotations

from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.drpg import DRPG
from drpg_dspy.optimizers.holdout import Holdout
from drpg_dspy.optimizers.quote_writer import QuoteWriter
from drpg_dspy.optimizers.self_stream_icl import SelfStreamICL
from drpg_dspy.optimizers.writers import CaseWriter, SetWriter
from drpg_dspy.optimizers.zero_shot import ZeroShot

__all__ = [
    "DRPG",
    "CaseWriter",
    "Holdout",
    "OnlineOptimizer",
    "QuoteWriter",
    "SelfStreamICL",
    "SetWriter",
    "ZeroShot",
]
