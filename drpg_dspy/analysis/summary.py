"""What came out of one run."""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import Memory
from drpg_dspy.plain import to_plain
from drpg_dspy.types import Feedback, Rollout, Usage

__all__ = [
    "ROLLING_WINDOW",
    "STATUS_KEY",
    "RunSummary",
    "Tally",
    "rolling_scores",
    "standing",
    "steps_table",
    "summarise",
]

ROLLING_WINDOW = 50
"""Number of judged steps behind a rolling score."""

STATUS_KEY = "stream:status"
"""Setting of a memory under which the runner keeps how a run stands (a JSON object)."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in figures.

    Every step met counts, once: ``n = judged + not_judged + failed + waiting``.

    Attributes:
        n: Steps met.
        judged: Steps with a score.
        correct: Judged steps whose score reaches the memory's threshold.
        score: Mean score over all steps met except those that wait, in [0, 1]. A failed step
            and one that could not be judged count as 0. NaN before the first verdict.
        rolling_score: Mean score of the last 50 judged steps; NaN before the first.
        not_judged: Steps whose judge reached no verdict.
        failed: Steps at which the program raised.
        waiting: Steps whose feedback has not come yet.
        uninformative: Judged steps that prove nothing and are not learned from.
        learn_failed: Verdicts that were kept but not learned from, because the optimizer failed.
        answering, policy_writing, learning: LM use of the three, apart. Judging with a language
            model counts as learning. Includes attempts that failed.
        seconds: Wall time of the run, over all resumes.
        counts: Events counted by the method, e.g. ``policy_unparsable``, ``policy_memo_hits``,
            ``propose_failed``, ``step_retries``.
        stopped: Why the run is not finished; ``""`` when it is.
    """

    n: int = 0
    judged: int = 0
    correct: int = 0
    score: float = math.nan
    rolling_score: float = math.nan
    not_judged: int = 0
    failed: int = 0
    waiting: int = 0
    uninformative: int = 0
    learn_failed: int = 0
    answering: Usage = Usage()
    policy_writing: Usage = Usage()
    learning: Usage = Usage()
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""

    @property
    def settled(self) -> int:
        """Steps that the score is over: all but those that wait for their feedback."""
        return self.n - self.waiting

    @property
    def usage(self) -> Usage:
        """LM use of the whole run."""
        return self.answering + self.policy_writing + self.learning

    @property
    def finished(self) -> bool:
        """True when the stream was met to its end."""
        return not self.stopped

    @property
    def per_step(self) -> dict[str, float]:
        """Averages over the steps met: tokens, LM calls, dollars and seconds."""
        steps = max(self.n, 1)
        figures = {**_figures(self.usage), "seconds": self.seconds}
        return {name: value / steps for name, value in figures.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON; figures that do not exist yet are ``None``."""
        return {
            "n": self.n,
            "judged": self.judged,
            "correct": self.correct,
            "score": _known(self.score),
            "rolling_score": _known(self.rolling_score),
            "not_judged": self.not_judged,
            "failed": self.failed,
            "waiting": self.waiting,
            "uninformative": self.uninformative,
            "learn_failed": self.learn_failed,
            **_figures(self.usage),
            "seconds": self.seconds,
            "per_step": self.per_step,
            "answering": _figures(self.answering),
            "policy_writing": _figures(self.policy_writing),
            "learning": _figures(self.learning),
            "counts": dict(self.counts),
            "stopped": self.stopped,
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class Tally:
    """Adds up a run, one step at a time.

    Fed a run's steps in order, it needs constant memory beyond the names of failed steps.

    Args:
        memory: Whose threshold tells correct from wrong.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._n = 0
        self._failed: set[str] = set()
        self._verdicts: Counter[str] = Counter()
        self._total = 0.0
        self._last: deque[float] = deque(maxlen=ROLLING_WINDOW)
        self._answering = Usage()
        self._writing = Usage()
        self._learning = Usage()
        self._counts: Counter[str] = Counter()
        self.seconds = 0.0

    @property
    def spent(self) -> Usage:
        """All LM use so far."""
        return self._answering + self._writing + self._learning

    def add_rollout(self, rollout: Rollout) -> None:
        """Count a prediction; a further attempt at a failed step takes the failure's place."""
        step = standing(rollout.id)
        self._n += step not in self._failed
        self._failed.discard(step)
        if rollout.failed:
            self._failed.add(step)
        self._answering += rollout.usage
        self._writing += rollout.guidance.usage
        self._counts.update(rollout.guidance.counts)
        self.seconds += rollout.seconds

    def add_feedback(self, feedback: Feedback | None) -> None:
        """Count the verdict on a step that did not fail; ``None`` = it waits."""
        if feedback is None:
            return
        self._learning += feedback.usage
        self._verdicts["learn_failed"] += bool(feedback.error)
        if not feedback.judged:
            self._verdicts["not_judged"] += 1
            return
        self._verdicts["judged"] += 1
        self._verdicts["correct"] += self._memory.is_correct(feedback)
        self._verdicts["uninformative"] += not feedback.informative
        self._total += feedback.score
        self._last.append(feedback.score)

    def summary(self, seconds: float | None = None, stopped: str = "") -> RunSummary:
        """Return the figures as they stand.

        Args:
            seconds: Wall time; ``None`` = the sum of the calls' own times.
            stopped: Why the run is not finished.
        """
        settled = len(self._failed) + self._verdicts["judged"] + self._verdicts["not_judged"]
        return RunSummary(
            n=self._n,
            judged=self._verdicts["judged"],
            correct=self._verdicts["correct"],
            score=self._total / settled if settled else math.nan,
            rolling_score=sum(self._last) / len(self._last) if self._last else math.nan,
            not_judged=self._verdicts["not_judged"],
            failed=len(self._failed),
            waiting=self._n - settled,
            uninformative=self._verdicts["uninformative"],
            learn_failed=self._verdicts["learn_failed"],
            answering=self._answering,
            policy_writing=self._writing,
            learning=self._learning,
            seconds=self.seconds if seconds is None else seconds,
            counts=dict(sorted(self._counts.items())),
            stopped=stopped,
        )


def summarise(memory: Memory) -> RunSummary:
    """Add up the run in a memory, whether a stream or calls made one by one.

    One pass over the file; the memory needs no embedder.
    """
    tally = Tally(memory)
    for rollout, feedback in memory.rollouts():
        tally.add_rollout(rollout)
        if not rollout.failed:
            tally.add_feedback(feedback)
    status = json.loads(memory.get_meta(STATUS_KEY) or "{}")
    state = status.get("state", "finished")
    stopped = "" if state == "finished" else status.get("reason") or state
    seconds = status.get("seconds", 0.0)
    if status.get("threads", 1) == 1:  # the clock of a process that was killed is lost
        seconds = max(tally.seconds, seconds)
    return tally.summary(seconds, stopped)


def rolling_scores(memory: Memory, window: int = ROLLING_WINDOW) -> list[tuple[int, float]]:
    """Return the learning curve: ``(step, mean score of the last window judged steps)``.

    Raises:
        ValueError: The window is smaller than 1.
    """
    whole("window", window, 1)
    last: deque[float] = deque(maxlen=window)
    curve = []
    for rollout, feedback in memory.rollouts():
        if feedback is not None and feedback.judged:
            last.append(feedback.score)
            curve.append((rollout.step, sum(last) / len(last)))
    return curve


def steps_table(memory: Memory) -> list[dict[str, Any]]:
    """Return one plain row for each step, without anything that depends on the clock.

    Two runs of one stream under one seed have equal tables, however often either was
    interrupted. A step that was tried again after it had failed stands once, as it ended.
    """
    rows: dict[str, dict[str, Any]] = {}
    for rollout, feedback in memory.rollouts():
        rows[standing(rollout.id)] = _row(rollout, feedback, memory)
    return list(rows.values())


def standing(rollout_id: str) -> str:
    """Return the name of a rollout's step: a further attempt is named ``STEP.ATTEMPT``.

    >>> standing("00041"), standing("00041.2"), standing("3f2a.9")
    ('00041', '00041', '3f2a.9')
    """
    step, _, attempt = rollout_id.partition(".")
    return step if step.isdigit() and attempt.isdigit() else rollout_id


def _row(rollout: Rollout, feedback: Feedback | None, memory: Memory) -> dict[str, Any]:
    guidance = rollout.guidance
    row = {
        "step": rollout.step,
        "id": standing(rollout.id),
        "inputs": rollout.inputs,
        "outputs": rollout.outputs,
        "error": rollout.error,
        "key": rollout.key,
        "calls": [(call.route, call.inputs, call.outputs, call.error) for call in rollout.trace],
        "policies": guidance.policies,
        "policy_texts": {route: policy.text for route, policy in guidance.policies.items()},
        "shots": guidance.shots,
        "retrieved": guidance.retrieved,
        "counts": guidance.counts,
        "answering": _figures(rollout.usage),
        "policy_writing": _figures(guidance.usage),
        "feedback": None,
        "correct": None,
        "learning": None,
    }
    if feedback is not None:
        row["feedback"] = {
            "score": feedback.score,
            "text": feedback.text,
            "subscores": feedback.subscores,
            "informative": feedback.informative,
            "author": feedback.author,
            "error": feedback.error,
        }
        row["correct"] = memory.is_correct(feedback) if feedback.judged else None
        row["learning"] = _figures(feedback.usage)
    plain: dict[str, Any] = to_plain(row, where=f"step {rollout.step}")
    return plain


def _figures(usage: Usage) -> dict[str, float]:
    return {
        "lm_calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": usage.cost,
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _lines(run: RunSummary) -> Iterator[str]:
    score = "no score yet" if math.isnan(run.score) else f"score {run.score:.1%}"
    yield f"{run.n} steps, {score}: {run.correct} correct of {run.settled}"
    missing = {
        "not judged (counts as wrong)": run.not_judged,
        "failed (counts as wrong)": run.failed,
        "waiting for feedback (counts not yet)": run.waiting,
        "judged without proof": run.uninformative,
        "not learned from (the optimizer failed)": run.learn_failed,
    }
    if any(missing.values()):
        yield "  " + ", ".join(f"{count} {name}" for name, count in missing.items() if count)
    parts = {
        "answering": run.answering,
        "policy writing": run.policy_writing,
        "learning": run.learning,
    }
    for name, usage in {**parts, "together": run.usage}.items():
        if usage.calls:
            cost = f", ${usage.cost:.4f}" if usage.cost else ""
            yield (
                f"  {name}: {usage.calls:,} LM calls, {usage.prompt_tokens:,} tokens in, "
                f"{usage.completion_tokens:,} out{cost}"
            )
    each = run.per_step
    yield (
        f"  a step: {each['prompt_tokens']:,.0f} tokens in, {each['completion_tokens']:,.0f} out, "
        f"{each['lm_calls']:.2f} LM calls, {each['seconds']:.2f} s"
    )
    if run.counts:
        yield "  " + ", ".join(f"{name} {count}" for name, count in run.counts.items())
    if run.stopped:
        yield f"  stopped: {run.stopped}"
