"""Two runs side by side: figures, flips, and an honest verdict."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import pytest

from drpg_dspy.cli.comparison import compare_text, flips
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.types import Feedback, Rollout

NAN = float("nan")
Make = Callable[..., SQLiteMemory]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that stores a run with the given scores."""

    def memory(name: str, *scores: float) -> SQLiteMemory:
        memory = SQLiteMemory(tmp_path / f"{name}.sqlite", None)
        for step, score in enumerate(scores, start=1):
            id = f"{step:05d}"
            memory.record(Rollout(id, step, {"q": step}, {"sql": f"{name} {step}"}, f"q{step}"))
            memory.commit(id, Feedback(score, text=f"{name} says"))
        return memory

    return memory


def test_flips_are_the_questions_that_only_one_run_got_right(make: Make) -> None:
    with closing(make("a", 0, 1, 1, NAN)) as before, closing(make("b", 1, 0, 1, 1)) as after:
        found = flips(before, after)

    assert [new[0].step for _, new in found.fixed] == [1]
    assert [new[0].step for _, new in found.broken] == [2]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((1, 1), "DRPG scored 50.0 points more than zero-shot"),
        ((0, 0), "DRPG scored 50.0 points less than zero-shot"),
        ((1, 0), "DRPG scored the same as zero-shot"),
        ((NAN, NAN), "DRPG scored 50.0 points less"),
    ],
)
def test_the_outcome_is_said_plainly_better_or_not(
    make: Make, scores: tuple[float, ...], said: str
) -> None:
    with closing(make("a", 1, 0)) as before, closing(make("b", *scores)) as after:
        assert said in compare_text(("zero-shot", before), ("DRPG", after))


def test_figures_stand_side_by_side_with_a_question_that_changed(make: Make) -> None:
    with closing(make("a", 0, 1)) as before, closing(make("b", 1, 1)) as after:
        text = click.unstyle(compare_text(("zero-shot", before), ("DRPG", after)))

    assert ["right", "1", "of", "2", "2", "of", "2"] in [line.split() for line in text.splitlines()]
    assert "only DRPG got 1 question right, only zero-shot 0 questions" in " ".join(text.split())
    assert "A question whose answer changed (step 1)" in text
    assert "✗ zero-shot" in text
    assert "a 1" in text
    assert "reviewer: a says" in text
    assert "✓ DRPG" in text


def test_a_change_for_the_worse_is_shown_as_one(make: Make) -> None:
    with closing(make("a", 1)) as before, closing(make("b", 0)) as after:
        text = click.unstyle(compare_text(("zero-shot", before), ("DRPG", after)))

    assert "for the worse" in text
    assert "✗ DRPG" in text


def test_empty_runs_compare_without_a_crash(make: Make) -> None:
    with closing(make("a")) as before, closing(make("b")) as after:
        text = click.unstyle(compare_text(("zero-shot", before), ("DRPG", after)))

    assert "There are no two scores to compare." in text
