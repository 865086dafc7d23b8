"""What a comparison found: columns side by side, and how sure one may be of a difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from drpg_dspy.analysis.statistics import McNemar, bootstrap_interval, mcnemar, wilson
from drpg_dspy.types import Usage

__all__ = ["Answer", "ColumnResult", "Summary", "Versus", "summarise_column", "versus"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One held-out question.

    Attributes:
        id: The example's.
        score: In [0, 1]; NaN = not judged. A program that raised scores 0.
        failed: It raised.
        text: What the judge said, or the failure.
    """

    id: str
    score: float
    failed: bool = False
    text: str = ""

    @property
    def credit(self) -> float:
        """What the question adds to the score: 0 where it could not be judged."""
        return 0.0 if math.isnan(self.score) else self.score


@dataclass(frozen=True, slots=True)
class ColumnResult:
    """One column under one seed.

    Attributes:
        name, seed: Which.
        answers: The held-out questions, in the order of the test set.
        learning: LM use up to the held-out part, prompt models and LM judges included.
        testing: LM use of answering the held-out part.
        learning_seconds, testing_seconds: Wall time of the two.
        stopped: Why learning ended before it was done; ``""`` = it was done.
        reached: How far it came, in words.
        prequential: Mean score over the training stream, each question answered before its
            verdict was learned from; NaN for a column that meets no stream.
        steps: Questions of the stream that were met.
        kept: What it learned, in words, for the page.
        settings: What the column was made of, as plain values.
        run_id: Of its MLflow run; ``""`` = none.
    """

    name: str
    seed: int
    answers: tuple[Answer, ...]
    learning: Usage
    testing: Usage
    learning_seconds: float
    testing_seconds: float
    stopped: str = ""
    reached: str = ""
    prequential: float = math.nan
    steps: int = 0
    kept: str = ""
    settings: Any = None
    run_id: str = ""

    @property
    def score(self) -> float:
        """Mean held-out score, in [0, 1]: failed and unjudged questions add nothing."""
        return sum(answer.credit for answer in self.answers) / max(1, len(self.answers))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["answers"] = [
            {f.name: getattr(answer, f.name) for f in fields(answer)} for answer in self.answers
        ]
        for name in ("learning", "testing"):
            usage = plain[name]
            plain[name] = {f.name: getattr(usage, f.name) for f in fields(usage)}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ColumnResult:
        """Read what :meth:`as_dict` gave."""
        values = dict(plain)
        values["answers"] = tuple(Answer(**answer) for answer in values["answers"])
        values["learning"] = Usage(**values["learning"])
        values["testing"] = Usage(**values["testing"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Summary:
    """A column over all its seeds.

    Attributes:
        name: The column.
        seeds: How many.
        score: Mean held-out score, in [0, 1].
        interval: Its 95 % interval over questions.
        spread: Standard deviation of the seeds' scores; NaN for one.
        n: Held-out questions.
        right, not_judged, failed: Of the questions, over all seeds.
        prequential: Mean over seeds; NaN = met no stream.
        learning: Mean LM use of learning, for one seed.
        testing: Mean LM use of answering the held-out part, for one seed.
        seconds: Mean wall time, learning and testing.
        notes: Why learning was cut short, and how far it came.
    """

    name: str
    seeds: int
    score: float
    interval: tuple[float, float]
    spread: float
    n: int
    right: int
    not_judged: int
    failed: int
    prequential: float
    learning: Usage
    testing: Usage
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Versus:
    """One column against another, on the same held-out questions.

    Attributes:
        first, second: The columns; differences are first minus second.
        n: Questions that both could be judged on.
        difference: Mean difference in score, in [-1, 1].
        interval: Its 95 % paired-bootstrap interval over questions.
        sign: The exact McNemar test on questions that only one got right; with several seeds,
            on questions that one got right under more of its seeds than the other.
    """

    first: str
    second: str
    n: int
    difference: float
    interval: tuple[float, float]
    sign: McNemar = field(default_factory=lambda: mcnemar(0, 0))


def summarise_column(results: Sequence[ColumnResult], threshold: float) -> Summary:
    """Sum up one column's seeds."""
    scores = np.array([result.score for result in results])
    n = len(results[0].answers)
    means = np.array([[answer.credit for answer in result.answers] for result in results])
    if len(results) == 1 and set(means.ravel().tolist()) <= {0.0, 1.0}:
        low, high = wilson(float(scores[0]), n)
        interval = float(low), float(high)
    else:
        interval = bootstrap_interval(means.mean(axis=0))
    answers = [answer for result in results for answer in result.answers]
    streams = [result.prequential for result in results if not math.isnan(result.prequential)]
    seconds = [result.learning_seconds + result.testing_seconds for result in results]
    return Summary(
        name=results[0].name,
        seeds=len(results),
        score=float(scores.mean()),
        interval=interval,
        spread=float(scores.std(ddof=1)) if len(scores) > 1 else math.nan,
        n=n,
        right=sum(answer.credit >= threshold for answer in answers),
        not_judged=sum(math.isnan(answer.score) for answer in answers),
        failed=sum(answer.failed for answer in answers),
        prequential=sum(streams) / len(streams) if streams else math.nan,
        learning=_mean([result.learning for result in results]),
        testing=_mean([result.testing for result in results]),
        seconds=sum(seconds) / len(seconds),
        notes=tuple(_notes(results)),
    )


def versus(
    first: Sequence[ColumnResult], second: Sequence[ColumnResult], threshold: float
) -> Versus:
    """Compare two columns over the questions that both could be judged on, in every seed."""
    judged = [
        ~np.isnan(np.array([[a.score for a in result.answers] for result in results])).any(axis=0)
        for results in (first, second)
    ]
    both = judged[0] & judged[1]
    ours, theirs = (
        np.array([[a.credit for a in result.answers] for result in results])[:, both]
        for results in (first, second)
    )
    deltas = ours.mean(axis=0) - theirs.mean(axis=0) if both.any() else np.array([])
    right, right_too = (ours >= threshold).mean(axis=0), (theirs >= threshold).mean(axis=0)
    return Versus(
        first[0].name,
        second[0].name,
        int(both.sum()),
        float(deltas.mean()) if len(deltas) else math.nan,
        bootstrap_interval(deltas),
        mcnemar(int((right > right_too).sum()), int((right_too > right).sum())),
    )


def _mean(usages: Sequence[Usage]) -> Usage:
    total = sum(usages, Usage())
    n = len(usages)
    return Usage(
        round(total.calls / n),
        round(total.prompt_tokens / n),
        round(total.completion_tokens / n),
        round(total.cached_tokens / n),
        total.cost / n,
        total.seconds / n,
    )


def _notes(results: Sequence[ColumnResult]) -> list[str]:
    notes = []
    for result in results:
        said = "; ".join(part for part in (result.stopped, result.reached) if part)
        if said:
            notes.append(f"seed {result.seed}: {said}" if len(results) > 1 else said)
    return list(dict.fromkeys(notes))
