"""A guard around any method: its policies must earn their place."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from drpg_dspy.arguments import number, whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.around import Around
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.plain import digest
from drpg_dspy.types import Experience, Guidance

__all__ = ["Holdout"]

GIVEN, WITHHELD = "policy_given", "policy_withheld"
"""Counts in a rollout's guidance: to which arm the call was assigned."""

_ARMS = (GIVEN, WITHHELD)


class Holdout(Around):
    """Withhold the policy from a share of the calls, and rest it while that share does better.

    A policy written by a small model may do harm, and nothing in a stream of verdicts says so,
    unless some calls run without it. Here a fixed share of them does, chosen at random; the
    examples stay, only the policy is left out. The scores of both arms are compared: when it is
    improbable that policies help, the shares are exchanged, so that harm is bounded and the
    comparison goes on, and they change back when the verdicts do.

    The comparison is by assignment: a call whose policy came out empty still counts for the arm
    that it was assigned to, so nothing but chance tells the arms apart. Each arm looks back on
    its last ``window`` verdicts, because policies change.

    Args:
        optimizer: The method to guard.
        share: Of the calls without a policy, in (0, 0.5].
        level: Rest the policy when the probability that it helps is less, in (0, 0.5].
        window: Verdicts of each arm that are compared, at least 10.
        seed: Of the assignment.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.

    The probability is that of one binomial rate exceeding another under uniform priors, with
    normal posteriors of the right mean and variance. Source: ours; the paper of DRPG gives a
    policy to every call.
    """

    name = "holdout"

    def __init__(
        self,
        optimizer: OnlineOptimizer,
        *,
        share: float = 0.2,
        level: float = 0.1,
        window: int = 100,
        seed: int = 0,
    ) -> None:
        if not isinstance(optimizer, OnlineOptimizer):
            raise ValueError(f"optimizer must be the method to guard, got {optimizer!r}.")
        if isinstance(optimizer, Holdout):
            raise ValueError("This optimizer is guarded already.")
        number("share", share, 0, 0.5)
        number("level", level, 0, 0.5)
        whole("window", window, 10)
        whole("seed", seed, 0)
        self.optimizer = optimizer
        self.share = share
        self.level = level
        self.window = window
        self.seed = seed
        self._arms = {arm: deque[bool](maxlen=window) for arm in _ARMS}

    @property
    def helps(self) -> float:
        """Probability that calls with a policy are right more often than calls without."""
        (given, spread), (plain, plain_spread) = (_posterior(self._arms[arm]) for arm in _ARMS)
        z = (given - plain) / math.sqrt(spread + plain_spread)
        return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))

    @property
    def resting(self) -> bool:
        """Whether policies are withheld from most calls now."""
        return self.helps < self.level

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the guarded method's guidance, with or without its policy."""
        experiences = memory.count()
        if experiences == 0:
            return self.optimizer.propose(inputs, memory)
        drawn = digest(self.seed, self.require_card().key(inputs), experiences)
        withheld = int(drawn, 16) / 16 ** len(drawn) < self.share
        if withheld == self.resting:  # resting exchanges the shares
            guidance, arm = self.optimizer.propose(inputs, memory), GIVEN
        else:
            guidance, arm = self.optimizer.propose_plain(inputs, memory), WITHHELD
        return guidance.counting({arm: 1})

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Let the guarded method learn, and count the verdict for its arm."""
        self.optimizer.update(experience, memory)
        for arm in _ARMS:
            if experience.rollout.guidance.counts.get(arm):
                self._arms[arm].append(experience.correct)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Return what the guarded method keeps; without its policy while that rests."""
        guidance = self.optimizer.consolidate(memory)
        return guidance.without_policies() if self.resting else guidance

    def state_dict(self) -> dict[str, Any]:
        """Return the verdicts of both arms, and the guarded method's state."""
        arms = {arm: [int(correct) for correct in self._arms[arm]] for arm in _ARMS}
        return {"arms": arms, "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        for arm in _ARMS:
            self._arms[arm] = deque(map(bool, state["arms"][arm]), maxlen=self.window)
        self.optimizer.load_state_dict(state["optimizer"])


def _posterior(verdicts: deque[bool]) -> tuple[float, float]:
    """Return mean and variance of a rate under a uniform prior.

    >>> _posterior(deque([True, True]))
    (0.75, 0.0375)
    """
    right, n = sum(verdicts) + 1, len(verdicts) + 2
    mean = right / n
    return mean, mean * (1.0 - mean) / (n + 1)
