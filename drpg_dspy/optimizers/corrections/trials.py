"""Whether a correction helps: two arms, drawn call by call, and evidence that may be looked at
after every call.

What happened stands in one text, a letter for each call that the instruction applied to:

======  ====================================
letter  the call
======  ====================================
``R``   had the instruction and was right
``W``   had the instruction and was wrong
``r``   ran without it and was right
``w``   ran without it and was wrong
======  ====================================
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from drpg_dspy.arguments import number, whole

__all__ = ["Finding", "Gate", "Verdicts", "as_judged_now", "effect", "evidence", "letter", "tally"]

Finding = Literal["helps", "harms", "unclear", ""]
"""What a trial has shown; ``""`` = it goes on."""

Verdicts = Callable[[str], bool | None]
"""Whether a rollout is right, as its verdict stands now; ``None`` = it was taken back."""

TRIAL_SHARE = 0.5
"""Of the calls with the instruction, while it is on trial."""

_ALL = 2**64

_HARM = 4.0
"""Evidence at which a trial ends early. Less than for acceptance, because nothing is lost."""

_BETS = np.arange(0.1, 1.0, 0.2)
"""Stakes over which the evidence is averaged, so that none has to be chosen beforehand."""


def letter(given: bool, correct: bool) -> str:
    """Return how one call is written down.

    >>> letter(given=True, correct=False)
    'W'
    """
    right = "r" if correct else "w"
    return right.upper() if given else right


def tally(outcomes: str) -> tuple[int, int, int, int]:
    """Return how many calls were right and wrong with the instruction, right and wrong without.

    >>> tally("RRWrw")
    (2, 1, 1, 1)
    """
    right, wrong, plain_right, plain_wrong = (outcomes.count(mark) for mark in "RWrw")
    return right, wrong, plain_right, plain_wrong


def effect(right: int, wrong: int, plain_right: int, plain_wrong: int) -> float:
    """Return by how much more often calls with the instruction are right, in (-1, 1).

    The difference of both arms' mean rates under uniform priors, which draws small samples
    towards no difference.

    >>> effect(3, 0, 0, 3), effect(0, 0, 0, 0)
    (0.6, 0.0)
    """
    given = (right + 1) / (right + wrong + 2)
    plain = (plain_right + 1) / (plain_right + plain_wrong + 2)
    return round(given - plain, 6)


def evidence(outcomes: str, *, share: float, over: float = 0.0, against: bool = False) -> float:
    """Return how strongly the outcomes speak for the instruction helping, as an e-value.

    A gambler stakes a part of the capital on each call before its verdict is known: that calls
    with the instruction do better, and calls without it worse, than calls did so far. While the
    instruction does not help, the capital is not expected to grow, whatever the questions, in
    whatever order and however difficult they become; so the chance that it *ever* reaches 1/a
    is at most a, and one may look after every call.

    Args:
        outcomes: One letter a call, in the order of the verdicts.
        share: Probability with which a call had the instruction, in (0, 1).
        over: The difference in rates that is disputed, in [-1, 1]; 0 = any help at all.
        against: Bet on the difference being less than ``over`` instead of more.

    Returns:
        The capital that 1 has become; 1 without outcomes.

    Source: testing by betting (Shafer 2021; Waudby-Smith and Ramdas 2024), with the arms'
    difference weighted by the inverse of their shares.

    >>> evidence("Rw" * 10, share=0.5) > 10 > evidence("Rr" * 10, share=0.5)
    True
    """
    if not outcomes:
        return 1.0
    marks = np.frombuffer(outcomes.encode("ascii"), dtype=np.uint8)
    given = (marks == ord("R")) | (marks == ord("W"))
    right = ((marks == ord("R")) | (marks == ord("r"))).astype(float)
    before = (np.cumsum(right) - right + 0.5) / (np.arange(len(right)) + 1)
    weights = np.where(given, 0.5 / share, -0.5 / (1 - share))
    won = weights * (right - before) - over / 2
    # The largest stake with which the capital cannot become negative.
    most = 1 / (0.5 / min(share, 1 - share) + abs(over) / 2)
    stakes = _BETS[:, None] * most * (-1 if against else 1)
    return float(np.exp(np.log1p(stakes * won[None, :]).sum(axis=1)).mean())


@dataclass(frozen=True, slots=True)
class Gate:
    """What a correction has to show before it stays.

    It has to recur, then to stand a trial: half of the calls that it applies to get it, drawn at
    random, and it is accepted once the evidence says that those are right more often. While it
    stands, a share of the calls goes on without it, so that one notices when it stops helping.

    Args:
        level: Chance of accepting a correction that does not help, in (0, 0.5].
        calls: A trial that has shown nothing after so many calls is given up, at least 10.
        watch: Share of the calls that run without an accepted instruction, in [0, 0.5]; 0 =
            what is accepted stays.
        min_cases: Failures that have to lead to a correction before it is tried, at least 1.
        seed: Of the draws.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.

    With the defaults, of simulated corrections that change nothing at 50 % right, 6 % are
    accepted; of those that make it 70 % some 60 %, and of those that make it 90 % nearly all,
    after some 32 calls (``benchmarks/nlpg_cost.py``).
    """

    level: float = 0.1
    calls: int = 120
    watch: float = 0.2
    min_cases: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        number("level", self.level, 0, 0.5)
        whole("calls", self.calls, 10)
        if self.watch != 0:
            number("watch", self.watch, 0, 0.5)
        whole("min_cases", self.min_cases, 1)
        whole("seed", self.seed, 0)

    def draws(self, call: str) -> Callable[[Iterable[tuple[str, float]]], tuple[bool, ...]]:
        """Return a function that draws which instructions a call gets.

        It takes names with the share of the calls that get each. The same call draws the same
        for the same instruction, whatever it is drawn with.

        Args:
            call: Names the call.
        """
        seed, word = self.seed, _word(call, -1)
        return lambda wanted: tuple(
            [_mixed(word ^ _word(name, seed)) < share * _ALL for name, share in wanted]
        )

    def finding(self, outcomes: str) -> Finding:
        """Return what a trial has shown so far."""
        if evidence(outcomes, share=TRIAL_SHARE) >= 1 / self.level:
            return "helps"
        if evidence(outcomes, share=TRIAL_SHARE, against=True) >= _HARM:
            return "harms"
        return "unclear" if len(outcomes) >= self.calls else ""

    def stopped_helping(self, outcomes: str, effect: float) -> bool:
        """Tell whether an accepted instruction helps less than half as much as it did.

        Args:
            outcomes: Its calls since it was accepted; the last ``2 * calls`` of them count.
            effect: By how much it helped when it was accepted.
        """
        if self.watch == 0:
            return False
        recent = outcomes[-self.watched :]
        half = max(0.0, effect) / 2
        return evidence(recent, share=1 - self.watch, over=half, against=True) >= 1 / self.level

    @property
    def watched(self) -> int:
        """Calls that are looked back on while an instruction stands."""
        return 2 * self.calls


@functools.lru_cache(maxsize=4_096)
def _word(text: str, seed: int) -> int:
    """Return 64 bits that a text and a seed stand for."""
    raw = f"{seed} {text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest())


def _mixed(word: int) -> int:
    """Return 64 bits each of which depends on all of the word's.

    Dozens of draws a call would take longer than all the rest if each were hashed. Source: the
    output function of SplitMix64 (Steele, Lea and Flood 2014).
    """
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return word ^ (word >> 31)


def as_judged_now(
    judged: Sequence[str], outcomes: str, verdicts: Verdicts
) -> tuple[tuple[str, ...], str]:
    """Return calls and their letters as the verdicts stand, without those taken back."""
    kept, marks = [], []
    for rollout, mark in zip(judged, outcomes, strict=True):
        correct = verdicts(rollout)
        if correct is not None:
            kept.append(rollout)
            marks.append(letter(mark.isupper(), correct))
    return tuple(kept), "".join(marks)
