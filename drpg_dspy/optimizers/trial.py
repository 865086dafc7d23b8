"""How a gate tries a policy: on cases of the past or beside the next calls, paired."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.judging import judge as judge_by_metric
from drpg_dspy.plain import digest

__all__ = ["Judge", "Replay", "Shadow", "by_chance", "judged_by", "lower_end"]

Judge = Callable[[Mapping[str, Any], Any], Any]
"""Takes a call's inputs and an answer to them; returns what a metric does; ``None`` = unknown."""

_Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class Replay:
    """Answer cases of the past again, under the policy that stands and under the candidate.

    The one that stands is not asked again where the case was answered under it.

    Attributes:
        cases: The newest judged cases, at least 1.
        calls: LM calls that one trial may take, at least 1.

    Raises:
        ValueError: One of them is no whole number of at least 1.
    """

    cases: int = 20
    calls: int = 80

    def __post_init__(self) -> None:
        whole("cases", self.cases, 1)
        whole("calls", self.calls, 1)


@dataclass(frozen=True, slots=True)
class Shadow:
    """Answer the next calls a second time under the candidate; nobody sees that answer.

    It is answered when the verdict on the call comes, so the call itself takes no longer.

    Attributes:
        cases: Judged calls, at least 1.
        calls: LM calls that the whole trial may take, at least 1.

    Raises:
        ValueError: One of them is no whole number of at least 1.
    """

    cases: int = 20
    calls: int = 80

    def __post_init__(self) -> None:
        whole("cases", self.cases, 1)
        whole("calls", self.calls, 1)


def judged_by(examples: Iterable[dspy.Example], metric: Callable[..., Any]) -> Judge:
    """Return a judge for a gate from labelled examples: those whose inputs a call had.

    Args:
        examples: With labels and marked inputs.
        metric: Any that :func:`drpg_dspy.judging.judge` understands.

    Returns:
        A function of a call's inputs and its answer; ``None`` = no example has these inputs. It
        tells beforehand which inputs it ``knows``, so that a trial leaves the others alone.

    >>> judge = judged_by(
    ...     [dspy.Example(q="6 x 7?", gold="42").with_inputs("q")], lambda e, p: p.a == e.gold
    ... )
    >>> judge({"q": "6 x 7?"}, dspy.Prediction(a="42")).score, judge({"q": "?"}, None)
    (1.0, None)
    """
    return _Labelled(examples, metric)


class _Labelled:
    """Judges the calls whose inputs an example has."""

    def __init__(self, examples: Iterable[dspy.Example], metric: Callable[..., Any]) -> None:
        self.metric = metric
        self._known = {digest(dict(example.inputs().items())): example for example in examples}

    def knows(self, inputs: Mapping[str, Any]) -> bool:
        """Tell whether an example has these inputs."""
        return digest(dict(inputs)) in self._known

    def __call__(self, inputs: Mapping[str, Any], answer: Any) -> Any:
        example = self._known.get(digest(dict(inputs)))
        return None if example is None else judge_by_metric(self.metric, example, answer)


def by_chance(fixed: int, broken: int) -> float:
    """Return the one-sided exact McNemar p-value against "the candidate is not better".

    >>> by_chance(4, 0), by_chance(0, 0), by_chance(1, 2)
    (0.0625, 1.0, 0.875)
    """
    n = fixed + broken
    return float(sum(math.comb(n, wins) for wins in range(fixed, n + 1)) / 2**n)


def lower_end(right: int, n: int) -> float:
    """Return the lower end of Wilson's 95 % interval of a share.

    >>> f"{lower_end(9, 10):.3f}"
    '0.596'
    """
    if not n:
        return 0.0
    share = right / n
    centre = share + _Z**2 / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, (centre - half) / (1 + _Z**2 / n))
