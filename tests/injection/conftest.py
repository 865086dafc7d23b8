"""A model that can answer any request, and a way to see which policy each prompt carried."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import dspy
import pytest

from drpg_dspy.injection import notices
from drpg_dspy.testing.scripted import ScriptedLM, fields

Messages = list[dict[str, str]]


def requested(messages: Messages) -> list[str]:
    """Names of the output fields that the last message asks for, for DSPy's adapters."""
    last = messages[-1]["content"]
    _, _, request = last.rpartition("Respond with")
    return re.findall(r"`(?:\[\[ ## |<)?(\w+)(?: ## \]\]|>)?`", request)


def answer(messages: Messages, values: dict[str, Any]) -> str:
    """Reply to a request in the form it asks for; fields without a value are answered "x"."""
    names = [name for name in requested(messages) if name != "completed"]
    chosen = {name: values.get(name, "x") for name in names}
    reply = {name: v(messages) if callable(v) else v for name, v in chosen.items()}
    last = messages[-1]["content"]
    if "JSON object in the following order" in last:
        return json.dumps(reply)
    if "wrapped in XML tags" in last:
        return "\n".join(f"<{name}>\n{value}\n</{name}>" for name, value in reply.items())
    as_text = {k: v if isinstance(v, str) else json.dumps(v) for k, v in reply.items()}
    return fields(**as_text)


@pytest.fixture(autouse=True)
def _each_warning_may_come_again() -> None:
    notices._SAID.clear()
    notices._CHECKED.clear()


@pytest.fixture
def make_lm() -> Callable[..., ScriptedLM]:
    """Make a model that answers any request; ``values`` may hold functions of the messages."""

    def make(cache: bool = False, model: str = "scripted/lm", **values: Any) -> ScriptedLM:
        return ScriptedLM(lambda messages: answer(messages, values), model=model, cache=cache)

    return make


@pytest.fixture
def lm(make_lm: Callable[..., ScriptedLM]) -> Iterator[ScriptedLM]:
    """A model in force for the whole test that answers "x" to everything."""
    model = make_lm()
    with dspy.context(lm=model):
        yield model


@pytest.fixture
def policies_seen() -> Callable[[ScriptedLM], list[list[str]]]:
    """Return, for each prompt sent, the routes whose policy (``rule of <route>``) it carries."""

    def seen(model: ScriptedLM) -> list[list[str]]:
        return [re.findall(r"rule of <([^>]*)>", text) for text in model.texts()]

    return seen
