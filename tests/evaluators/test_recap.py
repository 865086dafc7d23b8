"""Records of a run become verdicts, costs and failures."""

from __future__ import annotations

import math
from typing import Any

import pytest

from drpg_dspy.constraints import Operation, RuleCheck, Schedule
from evaluators.continual import mean_satisfaction, unlearning_immediate
from evaluators.recap import default_verdicts, efficiency, failures, trajectory

PLAN = Schedule(
    "s",
    (
        (Operation("add", "Keyword", "Mention 'tea'."),),
        (Operation("add", "Length", "Under 4 words."),),
        (Operation("edit", "Length", "At least 4 words."), Operation("delete", "Keyword")),
    ),
)
PROMPTS = {"p": "What to drink?", "q": "What to eat?"}
SAID = {
    (0, "p"): "Tea.", (0, "q"): "Tea.",
    (1, "p"): "Hot tea.", (1, "q"): "Bread.",
    (2, "p"): "Hot tea.", (2, "q"): "I'm sorry, but I can't comply with that.",
}  # fmt: skip
USAGE = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 5}


def record(step: int, prompt: str, answer: str) -> dict[str, Any]:
    rules = RuleCheck()
    checks = [
        {
            "type": one.type,
            "text": one.text,
            "satisfied": rules.check(one.type, one.text, answer).satisfied,
        }
        for one in PLAN.active(step)
    ]
    for shadow in PLAN.shadows(step):
        one = shadow.constraint
        met = rules.check(one.type, one.text, answer).satisfied
        checks.append({"type": one.type, "text": one.text, "satisfied": met, "shadow": shadow.by})
    return {
        "kind": "answer", "step": step, "prompt": prompt, "answer": answer, "policy": "",
        "shown": [], "error": "", "seconds": 2.0, "usage": USAGE, "checks": checks,
    }  # fmt: skip


@pytest.fixture
def records() -> list[dict[str, Any]]:
    adapts = [
        {"kind": "adapt", "step": step, "seconds": 1.0, "usage": USAGE, "error": ""}
        for step in range(3)
    ]
    return [*adapts, *(record(step, prompt, said) for (step, prompt), said in SAID.items())]


def test_satisfaction_and_unlearning_come_from_the_records(records: list[dict[str, Any]]) -> None:
    defaults = default_verdicts({"p": "Water.", "q": "Bread."}, PROMPTS, PLAN)
    run = trajectory(records, PLAN, defaults)

    # Step 0: 1. Step 1: Keyword 0.5, Length 1. Step 2: Length 0 and 1 (the refusal is long).
    assert mean_satisfaction(run) == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert defaults["Keyword", "Mention 'tea'."] == {"p": 0.0, "q": 0.0}
    assert unlearning_immediate(run) == 0.0  # before 0.5, after 0.5, default 0


def test_without_default_answers_unlearning_is_not_known(records: list[dict[str, Any]]) -> None:
    assert math.isnan(unlearning_immediate(trajectory(records, PLAN)))


def test_costs_are_means_over_steps(records: list[dict[str, Any]]) -> None:
    cost = efficiency(records)

    assert (cost.steps, cost.answers, cost.adapt_seconds, cost.answer_seconds) == (3, 6, 1.0, 4.0)
    assert (cost.adapt_calls, cost.answer_calls, cost.tokens) == (1.0, 2.0, 9 * 15)
    assert (cost.failed, cost.not_judged, cost.checks) == (0, 0, 2 + 4 + 6)


def test_failures_are_counted_over_what_was_looked_at(records: list[dict[str, Any]]) -> None:
    seen = failures(records, PLAN, PROMPTS)

    assert (seen.found["refusal"], seen.looked["refusal"]) == (1, 6)
    assert (seen.found["keyword_persists"], seen.looked["keyword_persists"]) == (1, 2)
    assert (seen.found["specification_lock"], seen.looked["specification_lock"]) == (1, 2)
    assert seen.share("refusal") == pytest.approx(1 / 6)
    assert math.isnan(seen.share("inert_growth"))


def test_a_policy_that_only_lists_the_constraints_in_force_does_not_grow(
    records: list[dict[str, Any]],
) -> None:
    for one in records:
        if one["kind"] == "answer":
            one["policy"] = "\n".join(f"- {each.text}" for each in PLAN.active(one["step"]))

    assert failures(records, PLAN, PROMPTS, records).found["inert_growth"] == 0


def test_a_written_policy_that_grows_without_effect_is_found(records: list[dict[str, Any]]) -> None:
    for one in records:
        if one["kind"] == "answer":
            one["policy"] = "- Be kind to the reader.\n" * (one["step"] + 1)

    assert failures(records, PLAN, PROMPTS, records).found["inert_growth"] == 1
