"""The pipelines, what they are asked, and a model that plays all of them and their coach."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.primitives.code_interpreter import CodeExecutionError, FinalOutput
from wild import (
    best_of_n,
    compiled,
    fifty_labels,
    image_input,
    loaded_from_json,
    multi_hop,
    nested_extraction,
    program_of_thought,
    rag_with_citations,
    react_agent,
    streaming_chat,
    two_lms,
)

from drpg_dspy.testing import ScriptedLM, fields

Messages = list[dict[str, str]]

RULE = "Mind the house style."


class Sums:
    """Stands in for DSPy's interpreter, which needs Deno. Runs what the scripted model wrote."""

    tools: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def start(self) -> None:
        """Nothing to start."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        def submit(output: Any) -> None:
            raise _Submitted(output)

        self.kept |= {**(variables or {}), "SUBMIT": submit}
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self.kept)
        except _Submitted as end:
            return FinalOutput(end.args[0])
        except ArithmeticError as error:
            raise CodeExecutionError(f"{type(error).__name__}: {error}") from error
        return printed.getvalue()

    def shutdown(self) -> None:
        """Nothing to stop."""


class _Submitted(Exception):
    pass


@dataclass(frozen=True)
class Pipeline:
    """One pipeline with what a test needs to run it.

    Attributes:
        build: Makes the program, as its user would.
        inputs: The arguments of the n-th call.
        replies: What the model answers, by output field; functions get the messages.
        routes: The predictors that a call reaches.
        lm_calls: LM calls of one call.
        output: A field of the prediction.
        anew: Makes the program in another process; by default as ``build`` does.
    """

    build: Callable[[Cast], dspy.Module]
    inputs: Callable[[int], dict[str, Any]]
    replies: Mapping[str, Any]
    routes: tuple[str, ...]
    lm_calls: int
    output: str = "answer"
    anew: Callable[[Cast], dspy.Module] | None = None


def asked(messages: Messages) -> tuple[list[str], bool]:
    """Return the output fields that a request asks for, and whether it wants them as JSON."""
    _, _, request = messages[-1]["content"].rpartition("Respond with")
    if "JSON object" in request:
        return re.findall(r"`(\w+)`", request), True
    names = re.findall(r"`\[\[ ## (\w+) ## \]\]`", request)
    return [name for name in names if name != "completed"], False


def play(replies: Mapping[str, Any]) -> Callable[[Messages], str]:
    """Return a script that answers a pipeline's requests, and its coach's."""

    def script(messages: Messages) -> str:
        if "You coach" in messages[0]["content"]:
            return coach(messages)
        names, as_json = asked(messages)
        values = {name: replies.get(name, "because") for name in names}
        values = {name: v(messages) if callable(v) else v for name, v in values.items()}
        if as_json:
            return json.dumps(values)
        return fields(**{k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()})

    return script


def coach(messages: Messages) -> str:
    """Play whoever writes rules: DRPG's writer, or NLPG's two questions.

    The module at fault is the one that the reviewer names.
    """
    system, request = messages[0]["content"], messages[-1]["content"]
    if "modules_at_fault" in system:
        (named,) = set(re.findall(r"The fault is in <(.+?)>\.", request))
        return json.dumps({"step": 0, "modules_at_fault": [named], "reason": "the style"})
    return json.dumps({"rules": [RULE], "upstream": ""})


@dataclass
class Cast:
    """The models that play one pipeline."""

    small: ScriptedLM
    large: ScriptedLM

    def texts(self) -> list[str]:
        """Return the prompts of the program's own calls, in order, the large model's last."""
        return [t for t in [*self.small.texts(), *self.large.texts()] if "You coach" not in t]

    def forget(self) -> None:
        """Begin anew."""
        self.small.prompts.clear()
        self.large.prompts.clear()


def cast(pipeline: Pipeline) -> Cast:
    """Return fresh models for a pipeline."""
    return Cast(ScriptedLM(play(pipeline.replies)), ScriptedLM(play(pipeline.replies)))


def _react_step(messages: Messages) -> int:
    return len(set(re.findall(r"observation_(\d)", messages[-1]["content"])))


_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("search_catalogue", {"words": "a lamp"}),
    ("stock", {"product": "lamp"}),
    ("price", {"product": "lamp"}),
    ("delivery_days", {"country": "DE"}),
    ("open_ticket", {"subject": "lamp"}),
    ("finish", {}),
]

_FAILS, _WORKS = "```python\nprint(1 / 0)\n```", "```python\nSUBMIT({'answer': 6 * 7})\n```"

_PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="
_PDF = "data:application/pdf;base64,JVBERi0xLjQ="


def _hop(messages: Messages) -> str:
    return "herbert" if "Dune is" in messages[-1]["content"] else "dune"


def _history(n: int) -> dspy.History:
    return dspy.History(
        messages=[{"message": f"I am customer {i}.", "reply": "Welcome!"} for i in range(n)]
    )


@functools.cache
def _compiled(by: str) -> dspy.Module:
    """Compile once for all tests; what they get is a copy."""
    proposed = dict.fromkeys(["proposed_instruction", "new_instruction"], "Route with care.")
    model = ScriptedLM(play({**_COMPILED, **proposed}))
    with dspy.context(lm=model), contextlib.redirect_stdout(io.StringIO()):
        if by == "gepa":
            return compiled.by_gepa(model)
        return compiled.by_miprov2() if by == "miprov2" else compiled.by_bootstrap_few_shot()


def _team(messages: Messages) -> str:
    """Route rightly only under the improved instructions, so that an optimizer finds them."""
    seen = "\n".join(message["content"] for message in messages)
    return "repairs" if "with care" in seen or "ticket 1" in seen else "sales"


_COMPILED: dict[str, Any] = {"summary": "a broken lamp", "team": _team}


def _from(by: str) -> Pipeline:
    return Pipeline(
        lambda models: _compiled(by).deepcopy(),
        lambda n: {"ticket": f"My desk wobbles, order {n}."},
        _COMPILED,
        ("summary.predict", "team"),
        2,
        output="team",
        anew=lambda models: compiled.Route(),
    )


_INVOICE = {
    "number": "7",
    "issued": "2026-11-30",
    "seller": {"name": "Ann", "address": {"street": "Main St 1", "city": "Rome"}},
    "lines": [{"what": "lamp", "amount": 39.0, "currency": "USD"}, {"what": "nail", "amount": 1}],
}

PIPELINES: dict[str, Pipeline] = {
    "RAG with citations": Pipeline(
        lambda models: rag_with_citations.build(),
        lambda n: {"question": f"Are returns free, order {n}?"},
        {"answer": "Yes, for 30 days.", "citations": [{"passage": 1, "quote": "free for 30 days"}]},
        ("answer.predict",),
        1,
        output="citations",
    ),
    "ReAct agent with five tools": Pipeline(
        lambda models: react_agent.build(),
        lambda n: {"question": f"Do you have {n} lamps?"},
        {
            "next_tool_name": lambda m: _TOOLS[_react_step(m)][0],
            "next_tool_args": lambda m: _TOOLS[_react_step(m)][1],
            "answer": "We have four.",
        },
        ("react", "extract.predict"),
        7,
    ),
    "multi-hop with a query loop": Pipeline(
        lambda models: multi_hop.build(),
        lambda n: {"question": f"Where was the author of Dune born, asks reader {n}?"},
        {"query": _hop, "answer": "Tacoma"},
        ("query[0].predict", "query[1].predict", "answer"),
        3,
    ),
    "fifty labels": Pipeline(
        lambda models: fifty_labels.build(),
        lambda n: {"message": f"The app crashes, for the {n}th time."},
        {
            "urgent": "True",
            "label": "mobile.bug",
            "verdict": {"label": "mobile.bug", "confidence": 0.9},
        },
        ("self",),
        1,
        output="label",
    ),
    "extraction into nested models": Pipeline(
        lambda models: nested_extraction.build(),
        lambda n: {"document": f"Invoice {n} of 30 November, Ann, Main St 1, Rome: a lamp, 39 USD"},
        {"invoice": _INVOICE, "doubts": ["no tax number"]},
        ("extract", "check.predict"),
        2,
        output="invoice",
    ),
    "ProgramOfThought": Pipeline(
        lambda models: program_of_thought.build(Sums),
        lambda n: {"question": f"What is six times seven, asked {n} times?"},
        {
            "generated_code": lambda m: _WORKS if "ZeroDivision" in m[-1]["content"] else _FAILS,
            "answer": "42",
        },
        ("code_generate.predict", "code_regenerate.predict", "generate_output.predict"),
        3,
    ),
    "best of n": Pipeline(
        lambda models: best_of_n.build(),
        lambda n: {"article": f"The town has {n} new benches."},
        {"headline": "Town puts up benches"},
        ("module.predict",),
        3,
        output="headline",
    ),
    "two LMs": Pipeline(
        lambda models: two_lms.build(models.large),
        lambda n: {"request": f"Cancel order {n}."},
        {"reply": "Done.", "final_reply": "Your order is cancelled."},
        ("draft", "check.predict"),
        2,
        output="reply",
    ),
    "streaming chat": Pipeline(
        lambda models: streaming_chat.build(),
        lambda n: {"message": f"Do you know me, customer {n}?", "history": _history(n)},
        {"reply": "Of course I do."},
        ("answer",),
        1,
        output="reply",
    ),
    "image and file": Pipeline(
        lambda models: image_input.build(),
        lambda n: {
            "photo": dspy.Image(_PNG),
            "papers": dspy.File(file_data=_PDF),
            "question": f"Is parcel {n} damaged?",
        },
        {"damaged": "False", "answer": "No."},
        ("predict",),
        1,
    ),
    "loaded from JSON": Pipeline(
        lambda models: loaded_from_json.build(),
        lambda n: {"review": f"Room {n} was clean."},
        {"stars": "3", "summary": "clean"},
        ("predict",),
        1,
        output="summary",
        anew=lambda models: dspy.ChainOfThought("review -> stars: int, summary"),
    ),
    "compiled by BootstrapFewShot": _from("bootstrap"),
    "compiled by MIPROv2": _from("miprov2"),
    "compiled by GEPA": _from("gepa"),
}
