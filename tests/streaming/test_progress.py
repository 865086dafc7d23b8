from __future__ import annotations

import io

import pytest

from drpg_dspy.analysis import RunSummary
from drpg_dspy.streaming import ConsoleProgress, ProgressReport
from drpg_dspy.streaming.progress import Pace
from drpg_dspy.types import Usage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(step: int, ended: str = "", **figures: object) -> ProgressReport:
    summary = RunSummary(
        n=step, judged=step, score=0.25, rolling_score=0.5, answering=Usage(step, 1000), **figures
    )
    return ProgressReport(step, 10, summary, 2.0, (10 - step) * 2.0, ended)


def test_a_plain_stream_gets_a_line_when_one_is_due_and_one_at_the_end() -> None:
    out, now = io.StringIO(), [0.0]
    progress = ConsoleProgress(out, interval=10.0, clock=lambda: now[0])

    for step in range(1, 7):
        progress(report(step))
        now[0] += 4.0
    progress(report(6, ended="stopped: enough"))

    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["1/10", "4/10", "6/10"]
    assert lines[-1].endswith("stopped: enough")


def test_a_terminal_gets_one_line_that_is_wiped_and_ended() -> None:
    out = Terminal()
    progress = ConsoleProgress(out)

    progress(report(1, failed=3))
    progress(report(2))
    progress(report(2, ended="finished"))

    first, second, last = out.getvalue().split("\r")[1:]
    assert len(second) == len(first)  # nothing of the longer line is left
    assert last.rstrip(" \n").endswith("finished")
    assert last.endswith("\n")
    assert "\n" not in first + second


def test_a_line_shows_scores_costs_pace_and_time_left() -> None:
    out = io.StringIO()
    ConsoleProgress(out)(report(4, failed=2, not_judged=1))

    line = out.getvalue()
    for part in (
        "step 4/10", "score 25.0%", "last 4 judged: 50.0%", "2 failed", "1 not judged",
        "4 LM calls", "1,000 tokens", "2 s a step", "about 12 s left",
    ):  # fmt: skip
        assert part in line


def test_the_pace_is_that_of_the_last_twenty_steps() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert pace.seconds_per_step() != pace.seconds_per_step()  # NaN before the first

    for seconds in [100.0] * 5 + [2.0] * 20:
        now[0] += seconds
        pace.tick()

    assert pace.seconds_per_step() == pytest.approx(2.0)


def test_the_last_line_is_not_said_twice() -> None:
    out = io.StringIO()
    progress = ConsoleProgress(out, interval=0.0)

    progress(report(9))
    progress(report(10))
    progress(report(10, ended="finished"))
    progress(report(10, ended="finished", not_judged=1))

    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["step", "step", "finished", "step"]
