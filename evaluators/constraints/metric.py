"""Whole answers against all of their constraints: a metric for streams and optimizers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from drpg_dspy.constraints import ConstraintCheck
from evaluators._fields import label, output
from evaluators.constraints.judge import ConstraintJudge
from evaluators.judgement import Judgement

__all__ = ["SCORINGS", "ConstraintsMet"]

SCORINGS = ("share", "all")
"""``share``: of the judged constraints that are met; ``all``: 1 when every one is, else 0."""


class ConstraintsMet:
    """Score an answer by the constraints that it meets.

    A metric of five arguments. Examples have ``constraints``, a list of ``{"type", "text"}``
    (or of :class:`~drpg_dspy.constraints.Constraint`), and ``prompt``; predictions have
    ``response``. Constraints that were not judged are left out of the share and counted in
    ``not_judged``; when none was judged, the score is NaN. Without any constraint it is 1.

    Args:
        compare: One of :data:`SCORINGS`.
        check: Checks one constraint; by default a
            :class:`~evaluators.constraints.ConstraintJudge`.

    Raises:
        ValueError: There is no such scoring; when called, a field is missing.
    """

    def __init__(self, compare: str = "share", *, check: ConstraintCheck | None = None) -> None:
        if compare not in SCORINGS:
            raise ValueError(f"compare must be one of {', '.join(SCORINGS)}, got {compare!r}.")
        self.compare = compare
        self.checker = check if check is not None else ConstraintJudge()

    def __call__(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Judgement:
        """Judge one prediction; the last three arguments are for DSPy's optimizers."""
        answer = str(output(prediction, "response") or "")
        task = str(getattr(example, "prompt", ""))
        subscores: dict[str, float] = {}
        violated: list[str] = []
        for one in label(example, "constraints"):
            kind, text = (
                (one["type"], one["text"]) if isinstance(one, Mapping) else (one.type, one.text)
            )
            check = self.checker.check(kind, text, answer, task)
            subscores[kind] = math.nan if check.satisfied is None else float(check.satisfied)
            if check.satisfied is False:
                violated.append(f"{kind}: {text} ({check.detail})")
        judged = [value for value in subscores.values() if not math.isnan(value)]
        feedback = "Not met: " + "; ".join(violated) if violated else "Every constraint is met."
        if subscores and not judged:
            feedback = "Not judged: no constraint could be checked."
        return Judgement(
            score=self._score(judged, bool(subscores)),
            feedback=feedback,
            informative=bool(judged),
            subscores=subscores,
            compare=self.compare,
            not_judged=len(subscores) - len(judged),
        )

    def _score(self, judged: list[float], asked: bool) -> float:
        if not judged:
            return math.nan if asked else 1.0
        return min(judged) if self.compare == "all" else sum(judged) / len(judged)
