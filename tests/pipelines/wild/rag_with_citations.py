"""Answers from documents, each statement with the passages that it rests on."""

from __future__ import annotations

import dspy
import pydantic

PASSAGES = [
    "Returns are free for 30 days after delivery.",
    "Parcels inside Europe take two to four working days.",
    "Gift cards cannot be returned or paid out.",
    "A refund arrives within five working days after the parcel is back.",
    "Orders above 80 euros ship at no cost.",
]


class Citation(pydantic.BaseModel):
    passage: int = pydantic.Field(description="number of the passage, from 1")
    quote: str = pydantic.Field(description="the words that the answer rests on")


class AnswerWithCitations(dspy.Signature):
    """Answer from the passages alone, and quote what the answer rests on."""

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.OutputField()
    citations: list[Citation] = dspy.OutputField()


class RAG(dspy.Module):
    def __init__(self, k: int = 3) -> None:
        super().__init__()
        self.k = k
        self.answer = dspy.ChainOfThought(AnswerWithCitations)

    def retrieve(self, question: str) -> list[str]:
        words = set(question.lower().split())
        ranked = sorted(PASSAGES, key=lambda text: -len(words & set(text.lower().split())))
        return ranked[: self.k]

    def forward(self, question: str) -> dspy.Prediction:
        passages = self.retrieve(question)
        found = self.answer(passages=passages, question=question)
        known = [c for c in found.citations if 1 <= c.passage <= len(passages)]
        return dspy.Prediction(answer=found.answer, citations=known, passages=passages)


def build() -> dspy.Module:
    return RAG()
