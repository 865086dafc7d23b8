from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy import lm15

from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import Usage
from drpg_dspy.usage import UsageMeter, meter

REPLY = fields(answer="forty two")


@pytest.fixture
def qa() -> dspy.Predict:
    return dspy.Predict("question -> answer")


@pytest.fixture
def lm() -> Iterator[ScriptedLM]:
    model = ScriptedLM([REPLY], model="scripted/a")
    with dspy.context(lm=model):
        yield model


def words(lm: ScriptedLM) -> int:
    return sum(len(m["content"].split()) for prompt in lm.prompts for m in prompt)


def test_it_counts_calls_and_tokens_by_model(qa, lm) -> None:
    other = ScriptedLM([REPLY], model="scripted/b")
    with meter() as usage:
        qa(question="1")
        qa(question="2")
        qa(question="3", lm=other)
    assert {model: seen.calls for model, seen in usage.by_model().items()} == {
        "scripted/a": 2,
        "scripted/b": 1,
    }
    assert usage.total().prompt_tokens == words(lm) + words(other)
    assert usage.total().completion_tokens == 3 * len(REPLY.split())
    assert usage.total().seconds > 0
    qa(question="outside")
    assert usage.total().calls == 3


def test_direct_and_async_calls_count(qa, lm) -> None:
    async def both() -> None:
        await asyncio.gather(qa.acall(question="1"), lm.acall("hello"))

    with meter() as usage:
        lm("hello")
        asyncio.run(both())
    assert usage.total().calls == 3


def test_failed_calls_count_without_tokens(qa) -> None:
    def dies(messages: Any) -> str:
        raise ConnectionError("down")

    dead = ScriptedLM(dies, model="scripted/dead")
    with meter() as usage, dspy.context(lm=dead):
        for call in (qa, lambda **x: asyncio.run(qa.acall(**x))):
            with pytest.raises(dspy.LMError):
                call(question="q")
    assert usage.by_model()["scripted/dead"].calls == 2
    assert usage.total().tokens == 0


def test_what_is_refused_before_it_is_sent_does_not_count(lm) -> None:
    with meter() as usage, pytest.raises(ValueError, match="surrogate"):
        lm("\ud800")
    no_async = dspy.LM("x/y", engine=lm.script_engine, cache=False)
    with meter() as refused, pytest.raises(dspy.LMUnsupportedFeatureError):
        asyncio.run(no_async.acall("hello"))
    assert usage.total() == refused.total() == Usage()


def test_answers_from_the_cache_cost_nothing(qa) -> None:
    lm = ScriptedLM([REPLY], model="scripted/cached-in-test-usage", cache=True)
    with dspy.context(lm=lm):
        qa(question="once")
        with meter() as usage:
            qa(question="once")
            asyncio.run(qa.acall(question="only async"))
            asyncio.run(qa.acall(question="only async"))
    assert usage.total().calls == len(lm.prompts) - 1


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = dspy.clients.Cache(
        enable_disk_cache=False, enable_memory_cache=True, disk_cache_dir=None
    )
    monkeypatch.setattr(dspy, "cache", fresh, raising=False)


def test_several_completions_are_several_calls(lm) -> None:
    with meter() as usage:
        dspy.Predict("question -> answer", n=5)(question="q")
    assert usage.total().calls == len(lm.prompts) == 5
    assert usage.total().prompt_tokens == words(lm)


def test_meters_nest(qa, lm) -> None:
    with meter() as outer:
        qa(question="1")
        with meter() as inner:
            qa(question="2")
        qa(question="3")
    assert (outer.total().calls, inner.total().calls) == (3, 1)


def test_workers_of_dspy_count(qa, lm) -> None:
    devset = [dspy.Example(question=str(i)).with_inputs("question") for i in range(8)]
    with meter() as usage:
        dspy.Parallel(num_threads=4, disable_progress_bar=True)([(qa, x) for x in devset])
        dspy.Evaluate(devset=devset, metric=lambda e, p: 1.0, num_threads=4)(qa)
    assert usage.total().calls == 16
    assert usage.total().prompt_tokens == words(lm)


def test_plain_threads_count(lm) -> None:
    with meter() as usage:
        threads = [threading.Thread(target=lm, args=("hello",)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert usage.total().calls == 20


def test_dspys_own_tracker_and_history_go_on_as_before(qa, lm) -> None:
    with dspy.context(track_usage=True), meter() as usage:
        prediction = qa(question="q")
    assert prediction.get_lm_usage()["scripted/a"]["prompt_tokens"] == usage.total().prompt_tokens
    with meter() as silent, dspy.context(disable_history=True):
        qa(question="q")
    assert silent.total().prompt_tokens > 0


def test_an_lm_made_of_other_lms_is_not_counted_twice(qa, lm) -> None:
    class Router:
        def complete(self, request: lm15.Request) -> lm15.Response:
            said = lm("inner")[0]
            return lm15.Response(
                id=None, model=request.model, message=lm15.Message.assistant(said),
                finish_reason="stop", usage=lm15.Usage(input_tokens=1000, output_tokens=5),
            )  # fmt: skip

    router = dspy.LM("router/x", engine=Router(), cache=False)
    with meter() as usage:
        qa(question="q", lm=router)
    assert {model: seen.calls for model, seen in usage.by_model().items()} == {"router/x": 1}
    assert usage.total().prompt_tokens == 1000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cached_tokens_and_cost_are_read_where_they_are_reported(qa) -> None:
    class Priced(dspy.BaseLM):  # the interface that custom models used before 3.4
        def forward(self, prompt: Any = None, messages: Any = None, **kwargs: Any) -> Any:
            message = SimpleNamespace(role="assistant", content=REPLY)
            return SimpleNamespace(
                choices=[SimpleNamespace(message=message, finish_reason="stop")],
                usage={
                    "prompt_tokens": 100,
                    "completion_tokens": 7,
                    "prompt_tokens_details": {"cached_tokens": 64},
                },
                model="priced",
                _hidden_params={"response_cost": 0.25},
            )

    with meter() as usage, dspy.context(lm=Priced("priced")):
        qa(question="q")
        qa(question="q")
    total = usage.total()
    assert (total.calls, total.prompt_tokens, total.completion_tokens) == (2, 200, 14)
    assert (total.cached_tokens, total.cost) == (128, 0.5)


def test_a_meter_adds_from_many_threads_without_losing_any() -> None:
    counter = UsageMeter()

    def many() -> None:
        for _ in range(500):
            counter.add("m", Usage(calls=1, prompt_tokens=2))

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.total() == Usage(calls=4000, prompt_tokens=8000)
