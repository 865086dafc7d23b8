"""DSPy's optimizers on an attached program: they run, the policy stays, instructions are theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.teleprompt import (
    COPRO,
    GEPA,
    SIMBA,
    BootstrapFewShot,
    BootstrapFewShotWithRandomSearch,
    InferRules,
    LabeledFewShot,
    MIPROv2,
)

from drpg_dspy.injection import attach, routes, set_policy, use_policy
from drpg_dspy.testing.scripted import ScriptedLM

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.parametrize("placement", ["input", "instructions"]),
]

NEW = "Improved instructions."
TRAINSET = [dspy.Example(question=f"q{i}", answer="x").with_inputs("question") for i in range(6)]


class Program(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.think = dspy.ChainOfThought("question -> answer")

    def forward(self, question: str) -> Any:
        return self.think(question=question)


def metric(gold: Any, pred: Any, trace: Any = None, name: Any = None, local: Any = None) -> Any:
    """Prefer the improved instructions, as far as a prediction can tell."""
    return dspy.Prediction(score=float(pred.answer == gold.answer), feedback="Say more.")


def exact(gold: Any, pred: Any, trace: Any = None) -> float:
    return float(pred.answer == gold.answer)


def better(messages: list[dict[str, str]]) -> str:
    """Answer right only under the improved instructions."""
    return "x" if NEW in messages[0]["content"] else "wrong"


def bootstrap(student: dspy.Module, lm: Any) -> dspy.Module:
    return BootstrapFewShot(metric=metric, max_bootstrapped_demos=2).compile(
        student, trainset=TRAINSET
    )


def random_search(student: dspy.Module, lm: Any) -> dspy.Module:
    return BootstrapFewShotWithRandomSearch(
        metric=metric, num_candidate_programs=1, num_threads=2
    ).compile(student, trainset=TRAINSET, valset=TRAINSET)


def labeled(student: dspy.Module, lm: Any) -> dspy.Module:
    return LabeledFewShot(k=2).compile(student, trainset=TRAINSET)


def copro(student: dspy.Module, lm: Any) -> dspy.Module:
    optimizer = COPRO(metric=exact, breadth=2, depth=1)
    quiet = {"num_threads": 1, "display_progress": False}
    return optimizer.compile(student, trainset=TRAINSET, eval_kwargs=quiet)


def mipro(student: dspy.Module, lm: Any) -> dspy.Module:
    return MIPROv2(
        metric=metric, auto=None, num_candidates=3, max_bootstrapped_demos=1, max_labeled_demos=1,
        prompt_model=lm, task_model=lm, num_threads=2,
    ).compile(
        student, trainset=TRAINSET, valset=TRAINSET, num_trials=4, minibatch=False
    )  # fmt: skip


def gepa(student: dspy.Module, lm: Any) -> dspy.Module:
    return GEPA(
        metric=metric, max_metric_calls=30, reflection_lm=lm, num_threads=1, seed=1,
        reflection_minibatch_size=2,
    ).compile(student, trainset=TRAINSET, valset=TRAINSET)  # fmt: skip


def simba(student: dspy.Module, lm: Any) -> dspy.Module:
    return SIMBA(
        metric=lambda g, p: exact(g, p), bsize=4, num_candidates=2, max_steps=2,
        max_demos=2, num_threads=2,
    ).compile(student, trainset=TRAINSET)  # fmt: skip


def infer_rules(student: dspy.Module, lm: Any) -> dspy.Module:
    return InferRules(
        metric=metric, num_candidates=1, num_rules=1, num_threads=1, max_bootstrapped_demos=1
    ).compile(student, trainset=TRAINSET, valset=TRAINSET)


OPTIMIZERS: list[Callable[[dspy.Module, Any], dspy.Module]] = [
    bootstrap, random_search, labeled, copro, mipro, gepa, simba,
]  # fmt: skip


def make(make_lm: Callable[..., ScriptedLM]) -> ScriptedLM:
    return make_lm(
        answer=better, proposed_instruction=NEW, proposed_prefix_for_output_field="Answer:",
        new_instruction=NEW, module_advice={"think.predict": "say x"},
    )  # fmt: skip


def task_prompts(lm: ScriptedLM) -> list[str]:
    return [
        "\n\n".join(m["content"] for m in prompt)
        for prompt in lm.prompts
        if re.search(r"\[\[ ## question ## \]\]\nq\d", prompt[-1]["content"])
        and "`[[ ## reasoning ## ]]`, then `[[ ## answer ## ]]`" in prompt[-1]["content"]
    ]


@pytest.mark.parametrize("compile_", OPTIMIZERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("own", ["", "- own rule"])
def test_an_attached_program_can_be_compiled_and_keeps_its_policy(
    compile_, own, placement, make_lm
) -> None:
    lm = make(make_lm)
    student = Program()
    attach(student, placement=placement)
    set_policy(student, {"think.predict": own})
    with dspy.context(lm=lm):
        result = compile_(student, lm)
        compiling = task_prompts(lm)
        result(question="q9")
        with use_policy({"think.predict": "- learned later"}):
            result(question="q9")
    kept, later = lm.texts()[-2:]
    assert all(("- own rule" in text) == bool(own) for text in [*compiling, kept])
    assert kept.count("- own rule") == bool(own)
    assert later.count("- learned later") == 1
    assert "- own rule" not in later
    with use_policy({"think.predict": ""}):
        signature = routes(result)["think.predict"].signature
        assert list(signature.fields) == ["question", "reasoning", "answer"]
        assert "own rule" not in signature.instructions
    assert list(routes(student)) == ["think.predict"]


@pytest.mark.parametrize("compile_", [copro, mipro, gepa], ids=lambda f: f.__name__)
def test_instructions_are_optimised_apart_from_the_policy(compile_, placement, make_lm) -> None:
    lm = make(make_lm)
    student = Program()
    attach(student, placement=placement)
    set_policy(student, {"think.predict": "- own rule"})
    with dspy.context(lm=lm):
        result = compile_(student, lm)
    with use_policy({"think.predict": ""}):
        assert routes(result)["think.predict"].signature.instructions.startswith(NEW)


@pytest.mark.parametrize("own", ["", "- own rule"])
def test_rules_written_into_a_signature_in_place_are_not_lost(own, placement, make_lm) -> None:
    lm = make_lm(natural_language_rules="Say x always.")
    student = Program()
    attach(student, placement=placement)
    set_policy(student, {"think.predict": own})
    with dspy.context(lm=lm):
        result = infer_rules(student, lm)
        result(question="q9")
    assert "Say x always." in lm.texts()[-1]
    assert lm.texts()[-1].count("- own rule") == bool(own)


def test_the_prompts_of_mipro_do_not_show_our_classes(placement, make_lm) -> None:
    lm = make(make_lm)
    student = Program()
    attach(student, placement=placement)
    with dspy.context(lm=lm):
        mipro(student, lm)
    assert not [text for text in lm.texts() if "drpg" in text.lower() or "Injected" in text]


def test_the_reflection_of_gepa_sees_the_policy(placement, make_lm) -> None:
    lm = make(make_lm)
    student = Program()
    attach(student, placement=placement)
    set_policy(student, {"think.predict": "- own rule"})
    with dspy.context(lm=lm):
        gepa(student, lm)
    reflections = [p[-1]["content"] for p in lm.prompts if "new_instruction" in p[0]["content"]]
    assert reflections
    shown = '"policy": "- own rule"' if placement == "input" else "- own rule"
    assert all(shown in text for text in reflections)
