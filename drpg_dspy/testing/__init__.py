"""Public test doubles and contract checks, for this project's tests and for yours."""

from __future__ import annotations

from drpg_dspy.testing.scripted import ScriptedLM, fields

__all__ = ["ScriptedLM", "fields"]
