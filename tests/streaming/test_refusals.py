"""Which errors of a language model no further step can escape, and what is said of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.clients.errors import wrap_error
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMInvalidRequestError,
    LMNotConfiguredError,
    LMRateLimitError,
    LMServerError,
    LMTransportError,
    LMUnsupportedModelError,
)

from drpg_dspy.analysis import summarise
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.streaming import Budget, Retry, run_stream
from drpg_dspy.streaming.refusals import refusal
from drpg_dspy.testing.scripted import fields

Open = Callable[..., OnlinePolicyOptimizer]


@pytest.mark.parametrize(
    "error",
    [
        LMAuthError("bad key", model="openai/m", status=401),
        LMBillingError("no quota", model="openai/m", status=429),
        LMConfigurationError("temperature", model="openai/m"),
        LMNotConfiguredError("no key", model="openai/m"),
        LMUnsupportedModelError("no such model", model="openai/m", status=404),
        LMInvalidRequestError(model="openai/m", status=404),
        LMInvalidRequestError("litellm: LLM Provider NOT provided.", model="openai/m", status=400),
    ],
)
def test_a_model_that_refuses_every_request_is_named(error: Exception) -> None:
    assert refusal(error).startswith("openai/m cannot be used: ")


@pytest.mark.parametrize(
    "error",
    [
        None,
        KeyError("answer"),
        ConnectionError("down"),
        LMRateLimitError("busy", status=429),
        LMServerError("oops", status=500),
        LMTransportError("no route"),
        LMInvalidRequestError("this prompt holds a forbidden word", status=400),
        ContextWindowExceededError(model="openai/m"),
        AdapterParseError("Chat", dspy.Signature("q -> a"), "garbage"),
    ],
)
def test_an_error_that_the_next_step_may_not_meet_is_no_refusal(error: Exception | None) -> None:
    assert refusal(error) == ""


def test_a_refusal_is_found_behind_the_error_of_a_program() -> None:
    wrapped = RuntimeError("the second module failed")
    wrapped.__cause__ = LMAuthError("This key was revoked.", model="openai/m")

    assert refusal(wrapped) == "openai/m cannot be used: This key was revoked."


def test_a_missing_key_is_named_as_dspy_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    lm = dspy.LM("anthropic/claude-3-5-haiku-20241022", cache=False, num_retries=0)

    with pytest.raises(LMNotConfiguredError) as caught:
        lm("hello")

    assert refusal(caught.value) == (
        "anthropic/claude-3-5-haiku-20241022 cannot be used: no API key was found. "
        "Set ANTHROPIC_API_KEY."
    )


def test_a_rejected_key_is_told_with_the_variable_to_check() -> None:
    rejected = lm15.AuthError("Incorrect API key", status=401, env_keys=("OPENAI_API_KEY",))

    said = refusal(wrap_error(rejected, model="openai/m"))

    assert said == "openai/m cannot be used: Incorrect API key. Check OPENAI_API_KEY."


def test_litellm_is_asked_for_the_variables_where_it_sent_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def validate_environment(model: str) -> dict[str, Any]:
        asked.append(model)
        return {"keys_in_environment": False, "missing_keys": ["AWS_ACCESS_KEY_ID"]}

    litellm: Any = SimpleNamespace(validate_environment=validate_environment)
    monkeypatch.setitem(sys.modules, "litellm", litellm)
    error = LMAuthError("Unable to locate credentials", model="titan", provider="bedrock")

    said = refusal(error)

    assert said.startswith("bedrock/titan cannot be used: Unable to locate credentials.")
    assert said.endswith("Check AWS_ACCESS_KEY_ID.")
    assert asked == ["bedrock/titan"]


def locked_from(first: int, open_: list[bool]) -> Callable[[Any], str]:
    def script(messages: Any) -> str:
        step = int(messages[-1]["content"].rsplit("item ", 1)[1].split()[0])
        if step >= first and not open_:
            raise LMAuthError("This key was revoked.", model="openai/m")
        return fields(answer=f"answer {step}")

    return script


@pytest.mark.parametrize("first", [1, 4])
def test_a_refusal_stops_a_stream_at_once_and_its_step_is_asked_again(
    open_learner: Open, lab: ModuleType, caplog: pytest.LogCaptureFixture, first: int
) -> None:
    open_: list[bool] = []
    options = {"variant": "zero_shot", "script": locked_from(first, open_)}
    learner = open_learner(**options)
    stopped = run_stream(
        learner, lab.examples(6), lab.metric, stop_after_failures=None, retries=Retry(3)
    )

    assert stopped.stopped == "openai/m cannot be used: This key was revoked."
    assert (stopped.n, stopped.failed) == (first, 1)
    assert "revoked" not in caplog.text
    assert summarise(learner.memory).stopped == stopped.stopped

    open_.append(True)
    done = run_stream(open_learner(**options), lab.examples(6), lab.metric)
    assert (done.n, done.failed, done.stopped) == (6, 0, "")


def test_a_run_without_any_answer_is_not_finished_and_is_asked_again(
    open_learner: Open, lab: ModuleType
) -> None:
    alive: list[bool] = []

    def script(messages: Any) -> str:
        if not alive:
            raise ConnectionError("down")
        return fields(answer="x")

    options = {"variant": "zero_shot", "script": script}
    first = run_stream(open_learner(**options), lab.examples(3), lab.metric, retries=0)
    assert first.stopped.startswith("no step was answered, 3 failed; the last: ")
    budget = Budget(lm_calls=3)
    spent = run_stream(
        open_learner(**options), lab.examples(3), lab.metric, retries=0, budget=budget
    )
    assert "budget" in spent.stopped

    alive.append(True)
    done = run_stream(open_learner(**options), lab.examples(3), lab.metric, retries=0)
    assert (done.n, done.failed, done.stopped) == (3, 0, "")
