"""``drpg feedback pull``: from the command's options to the learner that is meant."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from drpg_dspy.cli import pulling
from drpg_dspy.tracking import Pulled

Drpg = Callable[..., Result]

APP = """
import dspy
from drpg_dspy import OnlinePolicyOptimizer, ZeroShot

def online():
    return OnlinePolicyOptimizer(dspy.Predict("question -> answer"), ZeroShot(), name="shop")

program = dspy.Predict("question -> answer")
"""


@pytest.fixture
def asked(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """What the library was asked to pull; it answers with fixed counts."""
    (workdir / "shop_app.py").write_text(APP)
    calls: list[tuple[Any, ...]] = []

    def pull(learner: Any, experiment: Any = None, **options: Any) -> Pulled:
        calls.append((learner.name or learner.card.name, experiment, options))
        return Pulled(traces=9, learned=2, retracted=1, unchanged=5, unreadable=["answer x: 7"])

    monkeypatch.setattr(pulling, "pull_feedback", pull)
    yield calls
    sys.modules.pop("shop_app", None)


def test_a_learner_of_ones_own_is_named_by_its_module(
    drpg: Drpg, asked: list[tuple[Any, ...]]
) -> None:
    result = drpg(
        "feedback", "pull", "shop_app:online", "--experiment", "shop", "--days", "7",
        "--assessment", "correctness", "--source", "human", "--source", "llm_judge",
    )  # fmt: skip

    ((name, experiment, options),) = asked
    assert (name, experiment) == ("shop", ("shop",))
    assert options["names"] == ("correctness",)
    assert options["sources"] == ["HUMAN", "LLM_JUDGE"]
    assert abs(options["since"] - (time.time() - 7 * 86_400)) < 60
    assert "2 verdicts taken over, 1 taken back, 5 as before, 1 are no verdict" in result.stdout
    assert "answer x: 7" in result.stderr


def test_what_is_not_said_is_left_to_the_library(drpg: Drpg, asked: list[tuple[Any, ...]]) -> None:
    result = drpg("feedback", "pull", "shop_app:online", "--json")

    ((_, experiment, options),) = asked
    assert experiment is None
    assert options == {"names": None, "sources": ["HUMAN"], "since": None, "tracking_uri": None}
    assert json.loads(result.stdout)["learned"] == 2
    assert result.stderr == ""


def test_a_run_is_named_by_its_name(run: Drpg, drpg: Drpg, asked: list[tuple[Any, ...]]) -> None:
    run("--limit", "2")
    drpg("feedback", "pull", "first")

    assert len(asked) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "nobody"),
        (["shop_app:nothing"], "no 'nothing'"),
        (["shop_app:program"], "no OnlinePolicyOptimizer"),
        (["shop_app:online", "--days", "0"], "--days"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_what_cannot_be_pulled_into_is_refused(drpg: Drpg, arguments: list[str], said: str) -> None:
    assert said in drpg("feedback", "pull", *arguments, exit_code=2).stderr
