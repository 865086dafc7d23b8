"""A photo and a file go in."""

from __future__ import annotations

import dspy


class Inspect(dspy.Signature):
    """Compare the photo of a delivery with its papers."""

    photo: dspy.Image = dspy.InputField()
    papers: dspy.File = dspy.InputField()
    question: str = dspy.InputField()
    damaged: bool = dspy.OutputField()
    answer: str = dspy.OutputField()


def build() -> dspy.Module:
    return dspy.ChainOfThought(Inspect)
