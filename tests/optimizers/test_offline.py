from __future__ import annotations

import re
from typing import Any

import dspy
import pytest
from dspy.teleprompt import Teleprompter

from drpg_dspy.exceptions import BudgetSpent
from drpg_dspy.optimizers.offline import Offline, offline_metric
from drpg_dspy.streaming import Budget
from drpg_dspy.testing.scripted import ScriptedLM, fields
from drpg_dspy.types import Usage
from drpg_dspy.usage import Purse, paid_from

TRAIN = [
    dspy.Example(id=str(n), question=f"What follows {n}?", gold=str(n + 1)).with_inputs("question")
    for n in range(6)
]
RIGHT = "Add one."


def reply(messages: list[dict[str, str]]) -> str:
    n = int(re.findall(r"What follows (\d+)", messages[-1]["content"])[-1])
    told = RIGHT in messages[0]["content"]
    return fields(answer=str(n + 1 if told else n))


def metric(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(prediction.answer == example.gold)


class TwoInstructions(Teleprompter):
    """Evaluates two candidates and returns the better one, as larger optimizers do."""

    def compile(self, student: Any, *, trainset: list[Any], **_: Any) -> Any:
        evaluate = dspy.Evaluate(devset=trainset, metric=metric, num_threads=1)
        scored = []
        for instructions in (RIGHT, "Think."):
            candidate = student.deepcopy()
            candidate.signature = candidate.signature.with_instructions(instructions)
            scored.append((evaluate(candidate).score, candidate))
        return max(scored, key=lambda pair: pair[0])[1]


def test_what_an_optimizer_returns_is_kept_and_the_student_is_unchanged() -> None:
    program, lm = dspy.Predict("question -> answer"), ScriptedLM(reply)
    before = program.signature.instructions

    with dspy.context(lm=lm):
        learned = Offline(TwoInstructions()).learn(program, TRAIN)

    assert learned.program.signature.instructions == RIGHT
    assert learned.stopped == ""
    assert learned.usage.calls == len(lm.prompts) == 12
    assert (learned.tried.evaluations, learned.tried.score) == (2, 1.0)
    assert program.signature.instructions == before


def test_an_optimizer_out_of_budget_gives_the_best_candidate_that_it_had_evaluated() -> None:
    program, lm = dspy.Predict("question -> answer"), ScriptedLM(reply)
    purse = Purse(Budget(lm_calls=8).exceeded)

    with dspy.context(lm=lm):
        learned = Offline(TwoInstructions()).learn(program, TRAIN, purse=purse)

    assert learned.program.signature.instructions == RIGHT
    assert "8 LM calls" in learned.stopped
    assert len(lm.prompts) == learned.usage.calls == 8
    assert str(learned.tried) == "best of 1 evaluations: 100.0% of 6 training examples"


def test_an_optimizer_stopped_before_any_evaluation_gives_the_student() -> None:
    program, lm = dspy.Predict("question -> answer"), ScriptedLM(reply)

    with dspy.context(lm=lm):
        learned = Offline(TwoInstructions()).learn(
            program, TRAIN, purse=Purse(Budget(lm_calls=5).exceeded)
        )

    assert learned.program is not program
    assert learned.program.dump_state() == program.dump_state()
    assert learned.tried.program is None
    assert len(lm.prompts) == 5


@pytest.mark.parametrize("threads", [1, 4])
def test_no_more_calls_are_sent_than_a_purse_holds(threads: int) -> None:
    lm, purse = ScriptedLM(reply), Purse(Budget(lm_calls=4).exceeded)
    evaluate = dspy.Evaluate(devset=TRAIN * 3, metric=metric, num_threads=threads)

    with dspy.context(lm=lm), paid_from(purse), pytest.raises(BudgetSpent, match="4 LM calls"):
        evaluate(dspy.Predict("question -> answer"))

    assert len(lm.prompts) == purse.total().calls == 4
    assert purse.refused >= 1


def test_a_purse_remembers_what_was_spent_of_it_before() -> None:
    lm = ScriptedLM(reply)
    purse = Purse(Budget(lm_calls=4).exceeded, Usage(calls=3))

    with dspy.context(lm=lm), paid_from(purse):
        program = dspy.Predict("question -> answer")
        program(question="What follows 1?")
        with pytest.raises(BudgetSpent):
            program(question="What follows 2?")

    assert len(lm.prompts) == 1


def test_a_cached_answer_costs_a_purse_nothing() -> None:
    lm = ScriptedLM(reply, model="scripted/purse-cache", cache=True)
    purse = Purse(Budget(lm_calls=2).exceeded)

    with dspy.context(lm=lm), paid_from(purse):
        program = dspy.Predict("question -> answer")
        for _ in range(3):
            program(question="What follows 77?")

    assert purse.total().calls == 1


def test_a_program_that_swallows_every_exception_does_not_go_on_with_an_empty_purse() -> None:
    class Stubborn(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            try:
                return self.predict(question=question)
            except Exception:  # noqa: BLE001 - what this program is there to show
                return dspy.Prediction(answer="1")

    purse = Purse(Budget(lm_calls=0).exceeded)
    with dspy.context(lm=ScriptedLM(reply)), paid_from(purse), pytest.raises(BudgetSpent):
        Stubborn()(question="What follows 0?")


def test_the_metric_handed_on_is_understood_by_each_of_dspys_optimizers() -> None:
    right, wrong = dspy.Prediction(answer="1"), dspy.Prediction(answer="5")

    number = offline_metric(metric)
    graded = offline_metric(metric, graded=True)

    assert (number(TRAIN[0], right), number(TRAIN[0], wrong)) == (1.0, 0.0)
    assert number(TRAIN[0], wrong, []) is False
    assert graded(TRAIN[0], wrong, None, None, None).feedback == "The answer scored 0 of 1."


def test_a_metric_that_raises_scores_nothing_and_says_why() -> None:
    def broken(example: Any, prediction: Any) -> float:
        raise KeyError("gold answer")

    verdict = offline_metric(broken, graded=True)(TRAIN[0], dspy.Prediction(answer="1"))

    assert verdict.score == 0.0
    assert "gold answer" in verdict.feedback


@pytest.mark.parametrize("given", [None, "gepa", dspy.MIPROv2])
def test_what_is_no_optimizer_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="one of DSPy's optimizers"):
        Offline(given)


def test_an_empty_training_set_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one training example"):
        Offline(TwoInstructions()).learn(dspy.Predict("question -> answer"), [])
