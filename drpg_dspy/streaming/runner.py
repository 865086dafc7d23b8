"""The prequential runner: predict, be told, learn; stop anywhere and go on.

For each step the learner predicts without seeing a label, and then hears about the step
``delay`` before. What was done stands in the learner's memory and nowhere else, so a run is
continued by calling :func:`run_stream` again with the same arguments: a prediction that was
made but not judged is judged from what was stored, without asking the language model again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.analysis.summary import STATUS_KEY, RunSummary
from drpg_dspy.arguments import whole
from drpg_dspy.judging import check_metric, judge
from drpg_dspy.online import OnlinePolicyOptimizer, answer_of
from drpg_dspy.streaming.attempts import Retry, answer_with_retries
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.streaming.interrupts import Interrupts
from drpg_dspy.streaming.lock import lock_for
from drpg_dspy.streaming.position import find_position
from drpg_dspy.streaming.progress import Pace, Progress, ProgressReport
from drpg_dspy.streaming.refusals import refusal
from drpg_dspy.streaming.schedule import checked_examples
from drpg_dspy.streaming.settings import settle
from drpg_dspy.usage import meter

__all__ = ["run_stream"]

_log = logging.getLogger(__name__)

_STEPS_BEFORE_HINT = 5
_UNFINISHED = "still running, or killed"
_SHOWN = 300  # characters of an error
_STATUS_EVERY = 5.0  # seconds of wall time that a kill may forget


def run_stream(
    learner: OnlinePolicyOptimizer,
    examples: Sequence[dspy.Example],
    metric: Callable[..., Any] | None = None,
    *,
    delay: int = 0,
    budget: Budget | None = None,
    stop_after_failures: int | None = 5,
    retries: int | Retry = 2,
    progress: Progress | None = None,
) -> RunSummary:
    """Let a learner meet a stream, or go on with one where its memory says it stopped.

    Nothing but the memory is needed to go on, after an error, Ctrl-C or ``kill -9`` alike, and
    the result is that of an uninterrupted run. The memory's other rollouts (calls made beside
    the stream) are left alone.

    Args:
        learner: Who meets it. It is not closed.
        examples: In the order in which they are met (:func:`stream_order`), inputs marked.
        metric: Judges a prediction against its example; ``None`` = the learner's own. One that
            raises leaves the step *not judged*.
        delay: Feedback on a step comes after the prediction ``delay`` steps later; at the end
            the rest is delivered.
        budget: What the whole run may spend, earlier processes included.
        stop_after_failures: Failed steps in a row after which the run stops; ``None`` = never.
            A language model that refuses every request (no key, no such model) stops it at
            once, and a run without any answer ends as stopped. When it is continued, those
            steps are tried again.
        retries: Further attempts at a step whose failure may pass, or a :class:`Retry`.
        progress: Called after each step and at the end.

    Returns:
        The figures of the whole run; ``stopped`` says why it is not finished.

    Raises:
        ValueError: An argument is out of range, the stream is empty or ids repeat, or the
            metric returned no score. Everything up to then is kept.
        ResumeMismatch: The memory's run was started under other settings or examples.
        RunInUse: Another process is running this memory.
        KeyboardInterrupt: Ctrl-C was pressed; everything up to then is kept.
    """
    judging = _checked(learner, metric, delay, budget, stop_after_failures)
    stream = checked_examples(examples)
    path = getattr(learner.memory, "path", None)
    retry = retries if isinstance(retries, Retry) else Retry(retries)
    with lock_for(Path(path)) if path else contextlib.nullcontext():
        settle(learner.memory, learner, stream, judging, delay)
        return _Run(
            learner,
            stream,
            judging,
            delay,
            budget or Budget(),
            stop_after_failures,
            retry,
            progress,
        ).go()


def _checked(
    learner: OnlinePolicyOptimizer,
    metric: Callable[..., Any] | None,
    delay: int,
    budget: Budget | None,
    stop_after_failures: int | None,
) -> Callable[..., Any]:
    """Return the metric of a stream; refuse arguments of the wrong kind or out of range."""
    if not isinstance(learner, OnlinePolicyOptimizer):
        raise ValueError(f"learner must be an OnlinePolicyOptimizer, got {learner!r}.")
    chosen = metric if metric is not None else learner.metric
    if chosen is None:
        raise ValueError("run_stream needs a metric, here or in the learner; got None.")
    check_metric(chosen)
    whole("delay", delay, 0)
    if stop_after_failures is not None:
        whole("stop_after_failures (None = never)", stop_after_failures, 1)
    if budget is not None and not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget, e.g. Budget(tokens=100_000), got {budget!r}.")
    return chosen


class _Run:
    def __init__(
        self,
        learner: OnlinePolicyOptimizer,
        examples: list[dspy.Example],
        metric: Callable[..., Any],
        delay: int,
        budget: Budget,
        stop_after: int | None,
        retry: Retry,
        progress: Progress | None,
    ) -> None:
        self.learner = learner
        self.memory = learner.memory
        self.examples = examples
        self.metric = metric
        self.delay = delay
        self.budget = budget
        self.stop_after = stop_after
        self.retry = retry
        self.progress = progress
        status = json.loads(self.memory.get_meta(STATUS_KEY) or "{}")
        self.retry_from = int(status.get("retry_from", 0))
        self.position = find_position(self.memory, stop_after, self.retry_from)
        self.tally = self.position.tally
        self.before = max(self.tally.seconds, float(status.get("seconds", 0.0)))
        self.first = self.position.step
        self.begun = self.noted = time.monotonic()
        self.pace = Pace()
        self.hinted = False
        self.refused = ""

    def go(self) -> RunSummary:
        """Run to the end or to a reason for stopping, and leave word of how it ended."""
        with Interrupts() as self.interrupts:
            self._note("running", _UNFINISHED)
            try:
                reason = self._steps()
            except KeyboardInterrupt:
                self._end("interrupted", "interrupted by Ctrl-C")
                raise KeyboardInterrupt(self._resume_hint()) from None
            except BaseException as error:
                self._end("failed", f"{type(error).__name__}: {error}")
                raise
            if 0 < self.position.failures == self.position.step:  # no answer at all
                self.retry_from = 1
            self._end("failed" if self._broken() else "stopped" if reason else "finished", reason)
        return self.tally.summary(self._seconds(), reason)

    def _steps(self) -> str:
        """Return why the stream stopped short of its end, or ``""``."""
        position = self.position
        self._deliver(position.step - self.delay)
        while position.step < len(self.examples):
            if reason := self.budget.exceeded(self.tally.spent, self._seconds()):
                return reason
            self._step()
            self._hint()
            self._report()
            if reason := self._broken():
                self.retry_from = position.step - position.failures + 1
                return reason
        self._deliver(len(self.examples))
        return self._broken()

    def _broken(self) -> str:
        """Return why going on makes no sense, or ``""``."""
        failures, last = self.position.failures, self.position.last_error[:_SHOWN]
        if self.refused:
            return self.refused
        if self.stop_after is not None and failures >= self.stop_after:
            return f"{failures} steps failed in a row; the last: {last}"
        if failures == len(self.examples):
            return f"no step was answered, {failures} failed; the last: {last}"
        return ""

    def _step(self) -> None:
        position = self.position
        step = position.step + 1
        # The inputs are all that the learner sees of the example.
        inputs = dict(self.examples[step - 1].inputs().items())
        rollout, error = answer_with_retries(
            self.learner, inputs, position.name_next(), step, self.retry
        )
        self.interrupts.check()
        self.learner.record_one(rollout)
        self.tally.add_rollout(rollout)
        position.step = step
        position.attempts[step] += 1
        if rollout.failed:
            position.failures += 1
            position.last_error = rollout.error
            self.refused = refusal(error)
            if not self.refused:
                said = rollout.error[:_SHOWN]
                _log.warning("Step %d failed and is not learned from: %s", step, said)
        else:
            position.failures = 0
            position.waiting.append((step, rollout.id))
        self._deliver(step - self.delay)
        self.pace.tick()
        if time.monotonic() - self.noted >= _STATUS_EVERY:
            self._note("running", _UNFINISHED)

    def _deliver(self, last: int) -> None:
        """Judge and learn from what waits, up to and including step ``last``."""
        waiting = self.position.waiting
        while waiting and waiting[0][0] <= last:
            step, name = waiting[0]
            # A person who was faster than the judge, or took feedback back, is not overruled.
            if not self.memory.feedback_history(name):
                # Judged as it was stored, so that a resumed run judges the same thing.
                answer = answer_of(self.memory.rollout(name), self.learner.card)
                with meter() as used:
                    verdict = judge(self.metric, self.examples[step - 1], answer)
                self.interrupts.check()
                verdict = dataclasses.replace(verdict, usage=verdict.usage + used.total())
                self.learner.learn_one(name, verdict)
            self.tally.add_feedback(self.memory.feedback(name))
            waiting.popleft()

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self.begun

    def _hint(self) -> None:
        met = self.position.step
        if self.hinted or met - self.first < _STEPS_BEFORE_HINT:
            return
        self.hinted = True
        total = len(self.examples)
        if hint := self.budget.hint(self.tally.spent, self._seconds(), met, total):
            _log.warning("%s", hint)

    def _report(self, ended: str = "") -> None:
        if self.progress is None:
            return
        each = self.pace.seconds_per_step()
        left = len(self.examples) - self.position.step
        self.progress(
            ProgressReport(
                step=self.position.step,
                total=len(self.examples),
                summary=self.tally.summary(self._seconds()),
                seconds_per_step=each,
                seconds_left=left * each if left else 0.0,
                ended=ended,
            )
        )

    def _note(self, state: str, reason: str) -> None:
        status = {
            "state": state,
            "reason": reason,
            "step": self.position.step,
            "total": len(self.examples),
            "seconds": self._seconds(),
            "retry_from": self.retry_from,
        }
        self.memory.set_meta(STATUS_KEY, json.dumps(status))
        self.noted = time.monotonic()

    def _end(self, state: str, reason: str) -> None:
        self._note(state, reason)
        self._report(f"{state}: {reason}" if state in ("stopped", "failed") else state)

    def _resume_hint(self) -> str:
        name = self.learner.name
        again = f"drpg resume {name}" if name else "call run_stream again with the same arguments"
        return (
            f"Interrupted after step {self.position.step} of {len(self.examples)}; "
            f"to go on: {again}"
        )
