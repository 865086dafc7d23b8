"""What every tracker promises, as a test class to subclass.

::

    class TestMine(TrackerContract):
        def make(self, folder):
            return MyTracker(folder / "mine.db")

        def told(self, tracker):
            return [row.seq for row in read(tracker)]

Each promise of :class:`~drpg_dspy.tracking.base.Tracker` is one test.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from drpg_dspy.memory.base import EventKind
from drpg_dspy.tracking.base import RunInfo, StepRecord, Tracker
from drpg_dspy.tracking.metrics import RunningMetrics
from drpg_dspy.types import Call, Feedback, Guidance, Policy, Rollout, Rule, Usage

__all__ = ["AWKWARD_TEXTS", "TrackerContract", "sample_records"]

AWKWARD_TEXTS = (
    'Return {"a": {"b": 1}} and write {{literally}} this; {% if x %} ${y} %s \\1 \\n',
    "</script><script>alert(1)</script> & <b>bold</b>",
    "[[ ## answer ## ]] '; DROP TABLE policies; --",
    "規則 ✓ naïve\u2028line\r\nbreak\ttab",
    "half a pair \ud800 and a null \0 character",
    "x" * 120_000,
)
"""Texts that have broken trackers: templates, markup, other scripts, bad and long ones."""


def sample_records(steps: int = 12, *, routes: tuple[str, ...] = ("predict",)) -> list[StepRecord]:
    """Return the records of a small run with everything in it.

    Every step writes a new policy for each route; every fifth step fails, every third is wrong,
    one is not judged, one verdict is revised at the end, and one is taken back.
    """
    return list(_Sample(routes).records(steps))


class _Sample:
    def __init__(self, routes: tuple[str, ...]) -> None:
        self.routes = routes
        self.metrics = RunningMetrics()
        self.seq = 0
        self.judged: list[str] = []

    def records(self, steps: int) -> Iterator[StepRecord]:
        first: StepRecord | None = None
        for step in range(1, steps + 1):
            record = self._rollout(step)
            first = first or record
            yield record
            yield self._verdict(record, self._feedback(step))
            self.judged.append(record.rollout.id)
        if first is not None:
            yield self._verdict(first, Feedback(0.25, "looked at again", author="person:Ann"))
            yield self._verdict(first, None)

    def _rollout(self, step: int) -> StepRecord:
        policies = tuple(self._policy(route, step) for route in self.routes)
        guidance = Guidance(
            policies={policy.route: policy for policy in policies},
            shots={self.routes[0]: ({"question": "an earlier one", "answer": "42"},)},
            retrieved={"shots": tuple(self.judged[-2:]), "wrong": tuple(self.judged[-1:])},
            usage=Usage(calls=1, prompt_tokens=300, completion_tokens=20),
            counts={"policy_unparsable": step % 2},
        )
        failed = step % 5 == 0
        outputs = None if failed else {"answer": f"answer {step}"}
        rollout = Rollout(
            id=f"rollout-{step:04}",
            step=step,
            inputs={"question": f"question {step}", "tags": {"b", "a"}},
            outputs=outputs,
            key=f"question {step}",
            trace=(Call(self.routes[0], {"question": "q"}, outputs, "Boom: no" * failed),),
            guidance=guidance,
            usage=Usage(calls=1, prompt_tokens=100, completion_tokens=10, cached_tokens=50),
            error="Boom: no" * failed,
            created_at=1.7e9 + step,
            seconds=0.5,
        )
        self.seq += len(policies) + 1
        self.metrics.add_rollout(rollout)
        figures = self.metrics.figures(rollout, None)
        return StepRecord(self.seq, rollout, None, policies, figures, rollout.created_at)

    def _policy(self, route: str, step: int) -> Policy:
        awkward = AWKWARD_TEXTS[step % len(AWKWARD_TEXTS)]
        sources = tuple(f"rollout-{i:04}" for i in range(1, step))
        rules = (Rule(f"Rule of step {step}.", sources=sources), Rule(awkward, author="person:Ann"))
        return Policy(route, rules, version=step, parent=step - 1, step=step, message=awkward[:80])

    def _feedback(self, step: int) -> Feedback:
        if step == 4:
            return Feedback(float("nan"), "the judge was away")
        return Feedback(float(step % 3 != 0), AWKWARD_TEXTS[step % 4], subscores={"rows": 0.5})

    def _verdict(self, record: StepRecord, feedback: Feedback | None) -> StepRecord:
        self.seq += 1
        self.metrics.set_feedback(record.rollout.id, feedback)
        figures = self.metrics.figures(record.rollout, feedback)
        kind: EventKind = "retraction" if feedback is None else "feedback"
        at = record.at + 0.5
        return StepRecord(self.seq, record.rollout, feedback, (), figures, at, kind)


class TrackerContract:
    """Subclass and implement :meth:`make` and :meth:`told`; pytest collects the rest."""

    routes: tuple[str, ...] = ("predict", "a b", "a/b")

    @abstractmethod
    def make(self, folder: Path) -> Tracker:
        """Return a new tracker; the same folder gives the same destination."""

    @abstractmethod
    def told(self, tracker: Tracker) -> list[int] | None:
        """Return the numbers of the records at the destination; ``None`` if it keeps none."""

    def run(self, token: str = "") -> RunInfo:
        """Return a run's description."""
        params = {"k": 16, "lm": "scripted/lm", "odd key!": AWKWARD_TEXTS[4]}
        return RunInfo("contract", params, self.routes, token, 1.0, self.records)

    def records(self) -> list[StepRecord]:
        """Return the records that the tests write."""
        return sample_records(6, routes=self.routes)

    def _expect(self, tracker: Tracker, records: list[StepRecord]) -> None:
        told = self.told(tracker)
        if told is not None:
            assert told == [record.seq for record in records]

    def test_a_run_is_told_whole_and_in_order(self, tmp_path: Path) -> None:
        tracker, records = self.make(tmp_path), self.records()
        assert tracker.start(self.run())
        tracker.write(records[:5])
        tracker.write(records[5:])
        tracker.finish("finished")
        self._expect(tracker, records)

    def test_records_offered_twice_stand_there_once(self, tmp_path: Path) -> None:
        tracker, records = self.make(tmp_path), self.records()
        tracker.start(self.run())
        tracker.write(records[:6])
        tracker.write(records[2:])
        tracker.finish("finished")
        self._expect(tracker, records)

    def test_another_process_goes_on_where_the_first_was_killed(self, tmp_path: Path) -> None:
        records = self.records()
        first = self.make(tmp_path)
        token = first.start(self.run())
        first.write(records[:6])
        second = self.make(tmp_path)
        assert second.start(self.run(token)) == token
        second.write(records[4:])
        second.finish("finished")
        self._expect(second, records)

    def test_a_finished_run_can_be_reopened(self, tmp_path: Path) -> None:
        tracker, records = self.make(tmp_path), self.records()
        token = tracker.start(self.run())
        tracker.write(records[:6])
        tracker.finish("stopped: budget")
        assert tracker.start(self.run(token)) == token
        tracker.write(records[6:])
        tracker.finish("finished")
        self._expect(tracker, records)

    @pytest.mark.parametrize("status", ["finished", "stopped: Ctrl-C", "failed: Boom \ud800"])
    def test_a_run_without_records_ends_with_any_status(self, tmp_path: Path, status: str) -> None:
        tracker = self.make(tmp_path)
        tracker.start(self.run())
        tracker.write([])
        tracker.finish(status)

    def test_the_destination_is_the_same_for_every_process(self, tmp_path: Path) -> None:
        first, second = self.make(tmp_path), self.make(tmp_path)
        assert first.destination == second.destination != ""

    def test_on_rollout_does_not_raise_without_an_open_trace(self, tmp_path: Path) -> None:
        self.make(tmp_path).on_rollout(self.records()[0].rollout)
