"""What a run's ``--holdout`` came to: calls with the policy against calls without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from drpg_dspy.cli import names
from drpg_dspy.cli.app import wrong
from drpg_dspy.cli.layout import share
from drpg_dspy.memory.base import Memory
from drpg_dspy.optimizers import Holdout, ZeroShot
from drpg_dspy.optimizers.holdout import GIVEN, WITHHELD
from drpg_dspy.streaming import RunConfig

__all__ = ["arms_as_plain", "arms_as_text", "check_guard", "method_of"]

_ARMS = {"given": GIVEN, "withheld": WITHHELD}


def check_guard(optimizer: str, option: str = "--holdout") -> None:
    """Refuse a guard around a method without anything to leave out.

    Args:
        optimizer: The method's name.
        option: What asks for the guard.

    Raises:
        click.BadParameter: The method writes no policies.
    """
    if not names.optimizer_class(optimizer).writes_policies:
        known = names.optimizer_classes().items()
        those = ", ".join(name for name, cls in known if cls.writes_policies)
        raise wrong(
            option,
            f"{optimizer} writes no policy, so there is none to leave out: leave {option} out, "
            f"or take a method that writes policies: {those}.",
        )


def method_of(config: RunConfig) -> str:
    """Return how a run's method is called, its guard included.

    >>> method_of(RunConfig("spider", "drpg", extra={"holdout": 0.2}))
    'drpg (holdout 0.2)'
    """
    guarded = config.extra.get("holdout")
    if gate := config.extra.get("gate"):
        return f"{config.optimizer} (gate {gate})"
    return config.optimizer if guarded is None else f"{config.optimizer} (holdout {guarded:g})"


def arms_as_plain(config: RunConfig, memory: Memory) -> dict[str, Any]:
    """Return both arms' verdicts and the decision; empty for a run without a guard."""
    guarded = config.extra.get("holdout")
    if guarded is None:
        return {}
    judged: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for rollout, feedback in memory.rollouts():
        if feedback is not None and feedback.judged:
            for arm, count in _ARMS.items():
                counted = bool(rollout.guidance.counts.get(count))
                judged[arm] += counted
                right[arm] += counted and memory.is_correct(feedback)
    guard = _guard(memory, guarded)
    return {
        "holdout": {
            "share": guarded,
            **{arm: {"judged": judged[arm], "correct": right[arm]} for arm in _ARMS},
            "helps": guard.helps,
            "resting": guard.resting,
        }
    }


def arms_as_text(config: RunConfig, memory: Memory) -> str:
    """Say the same in two lines; ``""`` for a run without a guard."""
    if not (plain := arms_as_plain(config, memory)):
        return ""
    arms = plain["holdout"]
    given, withheld = (_arm(arms[arm]) for arm in _ARMS)
    state = "resting: most calls run without them" if arms["resting"] else "in force"
    return (
        f"  holdout: with the policy {given}, without {withheld}\n"
        f"  probability that policies help: {share(arms['helps'])}; they are {state}"
    )


def _arm(arm: Mapping[str, int]) -> str:
    return f"{arm['correct']} right of {arm['judged']} judged"


def _guard(memory: Memory, guarded: float) -> Holdout:
    """Return a guard with the verdicts that the run's own looks back on."""
    guard = Holdout(ZeroShot(), share=guarded)
    state, version = memory.state()
    if version:
        guard.load_state_dict({**state, "optimizer": {}})
    return guard
