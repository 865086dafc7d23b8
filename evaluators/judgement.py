"""What a judge returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import dspy

from drpg_dspy.exceptions import EvaluationFailed

__all__ = ["Judge", "Judgement", "ProcessJudge"]


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


class Judge(ABC):
    """A metric with named scorings, as DSPy calls one.

    Args:
        compare: One of :attr:`scorings`; ``None`` = the first.
        raises: Raise ``EvaluationFailed`` instead of scoring NaN, for ``dspy.Evaluate`` and
            optimizers that average scores.

    Attributes:
        scorings: The names of the scorings with their versions, the default first.

    Raises:
        ValueError: An unknown scoring.
    """

    scorings: ClassVar[Mapping[str, Any]]

    def __init__(self, compare: str | None = None, *, raises: bool = False) -> None:
        if compare is None:
            compare = next(iter(self.scorings))
        if compare not in self.scorings:
            raise ValueError(f"compare must be one of {', '.join(self.scorings)}; got {compare!r}.")
        self.compare = compare
        self.raises = raises

    @property
    def compare_version(self) -> str:
        """Version of the scoring; verdicts of different versions are not comparable."""
        return str(self.scorings[self.compare])

    def __call__(
        self,
        example: Any,
        prediction: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Judgement:
        """Judge one prediction; the last three arguments are for DSPy's optimizers.

        Raises:
            EvaluationFailed: With ``raises``: no verdict could be reached.
        """
        try:
            return self._judged(example, prediction)
        except EvaluationFailed as error:
            if self.raises:
                raise
            return self._not_judged(f"Not judged: {error}", example, prediction)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(compare={self.compare!r})"

    def _verdict(
        self,
        score: float,
        kind: str,
        feedback: str,
        subscores: Mapping[str, float] | None = None,
        informative: bool = True,
        **more: Any,
    ) -> Judgement:
        """Return a verdict under this scoring.

        Args:
            score: In [0, 1], or NaN.
            kind: What came out, in a word or two.
            feedback: What was right or wrong.
            subscores: Named parts of the score; ``None`` = this judge has none.
            informative: False for a verdict that proves nothing.
            more: Further fields.
        """
        parts = {} if subscores is None else {"subscores": dict(subscores)}
        return Judgement(
            score=score,
            feedback=feedback,
            informative=informative,
            kind=kind,
            **parts,
            **more,
            compare=self.compare,
            compare_version=self.compare_version,
        )

    @abstractmethod
    def _judged(self, example: Any, prediction: Any) -> Judgement:
        """Return the verdict, or raise ``EvaluationFailed`` where none can be reached."""

    @abstractmethod
    def _not_judged(self, feedback: str, example: Any, prediction: Any) -> Judgement:
        """Return the verdict that there is none, with NaN for a score."""


class _Runner(Protocol):
    def close(self) -> None: ...


class ProcessJudge(Judge):
    """A judge with processes of its own, which end with it and stay behind when it is copied.

    A copy (another thread's, another machine's) is made anew from the constructor arguments, each
    of which is kept under its own name; what begins with an underscore is not carried over.

    >>> from evaluators.code import PassAtOne
    >>> with PassAtOne() as judge:
    ...     judge
    PassAtOne(compare='repaired', python=None)
    """

    _runner: _Runner

    def close(self) -> None:
        """End the processes; they also end with this object or the interpreter."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
