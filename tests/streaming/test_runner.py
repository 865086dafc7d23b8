from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import dspy
import pytest

from drpg_dspy.analysis import steps_table, summarise
from drpg_dspy.exceptions import ResumeMismatch, RunInUse
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.streaming import Budget, ProgressReport, Retry, run_stream
from drpg_dspy.streaming.lock import lock_for
from drpg_dspy.streaming.settings import shorten
from drpg_dspy.testing.scripted import fields
from drpg_dspy.tracking import JSONLTracker

Open = Callable[..., OnlinePolicyOptimizer]
NO_WAIT = Retry(1, sleep=lambda _: None)


class StopAfter:
    """Plays a Ctrl-C right after so many steps of this process."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, report: ProgressReport) -> None:
        if not report.ended:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


def go(learner: OnlinePolicyOptimizer, lab: ModuleType, n: int = 10, **options: Any) -> Any:
    return run_stream(learner, lab.examples(n), lab.metric, **{"retries": NO_WAIT, **options})


def always(score: Any) -> Callable[..., Any]:
    def metric(example: dspy.Example, prediction: Any, trace: Any = None) -> Any:
        return score

    return metric


# -- order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 1, 3, 99])
def test_feedback_on_a_step_comes_delay_steps_after_it(
    open_learner: Open, lab: ModuleType, delay: int
) -> None:
    order: list[str] = []

    def script(messages: Any) -> str:
        order.append("p" + messages[-1]["content"].split("item ")[1].split()[0])
        return fields(answer="x")

    def metric(example: dspy.Example, prediction: Any) -> float:
        order.append("f" + example.id[1:])
        return 1.0

    run_stream(
        open_learner(variant="zero_shot", script=script), lab.examples(5), metric, delay=delay
    )

    expected = []
    for step in range(1, 6):
        expected.append(f"p{step}")
        expected += [f"f{step - delay}"] if step > delay else []
    expected += [f"f{step}" for step in range(max(1, 6 - delay), 6)]
    assert order == expected


def test_no_label_and_no_later_example_is_in_any_prompt(
    open_learner: Open, lab: ModuleType
) -> None:
    learner = open_learner()
    stream = [
        dspy.Example(id=str(i), question=f"q-{i:03d}?", gold=f"gold-{i}").with_inputs("question")
        for i in range(6)
    ]

    run_stream(learner, stream, always(0.0))

    for text in learner.lm.texts():
        assert "gold-" not in text
    assert "q-001" not in learner.lm.texts()[0]


@pytest.mark.parametrize("variant", ["drpg", "previous_policy", "case_writer", "icl"])
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("parts", [(4, 6), (1,) * 10], ids=["4+6", "1+1+…+1"])
def test_a_run_in_parts_is_the_run_in_one(
    open_learner: Open, lab: ModuleType, variant: str, delay: int, parts: tuple[int, ...]
) -> None:
    whole = open_learner("whole", variant)
    expected = go(whole, lab, delay=delay)

    for steps in parts:
        learner = open_learner("parts", variant)
        with pytest.raises(KeyboardInterrupt):
            go(learner, lab, delay=delay, progress=StopAfter(steps))
        learner.close()
    learner = open_learner("parts", variant)
    summary = go(learner, lab, delay=delay)

    assert steps_table(learner.memory) == steps_table(whole.memory)
    assert summary.score == expected.score
    assert summary.usage.calls == expected.usage.calls
    assert summary.usage.tokens == expected.usage.tokens


def test_a_finished_run_is_not_run_again(open_learner: Open, lab: ModuleType) -> None:
    first = go(open_learner(), lab)

    learner = open_learner()
    second = go(learner, lab)

    assert learner.lm.prompts == []
    assert second.finished
    assert (second.n, second.score) == (first.n, first.score)


def test_a_prediction_that_was_paid_is_judged_from_what_was_stored(
    open_learner: Open, lab: ModuleType
) -> None:
    def broken(example: dspy.Example, prediction: Any) -> Any:
        return "good" if example.id == "q3" else 1.0

    with pytest.raises(ValueError, match="returned 'good'"):
        run_stream(open_learner(variant="zero_shot"), lab.examples(4), broken, retries=NO_WAIT)
    answers: list[Any] = []

    def broken(example: dspy.Example, prediction: Any) -> Any:  # type: ignore[no-redef]
        answers.append(prediction.answer)
        return 1.0

    learner = open_learner(variant="zero_shot")
    summary = run_stream(learner, lab.examples(4), broken, retries=NO_WAIT)

    assert summary.judged == 4
    assert len(learner.lm.prompts) == 1  # step 4 alone
    assert answers == [learner.memory.rollout(f"0000{step}").answer.answer for step in (3, 4)]


def test_a_stream_may_grow_at_its_end(open_learner: Open, lab: ModuleType) -> None:
    go(open_learner(), lab, n=6)
    learner = open_learner()
    go(learner, lab, n=10)
    whole = open_learner("whole")
    go(whole, lab, n=10)

    assert steps_table(learner.memory) == steps_table(whole.memory)


def test_a_stream_may_end_sooner_but_not_before_the_steps_it_made(
    open_learner: Open, lab: ModuleType
) -> None:
    with pytest.raises(KeyboardInterrupt):
        go(open_learner(), lab, n=10, progress=StopAfter(4))
    learner = open_learner()

    with pytest.raises(ValueError, match="4 steps were made already"):
        shorten(learner.memory, lab.examples(10), 3)
    with pytest.raises(ResumeMismatch, match="data: stored"):
        shorten(learner.memory, lab.examples(10)[::-1], 6)
    shorten(learner.memory, lab.examples(12), 6)
    assert go(learner, lab, n=6).finished
    go(open_learner(), lab, n=10)
    whole = open_learner("whole")
    go(whole, lab, n=10)

    assert steps_table(learner.memory) == steps_table(whole.memory)


def test_calls_made_beside_the_stream_are_left_alone(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner()
    beside = learner(question="What is item 99 of list 0?")

    summary = go(learner, lab)

    assert learner.memory.feedback(beside.rollout_id) is None
    assert summary.n == 10


def test_feedback_that_a_person_gave_or_took_back_is_not_overruled(
    open_learner: Open, lab: ModuleType
) -> None:
    learner = open_learner()
    with pytest.raises(KeyboardInterrupt):
        go(learner, lab, n=6, delay=3, progress=StopAfter(4))
    learner.feedback("00003", 0.5, "half", author="person:kim")
    learner.retract("00001")

    summary = go(learner, lab, n=6, delay=3)

    assert learner.memory.feedback("00003").author == "person:kim"
    assert learner.memory.feedback("00001") is None
    assert summary.waiting == 1


# -- failures -------------------------------------------------------------------------------


def test_a_failed_step_is_recorded_once_counted_and_not_learned_from(
    open_learner: Open, lab: ModuleType
) -> None:
    learner = open_learner()

    summary = go(learner, lab)

    rollout = learner.memory.rollout("00005")
    assert rollout.failed
    assert "no route to host" in rollout.error
    assert learner.memory.experience("00005") is None
    assert learner.memory.feedback("00005") is None
    assert rollout.usage.calls == 2  # both attempts are paid
    assert (summary.n, summary.failed, summary.not_judged, summary.judged) == (10, 1, 1, 8)
    assert summary.counts["step_retries"] == 1
    assert summary.score == pytest.approx(summary.correct / 10)


def dead_from(lab: ModuleType, first: int, alive: list[bool]) -> Callable[[Any], str]:
    def script(messages: Any) -> str:
        step = int(messages[-1]["content"].rsplit("item ", 1)[1].split()[0])
        if step >= first and not alive:
            raise ConnectionError("down")
        return fields(answer=f"answer {step}")

    return script


def test_a_dead_server_stops_the_stream_and_its_steps_are_tried_again(
    open_learner: Open, lab: ModuleType
) -> None:
    alive: list[bool] = []
    script = dead_from(lab, 4, alive)
    options = {"variant": "zero_shot", "script": script}
    stopped = go(open_learner(**options), lab, n=9, stop_after_failures=3, retries=0)
    assert "3 steps failed in a row" in stopped.stopped
    assert "down" in stopped.stopped
    assert (stopped.n, stopped.failed) == (6, 3)

    alive.append(True)
    learner = open_learner(**options)
    resumed = go(learner, lab, n=9, stop_after_failures=3, retries=0)

    assert resumed.finished
    assert (resumed.n, resumed.failed) == (9, 0)
    assert resumed.usage.calls == 9 + 3
    assert [row["step"] for row in steps_table(learner.memory)] == list(range(1, 10))
    assert summarise(learner.memory).failed == 0
    whole = open_learner("whole", **options)
    go(whole, lab, n=9)
    assert [r["outputs"] for r in steps_table(learner.memory)] == [
        r["outputs"] for r in steps_table(whole.memory)
    ]


def test_a_resume_of_failed_steps_that_is_interrupted_goes_on_with_the_rest_of_them(
    open_learner: Open, lab: ModuleType
) -> None:
    alive: list[bool] = []
    options = {"variant": "zero_shot", "script": dead_from(lab, 4, alive)}
    go(open_learner(**options), lab, n=9, stop_after_failures=3, retries=0)
    alive.append(True)
    with pytest.raises(KeyboardInterrupt):
        go(open_learner(**options), lab, n=9, retries=0, progress=StopAfter(1))

    learner = open_learner(**options)
    summary = go(learner, lab, n=9, stop_after_failures=50, retries=0)

    assert (summary.n, summary.failed) == (9, 0)
    assert len(learner.lm.prompts) == 5  # steps 5 to 9


def test_a_stop_is_remembered_under_another_limit(open_learner: Open, lab: ModuleType) -> None:
    alive: list[bool] = []
    options = {"variant": "zero_shot", "script": dead_from(lab, 4, alive)}
    go(open_learner(**options), lab, n=9, stop_after_failures=2, retries=0)
    alive.append(True)

    assert go(open_learner(**options), lab, n=9, stop_after_failures=None).failed == 0


def test_failed_steps_stay_failed_when_the_stream_goes_on(
    open_learner: Open, lab: ModuleType
) -> None:
    options = {"variant": "zero_shot", "script": dead_from(lab, 4, [])}
    summary = go(open_learner(**options), lab, n=9, stop_after_failures=None, retries=0)
    assert summary.finished
    assert summary.failed == 6

    learner = open_learner(**options)
    go(learner, lab, n=9, stop_after_failures=None, retries=0)
    assert learner.lm.prompts == []


def test_failures_in_a_row_are_counted_across_an_interruption(
    open_learner: Open, lab: ModuleType
) -> None:
    options = {"variant": "zero_shot", "script": dead_from(lab, 4, [])}
    with pytest.raises(KeyboardInterrupt):
        go(open_learner(**options), lab, n=9, retries=0, progress=StopAfter(5))

    summary = go(open_learner(**options), lab, n=9, stop_after_failures=3, retries=0)

    assert summary.n == 6


def test_a_dead_policy_writer_fails_the_step_and_not_the_stream(
    open_learner: Open, lab: ModuleType
) -> None:
    def script(messages: Any) -> str:
        if "coach" in messages[0]["content"]:
            raise ConnectionError("the writer is down")
        return lab.reply(messages)

    summary = go(open_learner(script=script), lab, n=9, stop_after_failures=None)

    assert summary.failed == 8  # the first step needs no policy
    assert summary.counts["propose_failed"] == 8


def test_a_judge_that_crashes_leaves_the_step_not_judged(
    open_learner: Open, lab: ModuleType
) -> None:
    def metric(example: dspy.Example, prediction: Any) -> float:
        return 1 / (len(example.id) - 2)

    learner = open_learner()
    summary = run_stream(learner, lab.examples(4), metric)

    assert (summary.n, summary.not_judged, summary.score) == (4, 4, 0.0)
    assert "ZeroDivisionError" in learner.memory.feedback("00001").text
    assert learner.memory.count() == 0


def test_a_dead_tracker_does_not_stop_the_stream(
    open_learner: Open, lab: ModuleType, tmp_path: Path
) -> None:
    asked = threading.Event()

    class Dead(JSONLTracker):
        def start(self, run: Any) -> str:
            asked.set()
            raise ConnectionError("no tracking server")

    learner = open_learner(tracker=Dead(tmp_path / "run.jsonl"))

    assert go(learner, lab).finished
    assert asked.wait(30)


# -- budgets --------------------------------------------------------------------------------


def test_a_spent_budget_stops_between_steps_and_a_larger_one_goes_on(
    open_learner: Open, lab: ModuleType
) -> None:
    stopped = go(open_learner(), lab, budget=Budget(lm_calls=7))
    assert "budget of 7 LM calls" in stopped.stopped
    assert 7 <= stopped.usage.calls <= 9
    assert stopped.n == stopped.judged + stopped.failed + stopped.not_judged

    learner = open_learner()
    again = go(learner, lab, budget=Budget(lm_calls=7))
    assert learner.lm.prompts == []
    assert again.stopped

    learner = open_learner()
    done = go(learner, lab, budget=Budget(lm_calls=1000))
    whole = open_learner("whole")
    go(whole, lab)
    assert done.finished
    assert steps_table(learner.memory) == steps_table(whole.memory)


def test_what_waits_when_a_budget_ends_is_delivered_on_resume_in_its_turn(
    open_learner: Open, lab: ModuleType
) -> None:
    stopped = go(open_learner(), lab, delay=3, budget=Budget(lm_calls=7))
    assert stopped.waiting > 0
    learner = open_learner()
    go(learner, lab, delay=3)
    whole = open_learner("whole")
    go(whole, lab, delay=3)

    assert steps_table(learner.memory) == steps_table(whole.memory)


def test_wall_time_accumulates_over_resumes(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner(variant="zero_shot")
    with pytest.raises(KeyboardInterrupt):
        go(learner, lab, progress=StopAfter(2))
    before = summarise(learner.memory).seconds

    stopped = go(open_learner(variant="zero_shot"), lab, budget=Budget(seconds=before / 2))

    assert "seconds is used up" in stopped.stopped
    assert stopped.n == 2


def test_the_judges_own_lm_calls_count(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner(variant="zero_shot")

    def metric(example: dspy.Example, prediction: Any) -> float:
        dspy.Predict("question -> answer")(question="fair?", lm=learner.lm)
        return 1.0

    summary = run_stream(learner, lab.examples(3), metric)

    assert summary.answering.calls == 3
    assert summary.learning.calls == 3


def test_a_budget_that_will_not_reach_the_end_is_pointed_out_early(
    open_learner: Open, lab: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    go(open_learner(variant="zero_shot"), lab, n=12, budget=Budget(lm_calls=9))

    assert "buys about" in caplog.text


# -- Ctrl-C ---------------------------------------------------------------------------------


def interrupt_soon() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_ctrl_c_ends_a_wait_for_the_lm_within_seconds(open_learner: Open, lab: ModuleType) -> None:
    def script(messages: Any) -> str:
        if "item 3 " in messages[-1]["content"]:
            interrupt_soon()
            time.sleep(60)
        return fields(answer="x")

    learner = open_learner(variant="zero_shot", script=script)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match=r"after step 2 of 4; to go on: drpg resume lab"):
        go(learner, lab, n=4)

    assert time.monotonic() - started < 30
    assert summarise(learner.memory).stopped == "interrupted by Ctrl-C"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_kills(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner(variant="zero_shot")
    read, write = os.pipe()

    def slow_end(report: ProgressReport) -> None:
        if report.ended:
            os.write(write, b".")
            time.sleep(60)
        os.kill(os.getpid(), signal.SIGINT)

    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        go(learner, lab, progress=slow_end)
        os._exit(0)
    assert os.read(read, 1) == b"."
    os.kill(pid, signal.SIGINT)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGINT
    assert summarise(learner.memory).stopped == "interrupted by Ctrl-C"


def test_an_interrupt_that_the_program_swallows_gives_no_answer(
    open_learner: Open, lab: ModuleType
) -> None:
    learner = open_learner(variant="zero_shot")
    inner = learner.program.forward

    def forward(**inputs: Any) -> Any:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except BaseException:  # noqa: BLE001 - what careless programs do
            return dspy.Prediction(answer="")
        return inner(**inputs)

    learner.program.forward = forward

    with pytest.raises(KeyboardInterrupt):
        go(learner, lab, n=4)
    assert summarise(learner.memory).n == 0


# -- what is refused ------------------------------------------------------------------------


def test_other_settings_on_resume_are_refused_with_both_values(
    open_learner: Open, lab: ModuleType
) -> None:
    go(open_learner(), lab, n=4)

    def other_metric(example: dspy.Example, prediction: Any) -> float:
        return 1.0

    with pytest.raises(ResumeMismatch, match="delay: stored 0, given 2"):
        go(open_learner(), lab, n=4, delay=2)
    with pytest.raises(ResumeMismatch, match=r"judge: stored .*metric.*given .*other_metric"):
        run_stream(open_learner(), lab.examples(4), other_metric)
    with pytest.raises(ResumeMismatch, match=r"optimizer: stored .*DRPG.*given .*SelfStreamICL"):
        go(open_learner(variant="icl"), lab, n=4)
    with pytest.raises(ResumeMismatch, match="examples: stored 4, given 3"):
        go(open_learner(), lab, n=3)
    with pytest.raises(ResumeMismatch, match="data: stored"):
        run_stream(open_learner(), lab.examples(5)[::-1], lab.metric)
    learner = open_learner()
    learner.lm.model = "scripted/other"
    with pytest.raises(ResumeMismatch, match=r"lm: stored .*scripted/lm.*given .*scripted/other"):
        go(learner, lab, n=4)


def test_a_run_that_another_process_holds_is_refused(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner()
    held = threading.Event()
    release = threading.Event()

    def hold() -> None:
        with lock_for(learner.memory.path):
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with pytest.raises(RunInUse):
        go(learner, lab)
    release.set()
    thread.join()
    assert go(learner, lab).finished


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay"),
        ({"delay": 1.5}, "delay"),
        ({"stop_after_failures": 0}, "None = never"),
        ({"retries": -1}, "retries"),
        ({"metric": "accuracy"}, "metric"),
    ],
)
def test_an_argument_out_of_range_is_named(
    open_learner: Open, lab: ModuleType, options: dict[str, Any], message: str
) -> None:
    metric = options.pop("metric", lab.metric)

    with pytest.raises(ValueError, match=message):
        run_stream(open_learner(), lab.examples(2), metric, **options)


def test_without_a_metric_the_learners_own_is_used(open_learner: Open, lab: ModuleType) -> None:
    assert run_stream(open_learner(metric=always(True)), lab.examples(2)).score == 1.0
    with pytest.raises(ValueError, match="needs a metric"):
        run_stream(open_learner("other"), lab.examples(2))


# -- what is reported -----------------------------------------------------------------------


def test_progress_is_told_after_each_step_and_at_the_end(
    open_learner: Open, lab: ModuleType
) -> None:
    reports: list[ProgressReport] = []

    summary = go(open_learner(), lab, n=4, progress=reports.append)

    assert [report.step for report in reports] == [1, 2, 3, 4, 4]
    assert [bool(report.ended) for report in reports] == [False] * 4 + [True]
    assert reports[-1].summary.score == summary.score
    assert reports[-1].seconds_left == 0.0
    assert all(not math.isnan(report.seconds_per_step) for report in reports)


def test_the_returned_figures_are_those_of_the_memory(open_learner: Open, lab: ModuleType) -> None:
    learner = open_learner(variant="case_writer")

    returned = go(learner, lab)

    read = summarise(learner.memory)
    assert {**returned.as_dict(), "seconds": 0, "per_step": 0} == {
        **read.as_dict(), "seconds": 0, "per_step": 0,
    }  # fmt: skip
    assert read.learning.calls > 0
