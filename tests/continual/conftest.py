"""A short schedule, two prompts, a program, and a model that a function plays."""

from __future__ import annotations

import re

import dspy
import pytest

from drpg_dspy.constraints import Operation, RuleCheck, Schedule
from drpg_dspy.continual import Prompt, Protocol
from drpg_dspy.testing.scripted import Message, ScriptedLM, fields
from programs import recap

PLAN = Schedule(
    "short",
    (
        (Operation("add", "Start_With", 'Start with the word "Note".'),),
        (Operation("add", "Length", "Under 6 words."),),
        (Operation("edit", "Start_With", 'Start with the word "First".'),),
        (Operation("delete", "Length"),),
    ),
)
PROMPTS = (Prompt("p", "What is tea?"), Prompt("q", "What is salt?"))


def reply(messages: list[Message]) -> str:
    """Obey what the last message asks for, in whatever fields are wanted."""
    prompt = messages[-1]["content"]
    asked = prompt.rsplit("Respond with", 1)[-1]
    names = dict.fromkeys(re.findall(r"\[\[ ## (\w+) ## \]\]", asked))
    names.pop("completed", None)
    if not names:
        return "```\nDo what is asked.\n```"
    openings = re.findall(r'Start with the word "(\w+)"', prompt)
    said = f"{openings[-1] if openings else 'Well'} it is good"
    values = {"response": said, "met": "True"}
    return fields(**{name: values.get(name, "Do what is asked.") for name in names})


@pytest.fixture
def lm() -> ScriptedLM:
    return ScriptedLM(reply)


@pytest.fixture
def plan() -> Schedule:
    return PLAN


@pytest.fixture
def protocol() -> Protocol:
    return Protocol(PLAN, PROMPTS, RuleCheck())


@pytest.fixture
def program() -> dspy.Module:
    return recap.program()
