"""What constraints cost: rendering a thousand of them, and a call under a few.

    python benchmarks/constraint_registry.py

Prints the median processor time (which other programs do not lengthen) to render 1,000
constraints on 50 routes into policies and their texts, to propose them to a call when nothing has
changed, and to read them anew when something has; and LM calls and tokens of a call under six
constraints, given by the adapter without repair, against a prompt to which the same constraints
are appended (Base LM). Tokens are words, as the scripted model counts them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy import ConstraintAdapter, OnlinePolicyOptimizer, PolicyField
from drpg_dspy.constraints import TYPES, Constraint
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.optimizers.standing.registry import Registry
from drpg_dspy.retrieval import HashingEmbedder
from drpg_dspy.testing import ScriptedLM, fields
from drpg_dspy.types import ProgramCard, RouteCard
from drpg_dspy.usage import meter

ROUTES = tuple(f"route_{n}" for n in range(50))
REPEATS = 200
SIX = {
    "Length": "Keep the answer under 120 words.",
    "Keyword": "Mention the word 'budget' at least twice.",
    "Format": "Write in paragraphs of running text.",
    "Start_With": "Start the answer with the words 'In short'.",
    "End_With": "End the answer with the words 'Let me know'.",
    "No_Commas": "Do not use any commas.",
}
PROMPT = (
    "Write a cover letter for a data science position at a regional hospital. The applicant has "
    "three years of experience in a logistics company and taught herself statistics on the side. "
    "Say why she wants to change and what she would bring along for the team. "
)


class Answer(dspy.Signature):
    """Follow the instruction."""

    instruction: str = dspy.InputField()
    policy: str = PolicyField("Requirements on the answer.")
    answer: str = dspy.OutputField()


def thousand() -> list[Constraint]:
    """Return 20 constraints for each of 50 routes."""
    return [
        Constraint(kind, f"Keep to requirement {i} of the house on {route}.", routes=(route,))
        for route in ROUTES
        for i, kind in enumerate(TYPES[:20])
    ]


def median_ms(function: Any) -> float:
    """Return the median time of a call, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        begun = time.thread_time()
        function()
        times.append(1000 * (time.thread_time() - begun))
    return statistics.median(times)


def rendering(folder: Path) -> None:
    """Time a thousand constraints."""
    adapter = ConstraintAdapter(max_chars=1_000_000)
    routes = tuple(RouteCard(name, "", ("q",), ("a",)) for name in ROUTES)
    adapter.bind(ProgramCard("fifty", "", routes, key=str))
    memory = SQLiteMemory(folder / "thousand.sqlite", HashingEmbedder())
    registry = Registry(tuple(thousand()), number=1, routes=ROUTES)
    memory.amend("constraints", lambda stood: ({"constraints": registry.to_text()}, ()))
    adapter.bind_memory(memory)
    constraints = registry.constraints

    def render() -> int:
        fresh = Registry(constraints, number=1, routes=ROUTES)  # nothing kept from the time before
        rendered = fresh.policies(ROUTES, time.time())
        return sum(len(policy.text) for policy in rendered.values())

    print(f"{len(constraints)} constraints, {len(ROUTES)} routes, {render()} characters")
    unchanged = median_ms(lambda: adapter.propose({"q": "?"}, memory))
    print(f"rendered to policies and texts:  {median_ms(render):.2f} ms")
    print(f"a call, nothing changed:         {unchanged:.2f} ms")
    text = registry.to_text()
    print(f"read after a change, beside it:  {median_ms(lambda: Registry.from_text(text)):.2f} ms")
    memory.close()


def tokens(folder: Path) -> None:
    """Compare the tokens of a call with those of a prompt that lists the constraints."""
    lm = ScriptedLM(lambda messages: fields(answer="In short. Let me know"))
    rules = ConstraintAdapter(SIX, repair=0)
    memory = SQLiteMemory(folder / "six.sqlite", HashingEmbedder())
    online = OnlinePolicyOptimizer(dspy.Predict(Answer), rules, memory=memory)
    appended = PROMPT + "\n" + "\n".join(f"- {text}" for text in SIX.values())
    with dspy.context(lm=lm):
        with meter() as base:
            dspy.Predict(Answer)(instruction=appended)
        with meter() as adapter:
            online(instruction=PROMPT)
    one, other = base.total(), adapter.total()
    print(f"Base LM:  {one.calls} call, {one.tokens} tokens")
    print(f"adapter:  {other.calls} call, {other.tokens} tokens: {other.tokens / one.tokens:.3f} ×")
    online.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        rendering(Path(place))
        tokens(Path(place))
