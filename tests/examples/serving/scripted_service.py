"""The example service with a scripted model, for ``uvicorn --factory scripted_service:create``."""

from __future__ import annotations

import dspy
from fastapi import FastAPI

from drpg_dspy import DRPG, OnlinePolicyOptimizer
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers import QuoteWriter
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from examples.serving import app

RULE = "Name the paragraph of the terms."


def script(messages: list[dict[str, str]]) -> str:
    told = RULE in messages[-1]["content"]
    return fields(reasoning="because", answer="No, see paragraph 2." if told else "No.")


def learner(file: str) -> OnlinePolicyOptimizer:
    """Return a learner whose rules are what reviewers said; it costs no LM call."""
    memory = SQLiteMemory(file, HashingEmbedder())
    optimizer = DRPG(k=4, feedback_text=True, writer=QuoteWriter())
    return OnlinePolicyOptimizer(app.Assistant(), optimizer, memory=memory, name="shop")


def create() -> FastAPI:
    """Return the service; its memory is ``shop.sqlite`` in the working directory."""
    dspy.configure(lm=ScriptedLM(script))
    return app.create_app(learner("shop.sqlite"))
