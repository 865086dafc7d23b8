"""What a run may spend, and how far that reaches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from drpg_dspy.types import Usage

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on a whole run, over all its resumes. A run stops before the first step that it
    can no longer pay; the step that crosses a limit is finished and kept.

    Attributes:
        lm_calls: Requests to language models: answering, policy writing, learning and judging.
        tokens: Tokens read and written together.
        dollars: US dollars, as far as prices are known.
        seconds: Wall time.

    Raises:
        ValueError: A limit is negative or no number.

    >>> Budget(lm_calls=10).exceeded(Usage(calls=10), seconds=3.0)
    'the budget of 10 LM calls is used up (10 spent)'
    >>> Budget(tokens=1000).exceeded(Usage(prompt_tokens=900), seconds=3.0)
    ''
    """

    lm_calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            limit = getattr(self, field.name)
            number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
            if limit is not None and (not number or math.isnan(limit) or limit < 0):
                raise ValueError(
                    f"The budget's {field.name} must be a number of at least 0, or None for no "
                    f"limit; got {limit!r}."
                )

    def exceeded(self, spent: Usage, seconds: float) -> str:
        """Return the reason to stop before another step, or ``""``.

        Args:
            spent: All LM calls of the run so far.
            seconds: Its wall time so far.
        """
        for limit, amount, unit in self._lines(spent, seconds):
            if amount >= limit:
                return f"the budget of {_amount(limit, unit)} is used up ({_bare(amount)} spent)"
        return ""

    def hint(self, spent: Usage, seconds: float, steps: int, total: int) -> str:
        """Return a warning when the budget will not reach the stream's end, or ``""``.

        Args:
            spent, seconds: What ``steps`` steps took.
            steps: Steps made, at least 1.
            total: Steps of the stream.
        """
        for limit, amount, unit in self._lines(spent, seconds):
            if unit == "dollars" and not amount and spent.calls:
                return (
                    f"No price is known for these LM calls, so the budget of "
                    f"{_amount(limit, unit)} cannot stop the run; limit LM calls or tokens instead."
                )
            each = amount / steps
            if each * total > limit:
                bought = max(steps, math.floor(limit / each))
                return (
                    f"The budget of {_amount(limit, unit)} buys about {bought} of {total} steps "
                    f"(about {_bare(each)} a step so far)."
                )
        return ""

    def _lines(self, spent: Usage, seconds: float) -> Iterator[tuple[float, float, str]]:
        amounts = {
            "LM calls": (self.lm_calls, spent.calls),
            "tokens": (self.tokens, spent.tokens),
            "dollars": (self.dollars, spent.cost),
            "seconds": (self.seconds, seconds),
        }
        for unit, (limit, amount) in amounts.items():
            if limit is not None:
                yield limit, amount, unit


def _amount(limit: float, unit: str) -> str:
    return f"{_bare(limit)} {unit}"


def _bare(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"
