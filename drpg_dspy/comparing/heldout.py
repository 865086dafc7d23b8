"""The held-out questions: answered by what was learned, judged, and nothing learned from them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.comparing.results import Answer
from drpg_dspy.exceptions import CompileFailed
from drpg_dspy.judging import judge
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.streaming.attempts import Retry, answer_with_retries, is_passing
from drpg_dspy.streaming.refusals import refusal
from drpg_dspy.types import Usage

__all__ = ["answer_held_out"]

_UNREACHABLE_IN_A_ROW = 3
_SAID_EVERY = 20
_LONGEST_TEXT = 500


def answer_held_out(
    learner: OnlinePolicyOptimizer,
    examples: Sequence[dspy.Example],
    metric: Callable[..., Any],
    path: Path,
    say: Callable[[str], None],
) -> tuple[list[Answer], Usage, float]:
    """Answer and judge each question; the learner's memory stays as it is.

    Args:
        learner: Who answers.
        examples: The questions.
        metric: Judges the answers; what LM calls it makes are no part of the usage.
        path: A line for each question; those that stand there are not asked again.
        say: Told one line at a time how far it is.

    Returns:
        The answers, what answering cost, and the seconds that earlier processes spent on it.

    Raises:
        CompileFailed: The language model cannot be reached, or refuses every request.
    """
    rows = _stored(path)
    before = sum(row["seconds"] for row in rows)
    unreached: list[dict[str, Any]] = []
    with path.open("a", encoding="utf-8") as file:
        for place in range(len(rows), len(examples)):
            row, error = _row(learner, examples[place], place, metric)
            if reason := refusal(error):
                raise CompileFailed(reason)
            rows.append(row)
            # Kept once an answer came through again: a dead server is no wrong answer.
            unreached.append(row)
            if error is None or not is_passing(error):
                file.writelines(json.dumps(row) + "\n" for row in unreached)
                file.flush()
                unreached.clear()
            elif len(unreached) == _UNREACHABLE_IN_A_ROW:
                raise CompileFailed(f"{len(unreached)} answers in a row failed; the last: {error}")
            if len(rows) % _SAID_EVERY == 0:
                say(f"{learner.name}: {len(rows)} of {len(examples)} held-out questions")
        file.writelines(json.dumps(row) + "\n" for row in unreached)
    usage = sum((Usage(**row["usage"]) for row in rows), Usage())
    return [_answer(row) for row in rows], usage, before


def _row(
    learner: OnlinePolicyOptimizer, example: dspy.Example, place: int, metric: Callable[..., Any]
) -> tuple[dict[str, Any], Exception | None]:
    inputs = dict(example.inputs().items())
    begun = time.monotonic()
    rollout, error = answer_with_retries(learner, inputs, f"heldout-{place}", 0, Retry())
    if rollout.failed:
        score, text = 0.0, rollout.error
    else:
        verdict = judge(metric, example, rollout.answer)
        score, text = verdict.score, verdict.text
    row = {
        "id": str(example.get("id", place)),
        "score": None if math.isnan(score) else score,
        "failed": rollout.failed,
        "text": text[:_LONGEST_TEXT],
        "usage": asdict(rollout.usage + rollout.guidance.usage),
        "seconds": time.monotonic() - begun,
    }
    return row, error


def _answer(row: dict[str, Any]) -> Answer:
    score = math.nan if row["score"] is None else float(row["score"])
    return Answer(row["id"], score, row["failed"], row["text"])


def _stored(path: Path) -> list[dict[str, Any]]:
    """Return the rows of earlier processes; a line that a kill cut off is dropped for good."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        path.write_text("".join(whole), encoding="utf-8")
    return [json.loads(line) for line in whole]
