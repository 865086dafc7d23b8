"""The running figures of a run, kept up one event at a time."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice

from drpg_dspy.types import Feedback, Rollout, Usage

__all__ = ["ROLLING_WINDOW", "RunningMetrics"]

ROLLING_WINDOW = 50
"""Number of judged rollouts behind ``rolling_score``."""


class RunningMetrics:
    """Counts, sums and means over the rollouts and verdicts seen so far.

    Feedback may come late, be revised or be taken back: the figures are always those of the
    verdicts that stand. Fed the same events in the same order, two instances agree to the last
    bit, so a run that was interrupted reports what an uninterrupted one does.

    ==========================  ===========================================================
    name                        meaning
    ==========================  ===========================================================
    ``score``                   this rollout's score, in [0, 1]; absent while not judged
    ``prequential_score``       mean score of all judged rollouts; absent before the first
    ``rolling_score``           the same over the last 50 judged, in order of judgement
    ``judged``, ``not_judged``  rollouts whose standing feedback has a score, has none (NaN)
    ``failed``                  rollouts whose program raised
    ``steps``                   the highest step so far
    ``memory_size``             experiences: answered rollouts whose standing feedback teaches
    ``learning_failed``         verdicts from which learning failed (``Feedback.error``)
    ``prompt_tokens``, …        ``completion_tokens``, ``lm_calls``, ``cost`` (US dollars):
                                totals of answering, policy writing and learning
    ``seconds``                 total wall time of the calls
    ``step_tokens``, …          ``step_lm_calls``, ``step_seconds``: of this rollout alone
    ``policy_chars``            length of the policies this rollout was given, all routes
    any other name              total of that count in the guidances (``policy_unparsable``)
    ==========================  ===========================================================

    >>> metrics = RunningMetrics()
    >>> rollout = Rollout(id="a", step=1, inputs={}, outputs={"answer": "42"})
    >>> metrics.add_rollout(rollout)
    >>> metrics.set_feedback("a", Feedback(0.5))
    >>> metrics.figures(rollout, Feedback(0.5))["prequential_score"]
    0.5
    """

    def __init__(self) -> None:
        self._scores: dict[str, float] = {}  # in order of judgement
        self._total = 0.0
        self._not_judged: set[str] = set()
        self._teaching: set[str] = set()
        self._failed: set[str] = set()
        self._learning_failed = 0
        self._steps = 0
        self._usage = Usage()
        self._seconds = 0.0
        self._counts: Counter[str] = Counter()

    def add_rollout(self, rollout: Rollout) -> None:
        """Count a new prediction."""
        if rollout.failed:
            self._failed.add(rollout.id)
        self._steps = max(self._steps, rollout.step)
        self._usage += rollout.usage + rollout.guidance.usage
        self._seconds += rollout.seconds
        self._counts.update(rollout.guidance.counts)

    def set_feedback(self, rollout_id: str, feedback: Feedback | None) -> None:
        """Let this feedback stand for the rollout; ``None`` takes back what stood."""
        keeps_place = feedback is not None and feedback.judged
        if keeps_place and rollout_id in self._scores:
            self._total -= self._scores[rollout_id]
        else:
            self._total -= self._scores.pop(rollout_id, 0.0)
        self._not_judged.discard(rollout_id)
        self._teaching.discard(rollout_id)
        if feedback is None:
            return
        self._usage += feedback.usage  # a verdict that is revised later was paid for all the same
        self._learning_failed += bool(feedback.error)
        if feedback.judged:
            self._scores[rollout_id] = feedback.score
            self._total += feedback.score
        else:
            self._not_judged.add(rollout_id)
        if feedback.teaches and rollout_id not in self._failed:
            self._teaching.add(rollout_id)

    def figures(self, rollout: Rollout, feedback: Feedback | None) -> dict[str, float]:
        """Return all figures as they now stand, and those of one rollout."""
        spent = rollout.usage + rollout.guidance.usage
        figures: dict[str, float] = dict(self._counts)
        if feedback is not None and feedback.judged:
            figures["score"] = feedback.score
        if self._scores:
            last = list(islice(reversed(self._scores.values()), ROLLING_WINDOW))
            # A sum kept up by additions and subtractions may miss 1.0 by a rounding error.
            figures["prequential_score"] = min(1.0, max(0.0, self._total / len(self._scores)))
            figures["rolling_score"] = math.fsum(last) / len(last)
        figures |= {
            "judged": len(self._scores),
            "not_judged": len(self._not_judged),
            "failed": len(self._failed),
            "learning_failed": self._learning_failed,
            "steps": self._steps,
            "memory_size": len(self._teaching),
            "prompt_tokens": self._usage.prompt_tokens,
            "completion_tokens": self._usage.completion_tokens,
            "lm_calls": self._usage.calls,
            "cost": self._usage.cost,
            "seconds": self._seconds,
            "step_tokens": spent.tokens,
            "step_lm_calls": spent.calls,
            "step_seconds": rollout.seconds,
            "policy_chars": sum(len(p.text) for p in rollout.guidance.policies.values()),
        }
        return figures
