from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.testing.scripted import ScriptedLM

LAB = Path(__file__).with_name("crash_lab.py")


@pytest.fixture(scope="session")
def lab() -> ModuleType:
    """The toy stream, its judge and its language model."""
    spec = importlib.util.spec_from_file_location("crash_lab", LAB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["crash_lab"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def open_learner(lab: ModuleType, tmp_path: Path) -> Iterator[Callable[..., OnlinePolicyOptimizer]]:
    """Open a learner on a memory of this test, as a new process would."""
    opened: list[OnlinePolicyOptimizer] = []

    def build(
        name: str = "run", variant: str = "drpg", script: Any = None, **options: Any
    ) -> OnlinePolicyOptimizer:
        lm = ScriptedLM(script or lab.reply)
        learner = lab.learner(tmp_path / f"{name}.sqlite", variant, lm)
        learner.lm = lm
        for option, value in options.items():
            setattr(learner, option, value)
        opened.append(learner)
        return learner

    yield build
    for learner in opened:
        learner.close(timeout=0.1)
