"""``drpg demo --fast``: every part of the demo, in seconds and without a download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from drpg_dspy import weights
from drpg_dspy.cli.demo import SETTINGS

Drpg = Callable[..., Result]


@pytest.fixture
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Path:
        raise AssertionError("the fast demo must download nothing")

    monkeypatch.setattr(weights, "pull", refuse)


@pytest.mark.usefixtures("no_downloads")
def test_the_fast_demo_runs_both_methods_and_prints_what_they_measured(drpg: Drpg) -> None:
    result = drpg("demo", "--fast", "--limit", "12", "--no-mlflow")

    for said in ("zero-shot", "DRPG", "right", "tokens in a question", "LM calls", "time"):
        assert said in result.stdout
    assert "a scripted model" in result.stdout.lower()
    assert "A question whose answer changed" in result.stdout
    for command in ("drpg show demo-drpg", "drpg policy log demo-drpg"):
        assert command in result.stdout
    assert "1 of 2" in result.stderr
    assert "2 of 2" in result.stderr


@pytest.mark.usefixtures("no_downloads")
def test_both_methods_answer_the_same_questions_and_a_second_demo_starts_over(
    drpg: Drpg, as_json: Callable[..., dict[str, list[dict[str, object]]]]
) -> None:
    drpg("demo", "--fast", "--limit", "4", "--no-mlflow")
    drpg("demo", "--fast", "--limit", "5", "--no-mlflow")

    plain, learned = (as_json("show", f"demo-{name}")["steps"] for name in ("zero_shot", "drpg"))
    assert len(plain) == 5
    assert [step["inputs"] for step in plain] == [step["inputs"] for step in learned]


def test_the_demo_pulls_the_models_that_it_needs(
    drpg: Drpg, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[str] = []

    def pull(name: str, *, progress: object) -> Path:
        pulled.append(name)
        raise weights_missing

    weights_missing = OSError("no network here")
    monkeypatch.setattr(weights, "pull", pull)

    result = drpg("demo", exit_code=1)

    assert pulled == [SETTINGS.lm.removeprefix("local/")]
    assert "no network here" in result.stderr
