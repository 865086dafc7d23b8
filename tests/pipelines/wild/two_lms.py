"""A small model drafts, a large one of its own checks."""

from __future__ import annotations

import dspy


class DraftAndCheck(dspy.Module):
    def __init__(self, large: dspy.BaseLM | None = None) -> None:
        super().__init__()
        self.draft = dspy.Predict("request -> reply")
        self.check = dspy.ChainOfThought("request, reply -> final_reply")
        self.check.set_lm(large)

    def forward(self, request: str) -> dspy.Prediction:
        reply = self.draft(request=request).reply
        return dspy.Prediction(reply=self.check(request=request, reply=reply).final_reply)


def build(large: dspy.BaseLM | None = None) -> dspy.Module:
    return DraftAndCheck(large)
