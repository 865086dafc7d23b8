from __future__ import annotations

import math

import pytest

from drpg_dspy.streaming import Budget
from drpg_dspy.types import Usage

SPENT = Usage(calls=10, prompt_tokens=900, completion_tokens=100, cost=0.5)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(lm_calls=10), "10 LM calls"),
        (Budget(tokens=1000), "1,000 tokens"),
        (Budget(dollars=0.5), "0.5 dollars"),
        (Budget(seconds=60), "60 seconds"),
        (Budget(lm_calls=99, tokens=0), "0 tokens"),
    ],
)
def test_a_budget_that_is_used_up_says_which_limit_and_what_was_spent(
    budget: Budget, reason: str
) -> None:
    message = budget.exceeded(SPENT, seconds=61.0)

    assert reason in message
    assert "spent" in message


def test_a_budget_that_is_not_used_up_gives_no_reason() -> None:
    assert Budget(lm_calls=11, tokens=1001, dollars=0.51, seconds=61).exceeded(SPENT, 60.9) == ""
    assert Budget().exceeded(Usage(calls=10**9), 1e9) == ""


@pytest.mark.parametrize("name", ["lm_calls", "tokens", "dollars", "seconds"])
@pytest.mark.parametrize("limit", [-1, math.nan, "5", True])
def test_a_limit_that_is_no_amount_is_refused(name: str, limit: object) -> None:
    with pytest.raises(ValueError, match=rf"budget's {name}"):
        Budget(**{name: limit})  # type: ignore[arg-type]


def test_the_hint_says_how_many_steps_a_budget_buys() -> None:
    assert "buys about 40 of 100 steps" in Budget(lm_calls=100).hint(
        Usage(calls=25), seconds=9.0, steps=10, total=100
    )
    assert Budget(lm_calls=250).hint(Usage(calls=25), 9.0, steps=10, total=100) == ""


def test_the_hint_never_promises_fewer_steps_than_were_made() -> None:
    assert "buys about 10 of 100" in Budget(lm_calls=24).hint(Usage(calls=25), 9.0, 10, 100)


def test_a_dollar_budget_without_known_prices_is_pointed_out() -> None:
    hint = Budget(dollars=5).hint(Usage(calls=25), seconds=9.0, steps=10, total=100)

    assert "No price is known" in hint
