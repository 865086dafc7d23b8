"""What NLPG is made of: traces, diagnoses, corrections, trials, and the policy memory."""

from __future__ import annotations

from drpg_dspy.optimizers.corrections.instructions import Instruction, PolicyMemory
from drpg_dspy.optimizers.corrections.trials import Gate

__all__ = ["Gate", "Instruction", "PolicyMemory"]
