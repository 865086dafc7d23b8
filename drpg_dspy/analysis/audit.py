"""The same items answered twice: what was repaired, what was broken, and how sure one may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drpg_dspy.analysis.statistics import CONFIDENCE, McNemar, mcnemar
from drpg_dspy.arguments import number, whole

__all__ = ["Answered", "Paired", "compare_answers"]

_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Answered:
    """One item's answer under some policies.

    Attributes:
        rollout: Id of the rollout that holds it.
        right: The verdict; ``None`` = not judged. A program that raised is wrong.
    """

    rollout: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class Paired:
    """The same items answered before and after a change.

    An item whose program raised is wrong; one that could not be judged, before or after, is no
    pair.

    Attributes:
        both, neither: Items that were right both times, and neither time.
        fixed, broken: Ids of the items that became right, and that became wrong.
        not_judged: Items that are no pair.

    >>> found = Paired(both=51, neither=83, fixed=tuple("abcdefgh"), broken=("i",), not_judged=0)
    >>> found.n, found.before, found.after, found.net
    (143, 52, 59, 7)
    >>> f"{found.repair:.4f} {found.regression:.4f} {found.sign.two_sided:.4f}"
    '0.0879 0.0192 0.0391'
    """

    both: int
    neither: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    not_judged: int

    @property
    def n(self) -> int:
        """Pairs."""
        return self.both + self.neither + len(self.fixed) + len(self.broken)

    @property
    def before(self) -> int:
        """Items that were right before."""
        return self.both + len(self.broken)

    @property
    def after(self) -> int:
        """Items that are right after."""
        return self.both + len(self.fixed)

    @property
    def net(self) -> int:
        """Items fixed less items broken."""
        return len(self.fixed) - len(self.broken)

    @property
    def repair(self) -> float:
        """Of the items that were wrong before, the share that is right after; NaN without any."""
        wrong = self.n - self.before
        return len(self.fixed) / wrong if wrong else math.nan

    @property
    def regression(self) -> float:
        """Of the items that were right before, the share that is wrong after; NaN without any."""
        return len(self.broken) / self.before if self.before else math.nan

    @property
    def sign(self) -> McNemar:
        """The exact McNemar test; the first is *after*."""
        return mcnemar(len(self.fixed), len(self.broken))

    def interval(
        self, confidence: float = CONFIDENCE, *, resamples: int = _RESAMPLES, seed: int = 0
    ) -> tuple[float, float]:
        """Return the paired-bootstrap interval of the change in the share of right items.

        Items are drawn with their pair of verdicts, as often as there are pairs, with
        replacement; the ends are the percentiles of the change over all resamples.

        Args:
            confidence: In (0, 1).
            resamples: How often, at least 1.
            seed: Of the draws.

        Returns:
            Lower and upper end, in [-1, 1]; NaN without a pair.

        Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993.

        >>> low, high = Paired(51, 83, tuple("abcdefgh"), ("i",), 0).interval()
        >>> f"{low:+.3f} {high:+.3f}"
        '+0.014 +0.091'
        """
        number("confidence", confidence, 0, 1)
        whole("resamples", resamples, 1)
        if not self.n:
            return math.nan, math.nan
        # Resampling items is drawing the counts of the three things that can have happened.
        fixed, broken = len(self.fixed) / self.n, len(self.broken) / self.n
        shares = [fixed, broken, max(0.0, 1 - fixed - broken)]
        drawn = np.random.default_rng(seed).multinomial(self.n, shares, size=resamples)
        changes = (drawn[:, 0] - drawn[:, 1]) / self.n
        tail = 50 * (1 - confidence)
        low, high = np.percentile(changes, [tail, 100 - tail])
        return float(low), float(high)


def compare_answers(before: Mapping[str, Answered], after: Mapping[str, Answered]) -> Paired:
    """Pair the answers to the same items.

    Args:
        before, after: By the item's id; what only one of them has is left out.

    >>> one, other = Answered("r1", right=False), Answered("r2", right=True)
    >>> compare_answers({"q1": one, "q2": one}, {"q1": other, "q3": other})
    Paired(both=0, neither=0, fixed=('q1',), broken=(), not_judged=0)
    """
    pairs = {item: (was.right, after[item].right) for item, was in before.items() if item in after}
    verdicts = list(pairs.values())
    return Paired(
        both=verdicts.count((True, True)),
        neither=verdicts.count((False, False)),
        fixed=tuple(item for item, pair in pairs.items() if pair == (False, True)),
        broken=tuple(item for item, pair in pairs.items() if pair == (True, False)),
        not_judged=sum(None in pair for pair in verdicts),
    )
