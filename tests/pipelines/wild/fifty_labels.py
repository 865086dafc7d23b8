"""Fifty labels, of which exactly one is right."""

from __future__ import annotations

from typing import Literal

import dspy
import pydantic

AREAS = "account billing delivery login mobile privacy refund returns shop voucher".split()
KINDS = "bug complaint how_to praise request".split()
LABELS = tuple(f"{area}.{kind}" for area in AREAS for kind in KINDS)

Label = Literal[LABELS]  # type: ignore[valid-type]


class Verdict(pydantic.BaseModel):
    label: Label
    confidence: float = pydantic.Field(ge=0, le=1)


class Classify(dspy.Signature):
    """File a customer's message under exactly one label."""

    message: str = dspy.InputField()
    urgent: bool = dspy.OutputField()
    label: Label = dspy.OutputField()
    verdict: Verdict = dspy.OutputField()


def build() -> dspy.Module:
    return dspy.Predict(Classify)
