"""One shared program, many calls at once, each under a policy of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import dspy
import pytest

from drpg_dspy.injection import attach, record_trace, set_policy, use_policy
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.usage import meter


class Pair(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = dspy.Predict("question -> draft")
        self.b = dspy.ChainOfThought("question, draft -> answer")

    def forward(self, question: str) -> Any:
        draft = self.a(question=question).draft
        return dspy.Prediction(answer=draft + "|" + self.b(question=question, draft=draft).answer)

    async def aforward(self, question: str) -> Any:
        draft = (await self.a.acall(question=question)).draft
        final = await self.b.acall(question=question, draft=draft)
        return dspy.Prediction(answer=draft + "|" + final.answer)


def echo(messages: list[dict[str, str]]) -> str:
    """Answer with the number of the policy in the prompt, "none" without one."""
    policy = re.search(r"rule (\d+)", messages[-1]["content"])
    said = policy.group(1) if policy else "none"
    return fields(draft=said, reasoning="r", answer=said)


def rule(number: int | str) -> dict[str, str]:
    return {"a": f"- rule {number}", "b.predict": f"- rule {number}"}


@pytest.fixture
def shared() -> dspy.Module:
    program = Pair()
    attach(program)
    return program


@pytest.fixture
def echoing() -> Any:
    lm = ScriptedLM(echo)
    with dspy.context(lm=lm):
        yield lm


def test_four_hundred_threads_each_see_their_own_policy(shared, echoing) -> None:
    answers: dict[int, str] = {}
    gate = threading.Barrier(400)

    def one(number: int) -> None:
        gate.wait()
        with dspy.context(lm=echoing), use_policy(rule(number)):
            answers[number] = shared(question="q").answer

    threads = [threading.Thread(target=one, args=(i,)) for i in range(400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {i: f"{i}|{i}" for i in range(400)}


async def test_two_hundred_async_tasks_each_see_their_own_policy(shared, echoing) -> None:
    async def one(number: int) -> str:
        with use_policy(rule(number)):
            await asyncio.sleep(0)
            return (await shared.acall(question="q")).answer

    answers = await asyncio.gather(*(one(i) for i in range(200)))
    assert answers == [f"{i}|{i}" for i in range(200)]


def test_a_writer_in_the_middle_of_a_call_never_mixes_versions(shared) -> None:
    current = {"number": 0}
    stop = threading.Event()

    def writer() -> None:
        while not stop.is_set():
            current["number"] += 1
            set_policy(shared, rule(current["number"]))

    def slow(messages: list[dict[str, str]]) -> str:
        before = current["number"]
        while current["number"] < before + 3:  # the policy changes while the LM thinks
            stop.wait(0.0005)
        return echo(messages)

    thread = threading.Thread(target=writer)
    thread.start()
    try:
        with dspy.context(lm=ScriptedLM(slow)):
            answers = []
            for _ in range(20):
                with use_policy(rule(current["number"])):
                    answers.append(shared(question="q").answer.split("|"))
    finally:
        stop.set()
        thread.join()
    assert all(first == second for first, second in answers)
    assert len({first for first, _ in answers}) == 20


def examples(count: int) -> list[dspy.Example]:
    return [dspy.Example(question=str(i)).with_inputs("question") for i in range(count)]


def in_parallel(program: dspy.Module) -> list[Any]:
    return dspy.Parallel(num_threads=4, disable_progress_bar=True)([(program, x) for x in EXAMPLES])


def in_evaluate(program: dspy.Module) -> list[Any]:
    run = dspy.Evaluate(devset=EXAMPLES, metric=lambda e, p: 1.0, num_threads=4)
    return [prediction for _, prediction, _ in run(program).results]


def in_batch(program: dspy.Module) -> list[Any]:
    return program.batch(EXAMPLES, num_threads=4, disable_progress_bar=True)


def in_asyncify(program: dspy.Module) -> list[Any]:
    async def everything() -> list[Any]:
        call = dspy.asyncify(program)
        return await asyncio.gather(*(call(question=x.question) for x in EXAMPLES))

    return asyncio.run(everything())


def in_streamify(program: dspy.Module) -> list[Any]:
    async def one(question: str) -> Any:
        chunks = [chunk async for chunk in dspy.streamify(program)(question=question)]
        return next(chunk for chunk in chunks if isinstance(chunk, dspy.Prediction))

    return [asyncio.run(one(x.question)) for x in EXAMPLES]


EXAMPLES = examples(8)
WAYS = [in_parallel, in_evaluate, in_batch, in_asyncify, in_streamify]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_dspys_own_workers_inherit_policy_trace_and_meter(
    way: Callable[[dspy.Module], list[Any]], shared, echoing
) -> None:
    with use_policy(rule(7)), record_trace() as calls, meter() as usage:
        answers = [prediction.answer for prediction in way(shared)]
    assert answers == ["7|7"] * 8
    assert len(calls) == 16
    assert usage.total().calls == 16
    assert [prediction.answer for prediction in way(shared)] == ["none|none"] * 8


class InPieces(ScriptedLM):
    """Streams its replies in pieces of a few characters."""

    def __init__(self) -> None:
        super().__init__(echo)
        whole = self.script_engine.stream

        def stream(request: Any) -> Any:
            for event in whole(request):
                if event.type != "delta":
                    yield event
                    continue
                text = event.delta.text
                for start in range(0, len(text), 4):
                    delta = dataclasses.replace(event.delta, text=text[start : start + 4])
                    yield dataclasses.replace(event, delta=delta)

        self.script_engine.stream = stream  # type: ignore[method-assign]


async def test_a_listener_streams_an_attached_predictor_under_a_policy(shared) -> None:
    listeners = [dspy.streaming.StreamListener("answer")]
    with dspy.context(lm=InPieces()), use_policy(rule(31415)):
        stream = dspy.streamify(shared, stream_listeners=listeners)(question="q")
        chunks = [chunk async for chunk in stream]
    said = [chunk for chunk in chunks if isinstance(chunk, dspy.streaming.StreamResponse)]
    assert "".join(chunk.chunk for chunk in said) == "31415"
    assert {chunk.predict_name for chunk in said} == {"b.predict"}
    assert chunks[-1].answer == "31415|31415"


class InThreads(dspy.Module):
    """Starts plain threads in its forward, in one of several ways."""

    def __init__(self, run: Callable[[list[Callable[[], str]]], list[str]]) -> None:
        super().__init__()
        self.run = run
        self.a = dspy.Predict("question -> draft")
        self.b = dspy.ChainOfThought("question, draft -> answer")

    def forward(self, question: str) -> Any:
        lm = dspy.settings.lm

        def first() -> str:
            with dspy.context(lm=lm):
                return str(self.a(question=question).draft)

        def second() -> str:
            with dspy.context(lm=lm):
                return str(self.b(question=question, draft="d").answer)

        return dspy.Prediction(answer="|".join(self.run([first, second])))


def thread_each(tasks: list[Callable[[], str]]) -> list[str]:
    results: dict[int, str] = {}

    class Own(threading.Thread):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def run(self) -> None:  # without a word to the base class
            results[self.number] = tasks[self.number]()

    plain = threading.Thread(target=lambda: results.update({1: tasks[1]()}))
    threads = [Own(0), plain]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[0], results[1]]


def own_pool(tasks: list[Callable[[], str]]) -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda task: task(), tasks))


def pool_of_processing(tasks: list[Callable[[], str]]) -> list[str]:
    with ThreadPool(2) as pool:
        return pool.map(lambda task: task(), tasks)


def nested_pools(tasks: list[Callable[[], str]]) -> list[str]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(own_pool, tasks).result()


def event_loop(tasks: list[Callable[[], str]]) -> list[str]:
    async def everything() -> list[str]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, task) for task in tasks))

    return asyncio.run(everything())


SHARED_POOL = ThreadPoolExecutor(3)


def shared_pool(tasks: list[Callable[[], str]]) -> list[str]:
    return [future.result() for future in [SHARED_POOL.submit(task) for task in tasks]]


KINDS = [thread_each, own_pool, pool_of_processing, nested_pools, event_loop, shared_pool]


@pytest.mark.parametrize("run", KINDS, ids=lambda run: run.__name__)
def test_plain_threads_started_in_forward_see_the_policy_of_their_call(run, echoing) -> None:
    program = InThreads(run)
    attach(program)
    with use_policy(rule(5)), record_trace() as calls, meter() as usage:
        assert program(question="q").answer == "5|5"
    assert sorted(call.route for call in calls) == ["a", "b.predict"]
    assert usage.total().calls == 2
    assert program(question="q").answer == "none|none"


@pytest.mark.parametrize("run", KINDS, ids=lambda run: run.__name__)
def test_many_calls_that_start_plain_threads_do_not_mix_policies(run, echoing) -> None:
    program = InThreads(run)
    attach(program)

    def one(number: int) -> str:
        with dspy.context(lm=echoing), use_policy(rule(number)):
            return str(program(question="q").answer)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(40)))
    assert answers == [f"{i}|{i}" for i in range(40)]


def test_in_plain_threads_the_predictors_own_policy_is_the_fallback(echoing) -> None:
    program = InThreads(own_pool)
    attach(program)
    set_policy(program, rule(9))
    assert program(question="q").answer == "9|9"
