from __future__ import annotations

import math

from drpg_dspy.tracking.metrics import ROLLING_WINDOW, RunningMetrics
from drpg_dspy.types import Feedback, Guidance, Policy, Rollout, Rule, Usage


def rollout(n: int, **changes: object) -> Rollout:
    values: dict = {"id": f"r{n}", "step": n, "inputs": {}, "outputs": {"a": 1}} | changes
    return Rollout(**values)


def judged(*scores: float) -> tuple[RunningMetrics, dict[str, float]]:
    metrics, last = RunningMetrics(), rollout(0)
    for n, score in enumerate(scores, 1):
        last = rollout(n)
        metrics.add_rollout(last)
        metrics.set_feedback(last.id, Feedback(score))
    return metrics, metrics.figures(last, Feedback(scores[-1]))


def test_scores_are_absent_until_something_was_judged() -> None:
    metrics = RunningMetrics()
    metrics.add_rollout(rollout(1))
    figures = metrics.figures(rollout(1), None)
    assert not {"score", "prequential_score", "rolling_score"} & figures.keys()
    assert figures["judged"] == figures["not_judged"] == 0


def test_the_rolling_score_looks_at_the_last_fifty_verdicts() -> None:
    _, figures = judged(*[0.0] * 30, *[1.0] * ROLLING_WINDOW)
    assert figures["rolling_score"] == 1.0
    assert figures["prequential_score"] == ROLLING_WINDOW / 80


def test_a_step_without_verdict_is_counted_and_leaves_the_mean_alone() -> None:
    _, figures = judged(1.0, math.nan, 0.0)
    assert figures["prequential_score"] == 0.5
    assert (figures["judged"], figures["not_judged"], figures["memory_size"]) == (2, 1, 2)


def test_an_uninformative_verdict_counts_in_the_score_and_not_in_memory() -> None:
    metrics = RunningMetrics()
    metrics.set_feedback("a", Feedback(1.0, informative=False))
    figures = metrics.figures(rollout(1), None)
    assert (figures["judged"], figures["memory_size"]) == (1, 0)


def test_a_revised_verdict_replaces_the_first_and_a_retraction_removes_it() -> None:
    metrics, _ = judged(1.0, 0.0, 1.0)
    metrics.set_feedback("r2", Feedback(1.0))
    assert metrics.figures(rollout(2), None)["prequential_score"] == 1.0
    metrics.set_feedback("r2", None)
    figures = metrics.figures(rollout(2), None)
    assert (figures["judged"], figures["prequential_score"]) == (2, 1.0)


def test_a_retraction_brings_an_older_verdict_back_into_the_window() -> None:
    metrics, _ = judged(0.0, *[1.0] * ROLLING_WINDOW)
    metrics.set_feedback("r2", None)
    figures = metrics.figures(rollout(2), None)
    assert figures["rolling_score"] == (ROLLING_WINDOW - 1) / ROLLING_WINDOW


def test_totals_hold_answering_policy_writing_and_learning() -> None:
    metrics = RunningMetrics()
    one = rollout(1, usage=Usage(1, 100, 10), guidance=Guidance(usage=Usage(2, 30, 3)), seconds=2.0)
    metrics.add_rollout(one)
    metrics.set_feedback("r1", Feedback(1.0, usage=Usage(1, 7, 1), error="LM away"))
    figures = metrics.figures(one, None)
    assert (figures["prompt_tokens"], figures["completion_tokens"]) == (137, 14)
    assert (figures["lm_calls"], figures["step_lm_calls"]) == (4, 3)
    assert (figures["step_tokens"], figures["seconds"]) == (143, 2.0)
    assert figures["learning_failed"] == 1


def test_failures_counts_and_policy_length_are_reported() -> None:
    metrics = RunningMetrics()
    policy = Policy("p", (Rule("abc"),))
    guidance = Guidance({"p": policy}, counts={"odd": 2})
    for n in (6, 7):
        one = rollout(n, outputs=None, error="Boom", guidance=guidance)
        metrics.add_rollout(one)
    figures = metrics.figures(one, None)
    assert (figures["failed"], figures["odd"], figures["policy_chars"]) == (2, 4, len("- abc"))
    assert figures["steps"] == 7


def test_a_failed_rollout_is_judged_and_never_becomes_an_experience() -> None:
    metrics = RunningMetrics()
    metrics.add_rollout(rollout(1, outputs=None))
    metrics.set_feedback("r1", Feedback(0.0))
    figures = metrics.figures(rollout(1), None)
    assert (figures["judged"], figures["memory_size"]) == (1, 0)
