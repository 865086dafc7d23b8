from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from drpg_dspy.optimizers.corrections.trials import Gate, evidence, letter, tally


def outcomes(with_it: float, without: float, calls: int, seed: int, share: float = 0.5) -> str:
    """Draw the letters of a stream of calls with these rates of right answers."""
    rng = np.random.default_rng(seed)
    given = rng.random(calls) < share
    right = rng.random(calls) < np.where(given, with_it, without)
    return "".join(letter(bool(g), bool(r)) for g, r in zip(given, right, strict=True))


def found(gate: Gate, letters: str) -> str:
    """Return the first finding of a trial, looked at after every fourth call."""
    findings = (gate.finding(letters[:n]) for n in range(4, len(letters) + 1, 4))
    return next((finding for finding in findings if finding), "")


def share_of(finding: str, with_it: float, without: float, trials: int = 60) -> float:
    gate = Gate()
    seen = [found(gate, outcomes(with_it, without, gate.calls, seed)) for seed in range(trials)]
    return seen.count(finding) / trials


def test_a_correction_that_changes_nothing_is_seldom_accepted_however_often_one_looks() -> None:
    assert share_of("helps", 0.5, 0.5) <= 0.1
    assert share_of("helps", 0.2, 0.2) <= 0.1


def test_a_correction_that_helps_is_accepted_and_one_that_harms_is_given_up() -> None:
    assert share_of("helps", 0.9, 0.5) >= 0.95
    assert share_of("harms", 0.1, 0.5) >= 0.95
    assert share_of("helps", 0.3, 0.5) <= 0.05


def test_questions_that_become_easier_during_a_trial_are_not_taken_for_help() -> None:
    gate = Gate()
    accepted = 0
    for seed in range(60):
        letters = outcomes(0.2, 0.2, 60, seed) + outcomes(0.9, 0.9, 60, seed + 1000)
        accepted += found(gate, letters) == "helps"

    assert accepted <= 6


def test_a_trial_ends_after_its_calls() -> None:
    gate = Gate(calls=20)

    assert gate.finding("RrWw" * 4) == ""
    assert gate.finding("RrWw" * 5) == "unclear"


def test_what_goes_on_helping_stays_and_what_stopped_is_noticed() -> None:
    gate = Gate()
    helping = [outcomes(0.9, 0.5, gate.watched, seed, share=0.8) for seed in range(50)]
    idle = [outcomes(0.5, 0.5, 600, seed, share=0.8) for seed in range(20)]
    harming = [outcomes(0.3, 0.7, 60, seed, share=0.8) for seed in range(50)]

    assert sum(gate.stopped_helping(letters, 0.4) for letters in helping) == 0
    assert all(
        any(gate.stopped_helping(letters[:n], 0.4) for n in range(60, 601, 20)) for letters in idle
    )
    assert sum(gate.stopped_helping(letters, 0.4) for letters in harming) >= 45


def test_without_a_watch_nothing_is_retired() -> None:
    assert not Gate(watch=0).stopped_helping("Wr" * 100, 0.4)


def test_the_capital_stays_positive_whatever_happens() -> None:
    for letters in ("R" * 200, "W" * 200, "r" * 200, "w" * 200, "Wr" * 200, "Rw" * 200):
        for share in (0.5, 0.8, 0.9):
            for against in (False, True):
                capital = evidence(letters, share=share, over=0.3, against=against)
                assert capital > 0
                assert np.isfinite(capital) or capital > 1e100


def drawn(gate: Gate, name: str, share: float, calls: int = 500) -> list[bool]:
    return [gate.draws(f"call {n}")([(name, share)])[0] for n in range(calls)]


def test_draws_have_their_share_and_repeat_themselves() -> None:
    first = drawn(Gate(seed=3), "i-1", 0.8)

    assert 0.74 < sum(first) / 500 < 0.86
    assert first == drawn(Gate(seed=3), "i-1", 0.8)
    assert first != drawn(Gate(seed=4), "i-1", 0.8)


def test_draws_of_two_instructions_do_not_depend_on_each_other() -> None:
    columns = [drawn(Gate(), f"i-{k}", 0.5, 400) for k in range(5)]
    pairs = [pair for a, b in itertools.pairwise(columns) for pair in zip(a, b, strict=True)]

    for pair in ((True, True), (True, False), (False, True), (False, False)):
        assert 340 < pairs.count(pair) < 460


def test_a_tally_counts_the_letters() -> None:
    assert tally("RRRWWrw") == (3, 2, 1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "level"),
        ({"level": 0.7}, "level"),
        ({"calls": 5}, "calls"),
        ({"watch": -0.1}, "watch"),
        ({"watch": 0.6}, "watch"),
        ({"min_cases": 0}, "min_cases"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_named(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gate(**options)
