"""Every method under the protocol: what it adapts by, what it shows, and that it resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy.constraints import Operation, Schedule
from drpg_dspy.continual import (
    BaseLM,
    Compiled,
    InContext,
    Method,
    Prompt,
    Protocol,
    RegistryLearner,
    RunLog,
    SelfPlayLearner,
    StepContext,
    gepa,
    miprov2,
    run_protocol,
)
from drpg_dspy.optimizers import DRPG, ConstraintAdapter, SelfStreamICL, ZeroShot
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing.scripted import ScriptedLM
from programs import recap

METHODS: dict[str, Callable[[], Method]] = {
    "base": lambda: BaseLM(recap.program()),
    "icl": lambda: InContext(recap.program()),
    "gepa": lambda: Compiled(recap.program(), gepa(2), name="gepa"),
    "miprov2": lambda: Compiled(recap.program(), miprov2(2, 1), name="miprov2"),
    "self-play": lambda: SelfPlayLearner(
        recap.program(), SelfStreamICL(k=2), embedder=HashingEmbedder()
    ),
    "drpg": lambda: SelfPlayLearner(recap.program(), DRPG(k=2), embedder=HashingEmbedder()),
    "adapter": lambda: RegistryLearner(
        recap.program(), ConstraintAdapter(), embedder=HashingEmbedder()
    ),
    "adapter without repair": lambda: RegistryLearner(
        recap.program(), ConstraintAdapter(repair=0), embedder=HashingEmbedder()
    ),
}
TEA = Prompt("p", "What is tea?")


def context(plan: Schedule, step: int) -> StepContext:
    return StepContext.at(plan, step, 2)


def adapted(method: Method, plan: Schedule, steps: int) -> Method:
    for step in range(steps):
        method.adapt(context(plan, step))
    return method


@pytest.mark.parametrize("name", METHODS)
def test_a_method_runs_through_a_schedule_and_resumes_from_its_state(
    name: str, tmp_path: Path, protocol: Protocol, plan: Schedule, lm: ScriptedLM
) -> None:
    run = RunLog(tmp_path / "run", {"optimizer": name})
    half = Protocol(Schedule("short", plan.steps[:2]), protocol.prompts, protocol.check)
    run_protocol(METHODS[name], half, run, lm)
    run_protocol(METHODS[name], protocol, run, lm)  # a new instance goes on
    lines = list(run.lines())

    assert [line["error"] for line in lines] == [""] * 12
    assert [line["step"] for line in lines if line["kind"] == "adapt"] == [0, 1, 2, 3]
    opening = [line["answer"].split()[0] for line in lines if line["kind"] == "answer"]
    assert opening == ["Note"] * 4 + ["First"] * 4


@pytest.mark.parametrize("name", METHODS)
def test_no_test_prompt_is_seen_while_a_method_adapts(
    name: str, plan: Schedule, lm: ScriptedLM
) -> None:
    with dspy.context(lm=lm):
        adapted(METHODS[name](), plan, 4)

    assert TEA.text not in "\n".join(lm.texts())


@pytest.mark.parametrize("name", METHODS)
def test_answering_a_test_prompt_teaches_nothing(name: str, plan: Schedule, lm: ScriptedLM) -> None:
    with dspy.context(lm=lm):
        method = adapted(METHODS[name](), plan, 2)
        first = method.answer(TEA, plan.active(1))
        asked = lm.texts()[-1]
        again = method.answer(TEA, plan.active(1))

    assert first == again
    assert lm.texts()[-1] == asked


def test_base_lists_what_is_in_force_and_costs_no_adaptation(
    plan: Schedule, lm: ScriptedLM
) -> None:
    with dspy.context(lm=lm):
        adapted(METHODS["base"](), plan, 4).answer(TEA, plan.active(1))

    (prompt,) = lm.texts()
    assert 'must meet:\n- Start with the word "Note".\n- Under 6 words.' in prompt


def test_demonstrations_are_shown_for_texts_in_force_and_never_for_replaced_ones(
    plan: Schedule, lm: ScriptedLM
) -> None:
    with dspy.context(lm=lm):
        method = InContext(recap.program(), demos=3, per_change=1)
        adapted(method, plan, 2)
        before = method.answer(TEA, plan.active(1))
        method.adapt(context(plan, 2))
        after = method.answer(TEA, plan.active(2))

    assert before.shown == ("Note it is good", "Well it is good")
    assert after.shown == ("Well it is good", "First it is good")
    assert '"Note"' not in lm.texts()[-1]


def test_the_pool_of_demonstrations_is_bounded(
    plan: Schedule, lm: ScriptedLM, tmp_path: Path
) -> None:
    with dspy.context(lm=lm):
        method = adapted(InContext(recap.program(), pool=3, per_change=2), plan, 3)
        method.save(tmp_path)

    assert (tmp_path / "state.json").read_text().count('"response"') == 3


@pytest.mark.parametrize("name", ["gepa", "miprov2"])
def test_compiled_instructions_are_those_of_the_optimizer_and_stay_on_a_deletion(
    name: str, plan: Schedule, lm: ScriptedLM
) -> None:
    with dspy.context(lm=lm):
        method = adapted(METHODS[name](), plan, 3)
        before, asked = method.answer(TEA, plan.active(3)), len(lm.prompts)
        method.adapt(context(plan, 3))
        assert len(lm.prompts) == asked
        assert method.answer(TEA, plan.active(3)) == before


def test_compiled_instructions_are_cut_to_their_budget(plan: Schedule, lm: ScriptedLM) -> None:
    class Wordy:
        def learn(self, program: dspy.Module, *_: Any, **__: Any) -> Any:
            other = program.deepcopy()
            for predictor in other.predictors():
                predictor.signature = predictor.signature.with_instructions("word " * 900)
            return type("Learned", (), {"program": other})

    method = Compiled(recap.program(), lambda metric: Wordy(), name="wordy", max_tokens=10)
    with dspy.context(lm=lm):
        method.adapt(context(plan, 0))
        assert len(method.answer(TEA, ()).policy) <= 40


def test_self_play_learns_from_its_own_verdict_and_hears_of_deletions(
    plan: Schedule, lm: ScriptedLM
) -> None:
    method = SelfPlayLearner(recap.program(), ZeroShot(), embedder=HashingEmbedder())
    with dspy.context(lm=lm):
        adapted(method, plan, 4)
    told = [
        (rollout.id, feedback.score, feedback.text)
        for rollout, feedback in method.learner.memory.rollouts()
        if feedback is not None
    ]

    assert [name for name, _, _ in told] == ["play-0-0-0", "play-1-0-0", "play-2-0-0", "play-3-0-0"]
    assert told[0][1:] == (1.0, "The requirement 'Start with the word \"Note\".' is met. "
                                "Do what is asked.")  # fmt: skip
    # The self-judge says that the answer still follows what was withdrawn.
    assert told[3][1] == 0.0
    assert told[3][2].startswith("The requirement 'Under 6 words.' was withdrawn.")


def test_a_registry_shows_its_constraints_in_the_policy_and_not_in_the_prompt_too(
    plan: Schedule, lm: ScriptedLM
) -> None:
    with dspy.context(lm=lm):
        method = adapted(METHODS["adapter without repair"](), plan, 3)
        answer = method.answer(TEA, plan.active(2))

    assert answer.policy.count("Under 6 words.") == 1
    assert "Note" not in answer.policy
    assert lm.texts()[-1].count("Under 6 words.") == 1
    assert answer.text.startswith("First")


def test_repair_keeps_the_draft_on_record(plan: Schedule) -> None:
    def stubborn(messages: list[dict[str, str]]) -> str:
        return "[[ ## response ## ]]\nwell, this is no good\n\n[[ ## completed ## ]]"

    method = METHODS["adapter"]()
    with dspy.context(lm=ScriptedLM(stubborn)):
        method.adapt(context(plan, 0))
        answer = method.answer(TEA, plan.active(0))

    assert answer.first == "well, this is no good"
    assert answer.text.startswith("Note")


def test_only_an_optimizer_with_a_registry_is_served_as_one() -> None:
    assert RegistryLearner.serves(ConstraintAdapter())
    with pytest.raises(ValueError, match="no methods add, edit and delete"):
        RegistryLearner(recap.program(), ZeroShot())


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: InContext(recap.program(), demos=0), "demos must be a whole number"),
        (lambda: SelfPlayLearner(recap.program(), ZeroShot(), tasks=0), "tasks must be"),
        (lambda: Compiled(recap.program(), gepa(), name="gepa", max_tokens=0), "max_tokens"),
    ],
)
def test_arguments_out_of_range_are_refused(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


def test_an_operation_of_unknown_text_is_nothing_to_practise(lm: ScriptedLM) -> None:
    method = SelfPlayLearner(recap.program(), ZeroShot(), embedder=HashingEmbedder())
    with dspy.context(lm=lm):
        method.adapt(StepContext(0, (Operation("delete", "Length"),)))

    assert lm.prompts == []
