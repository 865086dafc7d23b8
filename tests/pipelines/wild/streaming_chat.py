"""A chat that remembers what was said, shown word by word."""

from __future__ import annotations

import dspy


class Reply(dspy.Signature):
    """Go on with the conversation."""

    history: dspy.History = dspy.InputField()
    message: str = dspy.InputField()
    reply: str = dspy.OutputField()


class Chat(dspy.Module):
    def __init__(self, remembered: int = 10) -> None:
        super().__init__()
        self.remembered = remembered
        self.answer = dspy.Predict(Reply)

    def forward(self, message: str, history: dspy.History | None = None) -> dspy.Prediction:
        turns = history.messages[-self.remembered :] if history else []
        return self.answer(message=message, history=dspy.History(messages=turns))

    async def aforward(self, message: str, history: dspy.History | None = None) -> dspy.Prediction:
        turns = history.messages[-self.remembered :] if history else []
        return await self.answer.acall(message=message, history=dspy.History(messages=turns))


def build() -> dspy.Module:
    return Chat()
