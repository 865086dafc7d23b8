"""How the policy changes: one method, one file, one class."""

from __future__ import annotations

from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.optimizers.corrections.trials import Gate
from drpg_dspy.optimizers.drpg import DRPG
from drpg_dspy.optimizers.grow_prompt import GrowPrompt
from drpg_dspy.optimizers.holdout import Holdout
from drpg_dspy.optimizers.mam_stream_icl import MAMStreamICL
from drpg_dspy.optimizers.mem_prompt import MemPrompt
from drpg_dspy.optimizers.nlpg import NLPG, Ablation
from drpg_dspy.optimizers.quote_writer import QuoteWriter
from drpg_dspy.optimizers.self_refine import SelfRefine
from drpg_dspy.optimizers.self_stream_icl import SelfStreamICL
from drpg_dspy.optimizers.writers import CaseWriter, SetWriter
from drpg_dspy.optimizers.zero_shot import ZeroShot

__all__ = [
    "DRPG",
    "NLPG",
    "Ablation",
    "CaseWriter",
    "Gate",
    "GrowPrompt",
    "Holdout",
    "MAMStreamICL",
    "MemPrompt",
    "OnlineOptimizer",
    "QuoteWriter",
    "Revision",
    "SelfRefine",
    "SelfStreamICL",
    "SetWriter",
    "ZeroShot",
]
