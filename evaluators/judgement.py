"""What a judge returns."""

from __future__ import annotations

import dspy

__all__ = ["Judgement"]


class Judgement(dspy.Prediction):
    """A ``dspy.Prediction`` with a score and feedback, true only when the answer is right.

    A plain ``dspy.Prediction`` is true whatever its score, so that ``BootstrapFewShot`` without
    a ``metric_threshold`` takes wrong answers for demonstrations. This one is true when the
    score is 1, and false when it is lower or NaN.

    >>> bool(Judgement(score=0.0)), bool(Judgement(score=1.0)), bool(Judgement(score=float("nan")))
    (False, True, False)
    >>> sum([Judgement(score=1.0), Judgement(score=0.0)]) / 2
    0.5
    """

    def __bool__(self) -> bool:
        return float(self) >= 1.0
