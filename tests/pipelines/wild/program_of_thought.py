"""Sums are done by a program that the model writes.

Without an interpreter of your own DSPy runs that program in Deno (``pip install "dspy[deno]"``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dspy


def build(interpreter_factory: Callable[[], Any] | None = None) -> dspy.Module:
    mine = {} if interpreter_factory is None else {"interpreter_factory": interpreter_factory}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # gone in DSPy 3.5, in use until then
        return dspy.ProgramOfThought("question -> answer: int", max_iters=3, **mine)
