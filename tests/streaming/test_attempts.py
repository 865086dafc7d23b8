from __future__ import annotations

from typing import Any

import pytest
from dspy.utils.exceptions import AdapterParseError, LMAuthError, LMRateLimitError, LMTimeoutError

from drpg_dspy.streaming import Retry
from drpg_dspy.streaming.attempts import answer_with_retries, is_passing
from drpg_dspy.types import Guidance, Policy, Rollout, Rule, Usage

POLICY = Policy("predict", (Rule("Count once."),))


class Learner:
    """Plays the errors it is given, then answers."""

    def __init__(self, *errors: Exception, propose_fails: int = 0) -> None:
        self.errors = list(errors)
        self.propose_fails = propose_fails
        self.given: list[Guidance | None] = []

    def attempt_one(self, inputs: Any, *, rollout_id: str, step: int, guidance: Any) -> Any:
        self.given.append(guidance)
        error = self.errors.pop(0) if self.errors else None
        if error is not None and len(self.given) <= self.propose_fails:
            guidance = Guidance(counts={"propose_failed": 1}, usage=Usage(calls=1))
        elif guidance is None:
            guidance = Guidance({"predict": POLICY}, usage=Usage(calls=1, prompt_tokens=7))
        outputs = None if error else {"answer": "42"}
        rollout = Rollout(
            rollout_id, step, inputs, outputs, guidance=guidance, usage=Usage(calls=1),
            error=repr(error) if error else "", seconds=1.0,
        )  # fmt: skip
        return rollout, error


def answer(learner: Learner, retry: Retry) -> Rollout:
    return answer_with_retries(learner, {"q": "?"}, "00003", 3, retry)[0]


def test_a_dead_server_is_tried_again_after_growing_pauses() -> None:
    pauses: list[float] = []
    learner = Learner(ConnectionError("down"), LMTimeoutError("slow"))

    rollout = answer(learner, Retry(2, pause=1.0, sleep=pauses.append))

    assert not rollout.failed
    assert pauses == [1.0, 2.0]
    assert rollout.guidance.counts["step_retries"] == 2


def test_every_attempt_is_paid_and_the_policy_once() -> None:
    learner = Learner(ConnectionError(), ConnectionError())

    rollout = answer(learner, Retry(2, sleep=lambda _: None))

    assert rollout.usage.calls == 3
    assert rollout.guidance.usage == Usage(calls=1, prompt_tokens=7)
    assert rollout.guidance.policies["predict"] == POLICY
    assert learner.given[0] is None
    assert learner.given[1].policies["predict"] == POLICY  # type: ignore[union-attr]
    assert rollout.seconds == 3.0


def test_a_policy_that_could_not_be_written_is_asked_for_again() -> None:
    learner = Learner(ConnectionError(), propose_fails=1)

    rollout = answer(learner, Retry(2, sleep=lambda _: None))

    assert learner.given == [None, None]
    assert rollout.guidance.usage.calls == 2
    assert "propose_failed" not in rollout.guidance.counts


def test_after_the_last_attempt_the_failure_is_returned() -> None:
    rollout = answer(Learner(*[ConnectionError("down")] * 9), Retry(2, sleep=lambda _: None))

    assert rollout.failed
    assert rollout.usage.calls == 3


def test_what_the_last_attempt_raised_comes_with_the_rollout() -> None:
    last = KeyError("answer")
    learner = Learner(ConnectionError("down"), last)

    _, raised = answer_with_retries(learner, {"q": "?"}, "00003", 3, Retry(5, sleep=lambda _: None))

    assert raised is last


def test_a_failure_that_would_repeat_itself_is_not_tried_again() -> None:
    learner = Learner(KeyError("answer"))

    assert answer(learner, Retry(5, sleep=lambda _: None)).failed
    assert len(learner.given) == 1


def test_a_server_that_says_when_to_come_back_is_listened_to_within_bounds() -> None:
    pauses: list[float] = []
    busy = [LMRateLimitError("busy", retry_after=30), LMRateLimitError("busy", retry_after=900)]

    answer(Learner(*busy), Retry(2, pause=1.0, longest=60.0, sleep=pauses.append))

    assert pauses == [30, 60.0]


def test_a_passing_failure_is_recognised_behind_another_one() -> None:
    wrapped = RuntimeError("the retriever failed")
    wrapped.__cause__ = TimeoutError()

    assert is_passing(wrapped)
    assert not is_passing(LMAuthError("bad key"))
    assert not is_passing(ValueError("a bug"))


def test_an_answer_that_cannot_be_parsed_is_no_passing_failure() -> None:
    import dspy

    assert not is_passing(AdapterParseError("Chat", dspy.Signature("q -> a"), "garbage"))


@pytest.mark.parametrize("times", [-1, 1.5, True])
def test_a_wrong_number_of_retries_is_refused(times: Any) -> None:
    with pytest.raises(ValueError, match="retries"):
        Retry(times)
