"""A metric's answer as feedback, whatever form the metric has.

DSPy's optimizers disagree on how many arguments a metric takes and on what it returns. Here
every form is understood: two, three or five arguments; a bool, a number, or a
``dspy.Prediction`` with ``score`` and ``feedback``.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from drpg_dspy.arguments import scalar
from drpg_dspy.exceptions import EvaluationFailed
from drpg_dspy.types import Feedback

__all__ = ["check_metric", "judge", "to_feedback"]

logger = logging.getLogger(__name__)

Metric = Callable[..., Any]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def judge(metric: Metric, example: Any, prediction: Any) -> Feedback:
    """Apply a metric to one prediction.

    A metric that raises judges nothing: the result is NaN with the reason in its text, so that
    the step is counted as *not judged*, never as wrong and never learned from.

    Args:
        metric: Takes ``(example, prediction)`` and, if it has room, ``trace=None``.
        example: Inputs and labels.
        prediction: What the program returned.

    Raises:
        ValueError: The metric returned something that is no score; the message shows it.
    """
    try:
        verdict = _call(metric, example, prediction)
    except EvaluationFailed as error:
        return Feedback(math.nan, text=str(error))
    except Exception as error:  # noqa: BLE001 - one example's judge may fail, the stream goes on
        logger.warning("The metric failed on an example: %s: %s", type(error).__name__, error)
        return Feedback(math.nan, text=f"metric failed: {type(error).__name__}: {error}")
    return to_feedback(verdict)


def check_metric(metric: Any) -> None:
    """Refuse what cannot be called as a metric.

    Raises:
        ValueError: Not callable, or it cannot take ``(example, prediction)`` and at most three
            more; the message names its arguments.

    >>> check_metric(lambda prediction: True)
    Traceback (most recent call last):
    ValueError: A metric takes (example, prediction) and may take trace and more (five at most),
    got a function of (prediction).
    """
    if not callable(metric):
        raise ValueError(f"metric must be callable, got {metric!r}.")
    if inspect.isclass(metric):
        raise ValueError(f"metric must be a function or an instance, got the class {metric!r}.")
    try:
        signature = inspect.signature(metric)
    except (TypeError, ValueError):  # builtins have no signature
        return
    positional = [p for p in signature.parameters.values() if p.kind in _POSITIONAL]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    required = [p for p in positional if p.default is p.empty]
    alone = [
        p
        for p in signature.parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    ]
    if (len(positional) < 2 and not takes_any) or len(required) > 5 or alone:
        names = ", ".join(signature.parameters)
        raise ValueError(
            "A metric takes (example, prediction) and may take trace and more (five at most), "
            f"got a function of ({names})."
        )


def to_feedback(verdict: Any) -> Feedback:
    """Read a metric's return value.

    >>> to_feedback(True).score
    1.0
    >>> to_feedback({"score": 0.5, "feedback": "half"}).text
    'half'
    >>> to_feedback("good")
    Traceback (most recent call last):
    ValueError: A metric must return a bool, a number in [0, 1], or a dspy.Prediction with score
    and feedback; it returned 'good' (str).
    """
    if isinstance(verdict, Feedback):
        return verdict
    if hasattr(verdict, "toDict"):
        verdict = dict(verdict.items())
    if isinstance(verdict, Mapping) and "score" in verdict:
        return Feedback(
            score=_score(verdict["score"]),
            text=str(verdict.get("feedback") or ""),
            subscores=dict(verdict.get("subscores") or {}),
            informative=bool(verdict.get("informative", True)),
        )
    return Feedback(_score(verdict))


def _score(value: Any) -> float:
    number = scalar(value)
    if number is None:
        raise ValueError(
            "A metric must return a bool, a number in [0, 1], or a dspy.Prediction with score "
            f"and feedback; it returned {value!r} ({type(value).__name__})."
        )
    return number


def _call(metric: Metric, example: Any, prediction: Any) -> Any:
    try:
        parameters = list(inspect.signature(metric).parameters.values())
    except (TypeError, ValueError):  # builtins have no signature
        return metric(example, prediction)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    required = [p for p in positional if p.default is p.empty]
    # A metric written for GEPA may take all five without defaults.
    count = len(required) if not takes_any else 2
    return metric(*(example, prediction, None, None, None)[: max(2, count)])
