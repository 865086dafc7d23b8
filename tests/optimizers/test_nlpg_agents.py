"""Agents and odd programs under NLPG: tools, replies that cannot be read, loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest

from drpg_dspy import NLPG, OnlinePolicyOptimizer
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields

RULE = "Name the country that the city is in."
TOOL = "agent.tools['lookup'].find"


class Lookup(dspy.Module):
    """A tool that asks a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.find = dspy.Predict(dspy.Signature("city -> fact", "Say what is known."))

    def forward(self, city: str) -> str:
        return str(self.find(city=city).fact)


class Agent(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        described = {"name": "lookup", "desc": "facts", "args": {"city": {"type": "string"}}}
        self.agent = dspy.ReAct("question -> answer", tools=[dspy.Tool(Lookup(), **described)])

    def forward(self, question: str) -> dspy.Prediction:
        return self.agent(question=question)


def play(messages: list[dict[str, str]]) -> str:
    """Find the tool at fault where its step shows; without its rule the tool says too little."""
    system, asked = messages[0]["content"], messages[-1]["content"]
    if "modules_at_fault" in system:
        named = [TOOL] if f"module: {TOOL}" in asked else ["agent.react"]
        return json.dumps({"step": 0, "modules_at_fault": named, "reason": "no country"})
    if "You coach" in system:
        return json.dumps({"rules": [RULE], "upstream": ""})
    if "next_tool_name" in system:
        done = "observation_0" in asked
        name, args = ("finish", {}) if done else ("lookup", {"city": "Rome"})
        return fields(next_thought="?", next_tool_name=name, next_tool_args=json.dumps(args))
    if "`fact`" in system:
        return fields(fact="It lies in Italy." if RULE in asked else "It is a city.")
    return fields(reasoning="?", answer="Italy" if "Italy" in asked else "unknown")


@pytest.fixture
def online(tmp_path: Path) -> Iterator[Callable[..., OnlinePolicyOptimizer]]:
    made: list[OnlinePolicyOptimizer] = []

    def make(program: dspy.Module, **options: Any) -> OnlinePolicyOptimizer:
        memory = SQLiteMemory(tmp_path / f"{len(made)}.sqlite", HashingEmbedder())
        optimizer = NLPG(**{"window": 2, "gate": None, **options})
        made.append(OnlinePolicyOptimizer(program, optimizer, memory=memory))
        return made[-1]

    yield make
    for learner in made:
        with closing(learner):
            pass


def test_a_tool_that_asks_a_model_is_a_route_and_is_corrected(online: Any) -> None:
    learner = online(Agent())
    assert learner.card.route_names == ("agent.react", "agent.extract.predict", TOOL)

    with dspy.context(lm=ScriptedLM(play)):
        for n in range(2):
            rollout = learner.predict_one({"question": f"Where is Rome, question {n}?"})
            assert [call.route for call in rollout.trace] == [
                "agent.react", TOOL, "agent.react", "agent.extract.predict",
            ]  # fmt: skip
            learner.feedback(rollout.id, 0.0, "The country is missing.")
        after = learner.predict_one({"question": "Where is Rome?"})

    assert {(one.route, one.text) for one in learner.optimizer.instructions} == {(TOOL, RULE)}
    assert after.outputs is not None
    assert after.outputs["answer"] == "Italy"


def test_a_module_whose_reply_cannot_be_read_is_in_the_trace_that_is_diagnosed(
    online: Any,
) -> None:
    class Careful(dspy.Module):
        """Goes on where its first module's reply cannot be read."""

        def __init__(self) -> None:
            super().__init__()
            self.count = dspy.Predict("text -> number: int")
            self.reply = dspy.Predict("text, number -> answer")

        def forward(self, text: str) -> dspy.Prediction:
            try:
                number = str(self.count(text=text).number)
            except Exception:  # noqa: BLE001 - as users write it
                number = "?"
            return self.reply(text=text, number=number)

    seen: list[str] = []

    def script(messages: list[dict[str, str]]) -> str:
        system, asked = messages[0]["content"], messages[-1]["content"]
        if "modules_at_fault" in system:
            seen.append(asked)
            return json.dumps({"step": 1, "modules_at_fault": [], "reason": "no number"})
        if "You coach" in system:
            return json.dumps({"rules": ["Write digits alone."], "upstream": ""})
        counting = "`[[ ## number ## ]]`" in asked
        return "five, I would say" if counting else fields(answer="?")

    learner = online(Careful())
    with dspy.context(
        lm=ScriptedLM(script), adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)
    ):
        for n in range(2):
            rollout = learner.predict_one({"text": f"How many, {n}?"})
            learner.feedback(rollout.id, 0.0, "There are five.")

    failed = rollout.trace[0]
    assert (failed.route, failed.outputs) == ("count", None)
    assert "failed: AdapterParseError" in seen[0]
    assert [one.route for one in learner.optimizer.instructions] == ["count"]
    assert learner.optimizer.counters.get("diagnosis_names_nobody", 0) == 0


def test_a_loop_of_fifty_calls_of_one_route_is_learned_from_like_any_other(online: Any) -> None:
    class Loop(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = dspy.Predict("text -> text_out")
            self.end = dspy.Predict("text -> answer")

        def forward(self, text: str) -> dspy.Prediction:
            for _ in range(50):
                text = self.step(text=text).text_out
            return self.end(text=text)

    sizes: list[int] = []

    def script(messages: list[dict[str, str]]) -> str:
        system, asked = messages[0]["content"], messages[-1]["content"]
        if "You coach" in system:
            sizes.append(len(asked))
            if "modules_at_fault" in system:
                return json.dumps({"step": 9, "modules_at_fault": ["step"], "reason": "?"})
            return json.dumps({"rules": ["Add one letter."], "upstream": ""})
        return fields(text_out="x" * 50, answer="x")

    learner = online(Loop())
    with dspy.context(lm=ScriptedLM(script)):
        for n in range(2):
            rollout = learner.predict_one({"text": f"begin {n}"})
            learner.feedback(rollout.id, 0.0)

    assert len(rollout.trace) == 51
    assert [one.route for one in learner.optimizer.instructions] == ["step"]
    assert max(sizes) < 20_000
