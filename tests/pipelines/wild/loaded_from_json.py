"""A module whose instructions and demos come from a file, as DSPy's ``save`` writes it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import dspy


def tuned() -> dspy.Module:
    program = dspy.ChainOfThought("review -> stars: int, summary")
    predictor = program.predict
    predictor.signature = predictor.signature.with_instructions("Rate as a strict hotel critic.")
    predictor.demos = [
        dspy.Example(review="Mould.", reasoning="A fault.", stars=1, summary="mouldy"),
        dspy.Example(review="A quiet room, good bread.", stars=4, summary="quiet, fed"),
    ]
    return program


def save(path: Path) -> None:
    tuned().save(path)


def build(path: Path | None = None) -> dspy.Module:
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "program.json"
            save(path)
        program = dspy.ChainOfThought("review -> stars: int, summary")
        program.load(path)
    return program
