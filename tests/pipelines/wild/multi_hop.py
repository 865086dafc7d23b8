"""Several hops: a query is written, passages are fetched, until there is enough to answer."""

from __future__ import annotations

import dspy

PAGES = {
    "dune": "Dune is a novel by Frank Herbert.",
    "herbert": "Frank Herbert was born in Tacoma.",
    "tacoma": "Tacoma lies in the state of Washington.",
}


class MultiHop(dspy.Module):
    def __init__(self, hops: int = 2) -> None:
        super().__init__()
        self.query = [
            dspy.ChainOfThought("notes: list[str], question -> query") for _ in range(hops)
        ]
        self.answer = dspy.Predict("notes: list[str], question -> answer")

    def search(self, query: str) -> str:
        return next((text for word, text in PAGES.items() if word in query.lower()), "")

    def forward(self, question: str) -> dspy.Prediction:
        notes: list[str] = []
        for hop in self.query:
            found = self.search(hop(notes=notes, question=question).query)
            if found and found not in notes:
                notes.append(found)
        return dspy.Prediction(
            notes=notes, answer=self.answer(notes=notes, question=question).answer
        )


def build() -> dspy.Module:
    return MultiHop()
