"""Tests do not depend on what their neighbours configured."""

from __future__ import annotations

import dspy
import pytest

from drpg_dspy.testing import ScriptedLM


@pytest.mark.parametrize("turn", ["first", "second"])
def test_what_a_test_configures_is_gone_in_the_next(turn: str) -> None:
    assert dspy.settings.lm is None
    dspy.configure(lm=ScriptedLM(lambda messages: turn))
