"""Twelve pipelines as found in the wild: wrapped, run in every way, taught, kept, unwrapped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from catalogue import PIPELINES, RULE, Cast, Pipeline, cast
from dspy.primitives import python_interpreter
from dspy.primitives.code_interpreter import CodeInterpreterError
from wild import program_of_thought

from drpg_dspy import DRPG, NLPG, OnlineOptimizer, OnlinePolicyOptimizer, ZeroShot
from drpg_dspy.injection import routes
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.plain import from_plain, to_plain
from drpg_dspy.retrieval import HashingEmbedder

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]

Wrap = Callable[..., OnlinePolicyOptimizer]


@pytest.fixture(params=list(PIPELINES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pipeline(name: str) -> Pipeline:
    return PIPELINES[name]


@pytest.fixture
def models(pipeline: Pipeline) -> Iterator[Cast]:
    """The models in force; their prompts are the program's own from here on."""
    models = cast(pipeline)
    with dspy.context(lm=models.small):
        yield models


@pytest.fixture
def wrap(pipeline: Pipeline, models: Cast, tmp_path: Path) -> Iterator[Wrap]:
    opened = []

    def make(optimizer: OnlineOptimizer | None = None, **options: Any) -> OnlinePolicyOptimizer:
        memory = SQLiteMemory(tmp_path / f"{len(opened)}.sqlite", HashingEmbedder())
        program = pipeline.build(models)
        models.forget()
        opened.append(
            OnlinePolicyOptimizer(program, optimizer or ZeroShot(), memory=memory, **options)
        )
        return opened[-1]

    yield make
    for online in opened:
        online.close()


def plain_prompts(pipeline: Pipeline, models: Cast, n: int = 1) -> list[str]:
    """Return what the unwrapped program sends for its n-th call."""
    program = pipeline.build(models)
    models.forget()
    program(**pipeline.inputs(n))
    sent = models.texts()
    models.forget()
    return sent


def plainly(values: Any) -> Any:
    """Return values as a memory gives them back."""
    return from_plain(to_plain(values))


def without_id(prediction: dspy.Prediction) -> dict[str, Any]:
    return {key: value for key, value in prediction.items() if key != "rollout_id"}


# -- running -----------------------------------------------------------------------------------


def test_a_wrapped_call_is_the_programs_own(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    program = pipeline.build(models)
    models.forget()
    expected, sent = program(**pipeline.inputs(1)), models.texts()
    online = wrap()
    prediction = online(**pipeline.inputs(1))

    assert models.texts() == sent
    assert len(sent) == pipeline.lm_calls
    assert without_id(prediction) == without_id(expected)
    rollout = online.memory.rollout(prediction.rollout_id)
    assert {call.route for call in rollout.trace} == set(pipeline.routes)
    assert rollout.usage.calls == pipeline.lm_calls
    assert online.unrecorded == 0


async def test_an_async_call_is_recorded(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    sent = plain_prompts(pipeline, models)
    online = wrap()
    prediction = await online.acall(**pipeline.inputs(1))

    assert models.texts() == sent
    assert online.memory.rollout(prediction.rollout_id).usage.calls == pipeline.lm_calls


async def test_a_streamed_call_is_recorded(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    sent = plain_prompts(pipeline, models)
    online = wrap()
    chunks = [chunk async for chunk in dspy.streamify(online)(**pipeline.inputs(1))]

    prediction = chunks[-1]
    assert isinstance(prediction, dspy.Prediction)
    assert len(chunks) > 1
    assert models.texts() == sent
    assert online.memory.rollout(prediction.rollout_id).usage.calls == pipeline.lm_calls


def test_threads_keep_their_calls_apart(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    online = wrap()
    settings = dspy.settings.copy()

    def one(n: int) -> dspy.Prediction:
        with dspy.context(**settings):
            return online(**pipeline.inputs(n))

    with ThreadPoolExecutor(4) as pool:
        in_threads = list(pool.map(one, range(6)))
    jobs = [(online, pipeline.inputs(n)) for n in range(6)]
    parallel = dspy.Parallel(num_threads=4, disable_progress_bar=True)
    in_parallel = parallel(jobs)
    assert online.unrecorded == 0
    for n, prediction in [*enumerate(in_threads), *enumerate(in_parallel)]:
        rollout = online.memory.rollout(prediction.rollout_id)
        assert rollout.inputs == plainly(pipeline.inputs(n))
        assert len(rollout.trace) == pipeline.lm_calls
    assert len({p.rollout_id for p in [*in_threads, *in_parallel]}) == 12


def test_dspy_evaluate_scores_and_records_it(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    online = wrap()
    devset = [
        dspy.Example(**pipeline.inputs(n), wanted=n).with_inputs(*pipeline.inputs(n))
        for n in range(4)
    ]
    evaluate = dspy.Evaluate(
        devset=devset, num_threads=2, display_progress=False, metric=lambda e, p: bool(p.rollout_id)
    )

    assert evaluate(online).score == 100.0
    assert online.memory.count_rollouts() == 4


# -- learning ----------------------------------------------------------------------------------


def test_drpg_learns_and_its_policy_reaches_every_prompt(
    pipeline: Pipeline, models: Cast, wrap: Wrap
) -> None:
    online = wrap(DRPG(k=2, feedback_text=True))
    first = online(**pipeline.inputs(1))
    online.feedback(first.rollout_id, score=0.0, text="Not our style.")
    models.forget()
    second = online(**pipeline.inputs(2))

    assert len(models.texts()) == pipeline.lm_calls
    assert all(RULE in text for text in models.texts())
    rollout = online.memory.rollout(second.rollout_id)
    assert {r: p.text for r, p in rollout.guidance.policies.items()} == dict.fromkeys(
        routes(online.program), f"- {RULE}"
    )
    assert "drpg" not in json.dumps(to_plain(rollout.inputs))
    assert not rollout.guidance.counts.get("propose_failed")


async def test_the_policy_reaches_async_and_streamed_calls_too(
    pipeline: Pipeline, models: Cast, wrap: Wrap
) -> None:
    online = wrap(DRPG(k=2, feedback_text=True))
    first = online(**pipeline.inputs(1))
    online.feedback(first.rollout_id, score=0.0, text="Not our style.")
    models.forget()
    await online.acall(**pipeline.inputs(2))
    async for _ in dspy.streamify(online)(**pipeline.inputs(3)):
        pass

    assert len(models.texts()) == 2 * pipeline.lm_calls
    assert all(RULE in text for text in models.texts())


def test_right_answers_are_shown_as_examples(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    online = wrap(DRPG(k=2))
    first = online(**pipeline.inputs(1))
    online.feedback(first.rollout_id, score=1.0)
    models.forget()
    second = online(**pipeline.inputs(2))

    guidance = online.memory.rollout(second.rollout_id).guidance
    assert set(guidance.shots) == set(pipeline.routes)
    assert len(models.texts()) == pipeline.lm_calls


def test_nlpg_corrects_each_module_by_itself(pipeline: Pipeline, models: Cast, wrap: Wrap) -> None:
    online = wrap(NLPG(window=1, gate=None))
    for number, route in enumerate(pipeline.routes):
        prediction = online(**pipeline.inputs(number))
        online.feedback(prediction.rollout_id, score=0.0, text=f"The fault is in <{route}>.")
        coaching = [text for text in models.small.texts() if "You coach" in text]
        assert not any("[image " in text for text in coaching)  # the coach may be text-only
        models.forget()
        prediction = online(**pipeline.inputs(number + 1))
        policies = online.memory.rollout(prediction.rollout_id).guidance.policies
        assert {r for r, policy in policies.items() if policy.rules} == set(
            pipeline.routes[: number + 1]
        )
    assert len(models.texts()) == pipeline.lm_calls
    assert all(RULE in text for text in models.texts())


def test_a_metric_sees_the_programs_own_types_whenever_labels_come(
    pipeline: Pipeline, models: Cast, wrap: Wrap
) -> None:
    seen: list[Any] = []

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        seen.append(prediction[pipeline.output])
        return 1.0

    online = wrap(metric=metric)
    at_once = online(**pipeline.inputs(1), labels={"wanted": 1})
    late = online(**pipeline.inputs(1))
    online.feedback(late.rollout_id, labels={"wanted": 1})

    assert [type(value) for value in seen] == [type(at_once[pipeline.output])] * 2
    assert seen[0] == seen[1]


# -- what is special about one of them ---------------------------------------------------------


@pytest.mark.parametrize("name", ["streaming chat"])
async def test_a_chat_streams_its_reply_under_the_policy(
    pipeline: Pipeline, models: Cast, wrap: Wrap
) -> None:
    online = wrap(DRPG(k=2, feedback_text=True))
    first = online(**pipeline.inputs(1))
    online.feedback(first.rollout_id, score=0.0, text="Not our style.")
    models.forget()
    stream = dspy.streamify(
        online,
        stream_listeners=[dspy.streaming.StreamListener(signature_field_name="reply")],
        is_async_program=True,
    )
    *chunks, prediction = [item async for item in stream(**pipeline.inputs(3))]

    said = [chunk.chunk for chunk in chunks if isinstance(chunk, dspy.streaming.StreamResponse)]
    assert "".join(said) == prediction.reply == "Of course I do."
    assert online.memory.rollout(prediction.rollout_id).outputs == {"reply": prediction.reply}
    prompt = models.small.prompts[-1]
    turns = [m["content"] for m in prompt if m["role"] == "user"]
    assert [RULE in turn for turn in turns] == [False, False, False, True]


@pytest.mark.parametrize("name", ["ProgramOfThought"])
def test_without_deno_program_of_thought_fails_as_in_plain_dspy(
    models: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_interpreter, "_find_deno_executable", lambda: "no-such-program")
    with pytest.raises(CodeInterpreterError, match="Deno") as plain:
        program_of_thought.build()(question="6 x 7?")
    memory = SQLiteMemory(tmp_path / "memory.sqlite", HashingEmbedder())
    with OnlinePolicyOptimizer(program_of_thought.build(), ZeroShot(), memory=memory) as online:
        with pytest.raises(CodeInterpreterError) as wrapped:
            online(question="6 x 7?")
        rollout = memory.rollout(online.last_rollout_id)

    assert str(wrapped.value) == str(plain.value)
    assert rollout.failed
    assert "Deno" in rollout.error


@pytest.mark.parametrize("name", [name for name in PIPELINES if name.startswith("compiled")])
def test_what_an_optimizer_compiled_survives_under_a_policy(
    pipeline: Pipeline, models: Cast, wrap: Wrap
) -> None:
    program = pipeline.build(models)
    kept = {
        name: (
            p.signature.instructions,
            [d for d in p.demos if {*p.signature.output_fields} & {*d.keys()}],
        )
        for name, p in program.named_predictors()
    }
    assert any(demos or "with care" in text for text, demos in kept.values())
    online = wrap(DRPG(k=2, feedback_text=True))
    first = online(**pipeline.inputs(1))
    online.feedback(first.rollout_id, score=0.0, text="Not our style.")
    models.forget()
    online(**pipeline.inputs(2))

    for text, (instructions, demos) in zip(models.texts(), kept.values(), strict=True):
        assert instructions.splitlines()[0] in text
        assert RULE in text
        for demo in demos:
            assert demo.ticket in text


# -- keeping -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Teach and save every pipeline; have one other process go on with all of them."""
    root = tmp_path_factory.mktemp("learners")
    taught: dict[str, Any] = {}
    for number, (name, pipeline) in enumerate(PIPELINES.items()):
        models = cast(pipeline)
        with dspy.context(lm=models.small):
            memory = SQLiteMemory(root / f"{number}.sqlite", HashingEmbedder())
            optimizer = DRPG(k=2, feedback_text=True)
            with OnlinePolicyOptimizer(pipeline.build(models), optimizer, memory=memory) as online:
                first = online(**pipeline.inputs(1))
                online.feedback(first.rollout_id, score=0.0, text="Not our style.")
                online.save(root / str(number) / "saved")
                models.forget()
                answer = online(**pipeline.inputs(2))[pipeline.output]
                taught[name] = {"prompts": models.texts(), "answer": repr(answer)}
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, here / "fresh_process.py", root],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return {"here": taught, "there": json.loads(done.stdout.splitlines()[-1]), "root": root}


def test_a_fresh_process_goes_on_where_this_one_saved(
    name: str, pipeline: Pipeline, continued: dict[str, Any]
) -> None:
    here, there = continued["here"][name], continued["there"][name]

    assert there["prompts"] == here["prompts"]
    assert all(RULE in text for text in there["prompts"])
    assert there["answer"] == here["answer"]
    assert there["experiences"] == 2


def test_what_the_fresh_process_learned_comes_back(
    name: str, continued: dict[str, Any], wrap: Wrap
) -> None:
    folder = continued["root"] / str(list(PIPELINES).index(name)) / "saved again"
    online = wrap(DRPG(k=2, feedback_text=True))
    online.load(folder)

    assert (online.memory.count("wrong"), online.memory.count("correct")) == (1, 1)


# -- unwrapping --------------------------------------------------------------------------------


def anatomy(program: dspy.Module) -> dict[str, Any]:
    """Return everything that a predictor is, by name."""
    return {
        name: (
            type(predictor),
            dict(predictor.__dict__),
            json.dumps(predictor.dump_state(), default=repr) if predictor.lm is None else "",
        )
        for name, predictor in program.named_predictors()
    }


def test_unwrapped_it_is_the_users_program_again(
    pipeline: Pipeline, models: Cast, tmp_path: Path
) -> None:
    expected = plain_prompts(pipeline, models, 3)
    program = pipeline.build(models)
    before = anatomy(program)
    members = dict(program.__dict__)
    memory = SQLiteMemory(tmp_path / "memory.sqlite", HashingEmbedder())
    online = OnlinePolicyOptimizer(program, DRPG(k=2, feedback_text=True), memory=memory)
    taught = online(**pipeline.inputs(1))
    online.feedback(taught.rollout_id, score=0.0, text="Not our style.")
    online(**pipeline.inputs(2))
    models.forget()
    plain = online.unwrap()

    assert plain is program
    assert dict(program.__dict__) == members
    assert anatomy(program) == before
    program(**pipeline.inputs(3))
    assert models.texts() == expected
