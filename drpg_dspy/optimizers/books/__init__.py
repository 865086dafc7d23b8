"""Books of notes that a language model keeps: edited piece by piece, hard in their bounds.

Used by :class:`~drpg_dspy.optimizers.dynamic_cheatsheet.DynamicCheatsheet`,
:class:`~drpg_dspy.optimizers.ace.ACE` and :class:`~drpg_dspy.optimizers.jerp.JERP`.
"""

from __future__ import annotations
