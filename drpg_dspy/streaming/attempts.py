"""A step's answer, asked for again when the language model is out of reach."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dspy.utils.exceptions import LMUnexpectedError, is_retryable_lm_error

from drpg_dspy.arguments import whole
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.types import Guidance, Rollout, Usage

__all__ = ["Retry", "answer_with_retries", "causes", "is_passing"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a step is tried again, and how long it is waited in between.

    This comes on top of what ``dspy.LM(num_retries=…)`` does for each request.

    Attributes:
        times: Further attempts after the first.
        pause: Seconds before the second attempt; doubled for each one after it. A server that
            says when to come back is listened to.
        longest: No pause is longer, in seconds.
        sleep: Does the waiting.

    Raises:
        ValueError: ``times`` is no whole number of at least 0.
    """

    times: int = 2
    pause: float = 1.0
    longest: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        whole("retries", self.times, 0)

    def wait(self, attempt: int, error: Exception) -> None:
        """Wait after a failed attempt, counted from 1."""
        asked = getattr(error, "retry_after", None) or 0.0
        self.sleep(min(self.longest, max(asked, self.pause * 2 ** (attempt - 1))))


def answer_with_retries(
    learner: OnlinePolicyOptimizer,
    inputs: Mapping[str, Any],
    rollout_id: str,
    step: int,
    retry: Retry,
    *,
    guidance: Guidance | None = None,
) -> tuple[Rollout, Exception | None]:
    """Return a step's rollout, not recorded yet, and what was raised where it failed.

    What failed attempts cost is part of the rollout.

    Only failures that may pass are tried again: a dead or slow server, not a program error or
    an answer that cannot be parsed. A policy that was written is kept for the next attempt.

    Args:
        learner: Who answers.
        inputs, rollout_id, step: As for :meth:`OnlinePolicyOptimizer.attempt_one`.
        retry: How often and when it is tried again.
        guidance: A policy and examples at hand; ``None`` = the learner proposes them.
    """
    spent, writing = Usage(), Usage()
    seconds = 0.0
    for attempt in range(1, retry.times + 2):
        rollout, error = learner.attempt_one(
            inputs, rollout_id=rollout_id, step=step, guidance=guidance
        )
        spent, seconds = spent + rollout.usage, seconds + rollout.seconds
        proposed = not rollout.guidance.counts.get("propose_failed")
        writing += rollout.guidance.usage if guidance is None else Usage()
        guidance = rollout.guidance if proposed else None
        if error is None or not is_passing(error) or attempt > retry.times:
            break
        _log.warning(
            "Step %d, attempt %d of %d failed (%s); trying again.",
            step,
            attempt,
            retry.times + 1,
            rollout.error[:300],
        )
        retry.wait(attempt, error)
    if attempt == 1:
        return rollout, error
    counts = {**rollout.guidance.counts, "step_retries": attempt - 1}
    guidance = dataclasses.replace(rollout.guidance, usage=writing, counts=counts)
    return dataclasses.replace(rollout, guidance=guidance, usage=spent, seconds=seconds), error


def is_passing(error: Exception) -> bool:
    """Tell a failure of the connection or server from one that would only repeat itself.

    >>> is_passing(TimeoutError()), is_passing(KeyError("answer"))
    (True, False)
    """
    return any(
        (isinstance(cause, Exception) and is_retryable_lm_error(cause))
        or isinstance(cause, (LMUnexpectedError, ConnectionError, TimeoutError))
        for cause in causes(error)
    )


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, back to the first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
