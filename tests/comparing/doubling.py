"""A task that a scripted model fails until it is told how: double the number."""

from __future__ import annotations

import json
import re
from typing import Any

import dspy

from drpg_dspy.testing.scripted import Message, fields

HINT = "Double the number."


def examples(first: int, last: int) -> list[dspy.Example]:
    return [
        dspy.Example(
            id=f"q{n}", question=f"What is it for the number {n}?", gold=str(2 * n)
        ).with_inputs("question")
        for n in range(first, last)
    ]


def metric(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return prediction.answer == example.gold


def reply(messages: list[Message]) -> str:
    """Answer rightly for even numbers, and for all once the prompt says how."""
    text = "\n".join(message["content"] for message in messages)
    if "coach" in messages[0]["content"]:
        return json.dumps({"rules": [HINT]})
    if "```" in text:  # GEPA's reflection asks for an instruction between fences
        return f"```\n{HINT}\n```"
    asked = re.findall(r"`\[\[ ## (\w+) ## \]\]`", messages[-1]["content"])
    if asked and "answer" not in asked:  # MIPROv2's proposer
        return fields(**{name: HINT for name in asked if name != "completed"})
    numbers = re.findall(r"for the number (\d+)", messages[-1]["content"])
    n = int(numbers[-1]) if numbers else 0
    return fields(answer=str(2 * n) if HINT in text or n % 2 == 0 else str(n))
