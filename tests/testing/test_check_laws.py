"""The laws of a method can be checked without pytest, as users do in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from drpg_dspy import OnlineOptimizer, ZeroShot
from drpg_dspy.testing import OptimizerContract, check_laws
from drpg_dspy.types import Guidance


class Talkative(OnlineOptimizer):
    """Breaks two laws: proposing changes its state, and an argument is not kept."""

    name = "talkative"

    def __init__(self, size: int = 1) -> None:
        self.asked = 0

    def propose(self, inputs: Mapping[str, Any], memory: Any) -> Guidance:
        self.asked += 1
        return Guidance()

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.asked = state["asked"]


def test_a_method_that_keeps_the_laws_gets_all_of_them_back_in_words() -> None:
    laws = check_laws(ZeroShot)

    assert len(laws) == sum(name.startswith("test_") for name in vars(OptimizerContract))
    assert "predicting changes no state" in laws


def test_a_method_that_breaks_a_law_is_told_which() -> None:
    with pytest.raises(AssertionError, match=r"Talkative.* breaks a law: predicting changes no st"):
        check_laws(Talkative)


def test_a_name_that_is_not_exported_is_no_attribute() -> None:
    import drpg_dspy.testing

    with pytest.raises(AttributeError, match="nonsense"):
        drpg_dspy.testing.nonsense  # noqa: B018
