"""Correct and wrong experiences beside one another, by similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import Hit, MemoryView

__all__ = ["Contrast", "Contrastive", "ContrastiveHits"]

Contrast = Literal["both", "correct", "wrong"]
"""Which cases a policy is written from."""


@dataclass(frozen=True, slots=True)
class ContrastiveHits:
    """Two lists of hits, most similar first."""

    correct: tuple[Hit, ...] = ()
    wrong: tuple[Hit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.correct or self.wrong)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all hits, the correct ones first."""
        return tuple(hit.experience.id for hit in (*self.correct, *self.wrong))


class Contrastive:
    """Retrieve the cases that a policy writer compares (DRPG, Eq. 4-6 and Appendix D).

    ``"both"`` takes k/2 of each verdict; of an odd k the correct side gets the extra one. A
    one-sided contrast takes k of that kind. A side that is short is not topped up.

    Args:
        k: Cases in all, at least 1.
        contrast: ``"both"``, ``"correct"`` or ``"wrong"``.

    >>> Contrastive(5).sides
    (3, 2)
    >>> Contrastive(4, contrast="wrong").sides
    (0, 4)
    """

    def __init__(self, k: int, contrast: Contrast = "both") -> None:
        whole("k", k, 1)
        if contrast not in get_args(Contrast):
            raise ValueError(f"contrast must be one of {get_args(Contrast)}, got {contrast!r}.")
        self.k = k
        self.contrast = contrast

    @property
    def sides(self) -> tuple[int, int]:
        """How many correct and how many wrong cases are wanted."""
        if self.contrast == "correct":
            return self.k, 0
        if self.contrast == "wrong":
            return 0, self.k
        return self.k - self.k // 2, self.k // 2

    def __call__(
        self, text: str, memory: MemoryView, correct: list[Hit] | None = None
    ) -> ContrastiveHits:
        """Search both sides.

        Args:
            text: The query.
            memory: Where to look.
            correct: Hits of an earlier search for correct cases with the same query, at least
                as many as are needed here; saves searching them twice.
        """
        n_correct, n_wrong = self.sides
        if correct is None and n_correct:
            correct = memory.search(text, n_correct, "correct")  # R'_{t,1}, Eq. 4
        wrong = memory.search(text, n_wrong, "wrong") if n_wrong else []  # R'_{t,0}, Eq. 5
        return ContrastiveHits(tuple((correct or [])[:n_correct]), tuple(wrong))  # Eq. 6
