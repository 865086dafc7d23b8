"""What stood at a step, and what changed between versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drpg_dspy.analysis.policies import changes, policies_at
from drpg_dspy.analysis.series import Series, read_series
from drpg_dspy.memory.base import StepFigures
from drpg_dspy.types import Feedback, Policy, Rule, Usage


def run(versions: Sequence[Mapping[str, int]], scores: Sequence[float]) -> Series:
    return read_series(
        StepFigures(f"{n:05d}", n, False, 1.0, Usage(), Usage(), at, Feedback(score))
        for n, (at, score) in enumerate(zip(versions, scores, strict=True), start=1)
    )


def policy(route: str, version: int, parent: int, *rules: str) -> Policy:
    return Policy(route, tuple(map(Rule, rules)), version, parent, step=version)


THREE = [
    policy("predict", 1, 0, "one"),
    policy("predict", 2, 1, "two", "one"),
    policy("predict", 3, 2, "two"),
]


def test_the_policy_at_a_step_is_the_version_in_force_there() -> None:
    series = run([{"predict": 1}, {"predict": 2}, {"predict": 3}], [0, 1, 0])

    (shown,) = policies_at(THREE, series, step=2)

    assert (shown.step, shown.routes, shown.policy) == (2, ("predict",), THREE[1])


def test_a_shorter_run_shows_its_last_step() -> None:
    series = run([{"predict": 1}, {"predict": 2}], [0, 1])

    (shown,) = policies_at(THREE, series, step=100)

    assert (shown.step, shown.policy.version) == (2, 2)


def test_a_step_without_policy_shows_none() -> None:
    assert policies_at(THREE, run([{}], [1]), step=1) == []
    assert policies_at(THREE, read_series(()), step=1) == []


def test_routes_with_the_same_rules_are_shown_once() -> None:
    both = [policy("a", 1, 0, "one"), policy("b", 1, 0, "one")]

    (shown,) = policies_at(both, run([{"a": 1, "b": 1}], [1]), step=1)

    assert shown.routes == ("a", "b")


def test_first_best_and_last_changes_are_told_rule_by_rule() -> None:
    # The rolling score (over all three, as the window is wider) has one point: the last step.
    series = run([{"predict": 1}, {"predict": 2}, {"predict": 3}], [0, 1, 1])

    first, last = changes(THREE, series)

    assert (first.which, first.policy.version) == ("first", 2)
    assert (first.removed, first.added, first.kept) == ((), ("two",), ("one",))
    assert (last.which, last.policy.version) == ("best, last", 3)
    assert (last.removed, last.added, last.kept) == (("one",), (), ("two",))


def test_the_best_version_is_the_one_where_the_rolling_score_peaked() -> None:
    versions = [{"predict": 1}] * 49 + [{"predict": 2}] * 2 + [{"predict": 3}] * 50
    scores = [0.0] * 49 + [1.0, 1.0] + [0.0] * 50

    found = {
        change.which: change.policy.version for change in changes(THREE, run(versions, scores))
    }

    # Step 51 is the first whose window of 50 holds both right answers.
    assert found == {"first, best": 2, "last": 3}


def test_an_only_version_is_shown_as_all_new() -> None:
    (only,) = changes(THREE[:1], run([{"predict": 1}], [1]))

    assert only.which == "first, best, last"
    assert (only.removed, only.added, only.kept) == ((), ("one",), ())


def test_routes_that_changed_alike_are_shown_once() -> None:
    both = [policy(route, 1, 0, "one") for route in ("a", "b")]

    (only,) = changes(both, run([{"a": 1, "b": 1}], [1]))

    assert only.routes == ("a", "b")


def test_a_run_without_policies_has_no_changes() -> None:
    assert changes([], run([{}], [1])) == []
