"""The protocol of RECAP: adapt to a step's operations, then be tested on every constraint.

For each step the method first adapts (it sees the operations, no prompt and no result), then
answers every prompt; each answer is checked against the constraints in force and, as shadows,
against those that were edited or deleted before. Source: RECAP, Alg. 1.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.constraints import Check, Constraint, ConstraintCheck, Schedule
from drpg_dspy.continual.context import Answer, Method, Prompt, StepContext
from drpg_dspy.continual.log import RunLog
from drpg_dspy.streaming.abreast import abreast
from drpg_dspy.streaming.attempts import Retry, is_passing
from drpg_dspy.streaming.interrupts import Interrupts
from drpg_dspy.streaming.refusals import refusal
from drpg_dspy.types import Usage
from drpg_dspy.usage import meter

__all__ = ["Progress", "Protocol", "check_answer", "run_protocol"]

Progress = Callable[[str], None]
"""Called with one line after each adaptation and each step."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What is run.

    Attributes:
        schedule: The operations.
        prompts: The test prompts, the same at every step.
        check: Checks answers.
        full_information: Tell ``adapt`` the texts of all constraints in force (App. K).

    Raises:
        ValueError: There is no prompt, or two have the same id.
    """

    schedule: Schedule
    prompts: tuple[Prompt, ...]
    check: ConstraintCheck
    full_information: bool = False

    def __post_init__(self) -> None:
        if not self.prompts:
            raise ValueError("The protocol needs at least one prompt, got none.")
        if len({prompt.id for prompt in self.prompts}) < len(self.prompts):
            raise ValueError("Two prompts have the same id.")


def run_protocol(
    make: Callable[[], Method],
    protocol: Protocol,
    log: RunLog,
    lm: dspy.BaseLM,
    *,
    adapt_lm: dspy.BaseLM | None = None,
    retry: Retry | None = None,
    progress: Progress | None = None,
    threads: int = 1,
) -> None:
    """Run a method through a schedule, or go on where its log stops.

    An adaptation that was not finished is made again from the state before it; answers on record
    are not asked for again.

    Args:
        make: Builds the method, anew for this process.
        protocol: What is run.
        log: Where it is written; locked for the length of the run.
        lm: Who answers.
        adapt_lm: The same model for adaptation, where replies may be longer; ``None`` = ``lm``.
        retry: How often an answer is asked for again where the model is out of reach; ``None`` =
            twice.
        progress: Told how it goes.
        threads: Test prompts answered and checked side by side, at least 1.

    An answer that the program fails to give (a reply that cannot be read) is one that meets
    nothing, and an adaptation that fails so leaves the method as it is; both are on record. A
    model that is out of reach, or refuses every request, stops the run instead: it can go on. So
    does a check that raises; the answer is kept, and is what is checked first when it goes on.

    Raises:
        ValueError: ``threads`` is no whole number of at least 1.
        RunInUse: Another live process writes the log.
        DSPyError: The model refuses every request (no key, no such model) or stays out of reach.
        KeyboardInterrupt: Ctrl-C; everything up to then is kept.
    """
    retry = retry or Retry()
    whole("threads", threads, 1)
    with log.lock(), Interrupts(), dspy.context(lm=lm):
        log.repair()
        adapted, answered, unchecked = _position(log)
        for record in unchecked:
            _check_later(protocol, log, record)
        method = make()
        if adapted >= 0:
            method.load(log.state(adapted))
        tell = progress or (lambda line: None)
        for step in range(max(adapted, 0), len(protocol.schedule.steps)):
            if step > adapted:
                with dspy.context(lm=adapt_lm or lm):
                    _adapt(method, protocol, log, step)
                tell(f"step {step}: adapted to {_said(protocol.schedule, step)}")
            met = _test(method, protocol, log, step, answered, retry, threads)
            tell(f"step {step}: {met}")


def check_answer(
    protocol: Protocol, step: int, prompt: Prompt, answer: str
) -> list[dict[str, Any]]:
    """Check one answer against everything in force at a step, and its shadows."""
    found = [
        _checked(protocol.check, one, prompt, answer) for one in protocol.schedule.active(step)
    ]
    for shadow in protocol.schedule.shadows(step):
        record = _checked(protocol.check, shadow.constraint, prompt, answer)
        found.append({**record, "shadow": shadow.by, "since": shadow.since})
    return found


def _adapt(method: Method, protocol: Protocol, log: RunLog, step: int) -> None:
    context = StepContext.at(
        protocol.schedule, step, len(protocol.prompts), full=protocol.full_information
    )
    begun = time.perf_counter()
    error = ""
    with meter() as used:
        try:
            method.adapt(context)
        except Exception as raised:  # one adaptation may fail, the method goes on as it was
            if refusal(raised) or is_passing(raised):
                raise
            error = f"{type(raised).__name__}: {raised}"[:500]
    seconds = time.perf_counter() - begun
    method.save(log.new_state(step))
    log.keep_state(step)
    log.write(
        {
            "kind": "adapt",
            "step": step,
            "seconds": seconds,
            "usage": _plain(used.total()),
            "error": error,
        }
    )


def _test(
    method: Method,
    protocol: Protocol,
    log: RunLog,
    step: int,
    answered: set[tuple[int, str]],
    retry: Retry,
    threads: int,
) -> str:
    active = protocol.schedule.active(step)
    writing = threading.Lock()

    def test(prompt: Prompt) -> dict[str, Any]:
        begun = time.perf_counter()
        with meter() as used:
            answer = _answer(method, prompt, active, retry)
        seconds = time.perf_counter() - begun
        record: dict[str, Any] = {
            "kind": "answer",
            "step": step,
            "prompt": prompt.id,
            "answer": answer.text,
            "first": answer.first,
            "policy": answer.policy,
            "shown": list(answer.shown),
            "error": answer.error,
            "seconds": seconds,
            "usage": _plain(used.total()),
        }
        try:
            record.update(_scored(protocol, step, prompt, answer.text))
        except BaseException:
            record.update(_UNCHECKED)
            raise
        finally:
            with writing:  # at once: what was paid for is kept, whatever becomes of the others
                log.write(record)
        return record

    left = [prompt for prompt in protocol.prompts if (step, prompt.id) not in answered]
    records = [record for _, record in abreast(left, test, threads)]
    checks = [one for record in records for one in record["checks"] if not one.get("shadow")]
    judged = [one["satisfied"] for one in checks if one["satisfied"] is not None]
    said = f"{sum(judged)} of {len(judged)} checks met" if judged else "nothing new to check"
    failed = sum(bool(record["error"]) for record in records)
    return f"{said}, {failed} of {len(records)} answers failed" if failed else said


_UNCHECKED: Mapping[str, Any] = {
    "unchecked": True,
    "checks": [],
    "scoring_seconds": 0.0,
    "judging": dataclasses.asdict(Usage()),
}


def _scored(protocol: Protocol, step: int, prompt: Prompt, answer: str) -> dict[str, Any]:
    """Check an answer; returned is what its record says of that."""
    begun = time.perf_counter()
    with meter() as judging:
        checks = check_answer(protocol, step, prompt, answer)
    scoring = time.perf_counter() - begun
    return {"checks": checks, "scoring_seconds": scoring, "judging": _plain(judging.total())}


def _check_later(protocol: Protocol, log: RunLog, record: Mapping[str, Any]) -> None:
    """Check an answer on record that could not be checked when it was given."""
    step = int(record["step"])
    prompt = next(one for one in protocol.prompts if one.id == record["prompt"])
    scored = _scored(protocol, step, prompt, str(record["answer"]))
    log.write({"kind": "checks", "step": step, "prompt": prompt.id, **scored})


def _answer(method: Method, prompt: Prompt, active: Sequence[Constraint], retry: Retry) -> Answer:
    attempt = 0
    while True:
        attempt += 1
        try:
            return method.answer(prompt, active)
        except Exception as raised:  # one example may fail, the run goes on
            if refusal(raised) or (is_passing(raised) and attempt > retry.times):
                raise
            if not is_passing(raised):
                return Answer("", error=f"{type(raised).__name__}: {raised}"[:500])
            retry.wait(attempt, raised)


def _checked(
    checker: ConstraintCheck, one: Constraint, prompt: Prompt, answer: str
) -> dict[str, Any]:
    check: Check = checker.check(one.type, one.text, answer, prompt.text)
    return {
        "type": one.type,
        "text": one.text,
        "satisfied": check.satisfied,
        "detail": check.detail,
        "by": check.by,
    }


def _position(log: RunLog) -> tuple[int, set[tuple[int, str]], list[dict[str, Any]]]:
    """Return the last step adapted to (-1 = none), what was answered, and what is unchecked."""
    adapted, answers = -1, []
    for line in log.lines():
        if line["kind"] == "adapt":
            adapted = int(line["step"])
        else:
            answers.append(line)
    answered = {(int(line["step"]), str(line["prompt"])) for line in answers}
    return adapted, answered, [line for line in answers if line.get("unchecked")]


def _plain(usage: Usage) -> Mapping[str, float]:
    return dataclasses.asdict(usage)


def _said(schedule: Schedule, step: int) -> str:
    return ", ".join(f"{one.op} {one.type}" for one in schedule.steps[step])
