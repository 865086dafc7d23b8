"""How the policy changes: one method, one file, one class."""

from __future__ import annotations

from drpg_dspy.optimizers.ace import ACE
from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.optimizers.combined import Combined
from drpg_dspy.optimizers.constraints import ConstraintAdapter
from drpg_dspy.optimizers.corrections.trials import Gate
from drpg_dspy.optimizers.drpg import DRPG
from drpg_dspy.optimizers.dynamic_cheatsheet import DynamicCheatsheet
from drpg_dspy.optimizers.gated import Gated
from drpg_dspy.optimizers.grow_prompt import GrowPrompt
from drpg_dspy.optimizers.holdout import Holdout
from drpg_dspy.optimizers.jerp import JERP
from drpg_dspy.optimizers.mam_stream_icl import MAMStreamICL
from drpg_dspy.optimizers.mem_prompt import MemPrompt
from drpg_dspy.optimizers.nlpg import NLPG, Ablation
from drpg_dspy.optimizers.offline import Offline
from drpg_dspy.optimizers.quote_writer import QuoteWriter
from drpg_dspy.optimizers.self_refine import SelfRefine
from drpg_dspy.optimizers.self_stream_icl import SelfStreamICL
from drpg_dspy.optimizers.trial import Replay, Shadow, judged_by
from drpg_dspy.optimizers.writers import CaseWriter, SetWriter
from drpg_dspy.optimizers.zero_shot import ZeroShot

__all__ = [
    "ACE",
    "DRPG",
    "JERP",
    "NLPG",
    "Ablation",
    "CaseWriter",
    "Combined",
    "ConstraintAdapter",
    "DynamicCheatsheet",
    "Gate",
    "Gated",
    "GrowPrompt",
    "Holdout",
    "MAMStreamICL",
    "MemPrompt",
    "Offline",
    "OnlineOptimizer",
    "QuoteWriter",
    "Replay",
    "Revision",
    "SelfRefine",
    "SelfStreamICL",
    "SetWriter",
    "Shadow",
    "ZeroShot",
    "judged_by",
]
