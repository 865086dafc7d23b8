"""How far a stream has come, for whoever watches."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from drpg_dspy.analysis.summary import ROLLING_WINDOW, RunSummary

__all__ = ["ConsoleProgress", "Pace", "Progress", "ProgressReport"]

Progress = Callable[["ProgressReport"], None]
"""Anything that takes a report after each step; a :class:`ConsoleProgress`, for example."""


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Where a stream stands after a step.

    Attributes:
        step: The last step met.
        total: Steps of the stream.
        summary: The run's figures so far, earlier processes included.
        seconds_per_step: Of late, in this process; NaN before the first step.
        seconds_left: Estimated from it; 0 at the end.
        ended: How the run ended: ``"finished"`` or the reason for stopping; ``""`` while it
            goes on.
    """

    step: int
    total: int
    summary: RunSummary
    seconds_per_step: float
    seconds_left: float
    ended: str = ""


class Pace:
    """Seconds a step, over the last twenty.

    Args:
        clock: Gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticks: deque[float] = deque([clock()], maxlen=21)

    def tick(self) -> None:
        """Note that a step has ended."""
        self._ticks.append(self._clock())

    def seconds_per_step(self) -> float:
        """Return the mean; NaN before the first step."""
        steps = len(self._ticks) - 1
        return (self._ticks[-1] - self._ticks[0]) / steps if steps else math.nan


class ConsoleProgress:
    r"""Writes one line that updates itself on a terminal, else one line every ten seconds.

    Args:
        stream: Where to; ``None`` = standard error.
        interval: Seconds between lines when the stream is no terminal.
        clock: Gives seconds.

    >>> import io
    >>> out = io.StringIO()
    >>> report = ProgressReport(3, 10, RunSummary(n=3, judged=3, score=1 / 3), 0.5, 3.5)
    >>> ConsoleProgress(out)(report)
    >>> print(out.getvalue(), end="")
    step 3/10  score 33.3% ...  0 LM calls  0 tokens  0.5 s a step  about 4 s left
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        interval: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._interval = interval
        self._clock = clock
        self._due = -math.inf
        self._width = 0
        self._shown = ""

    def __call__(self, report: ProgressReport) -> None:
        """Show a report; on a plain stream only when a line is due."""
        out = self._stream if self._stream is not None else sys.stderr
        line = _line(report)
        if out.isatty():
            out.write("\r" + line.ljust(self._width) + ("\n" if report.ended else ""))
            self._width = len(line)
        elif report.ended or self._clock() >= self._due:
            self._due = self._clock() + self._interval
            figures = "  ".join(_figures(report))
            # The last step's line is there already when the end is told right after it.
            out.write(f"{report.ended if report.ended and figures == self._shown else line}\n")
            self._shown = figures
        out.flush()


def _line(report: ProgressReport) -> str:
    parts = _figures(report)
    if not math.isnan(report.seconds_per_step):
        parts.append(f"{report.seconds_per_step:.2g} s a step")
    if report.ended:
        parts.append(report.ended)
    elif not math.isnan(report.seconds_left):
        parts.append(f"about {_duration(report.seconds_left)} left")
    return "  ".join(parts)


def _figures(report: ProgressReport) -> list[str]:
    run = report.summary
    parts = [f"step {report.step}/{report.total}"]
    if not math.isnan(run.score):
        of_late = (
            f" (last {min(run.judged, ROLLING_WINDOW)} judged: {run.rolling_score:.1%})"
            if run.judged
            else ""
        )
        parts.append(f"score {run.score:.1%}{of_late}")
    for name, count in (("failed", run.failed), ("not judged", run.not_judged)):
        if count:
            parts.append(f"{count} {name}")
    parts.append(f"{run.usage.calls:,} LM calls")
    parts.append(f"{run.usage.tokens:,} tokens")
    return parts


def _duration(seconds: float) -> str:
    """Return a rough duration.

    >>> _duration(42), _duration(600), _duration(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
