"""Public test doubles and contract checks, for this project's tests and for yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drpg_dspy.testing.scripted import ScriptedLM, fields

if TYPE_CHECKING:
    from drpg_dspy.testing.contracts import OptimizerContract, check_laws

__all__ = ["OptimizerContract", "ScriptedLM", "check_laws", "fields"]


def __getattr__(name: str) -> Any:
    # Found on first use: the contracts import the whole library, a played model needs none of it.
    if name not in ("OptimizerContract", "check_laws"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from drpg_dspy.testing import contracts

    return getattr(contracts, name)
