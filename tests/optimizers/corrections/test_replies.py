from __future__ import annotations

import dspy
import pytest

from drpg_dspy.optimizers.corrections.replies import ask, read
from drpg_dspy.testing import ScriptedLM


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ('{"step": 2, "modules": ["a"]}', {"step": 2, "modules": ["a"]}),
        ('Sure!\n```json\n{"step": 2}\n```\nDone.', {"step": 2}),
        ('{"step": 2, "reason": "it was cu', {"step": 2, "reason": "it was cu"}),
        ("{'step': 2}", {"step": 2}),
        ("[[ ## step ## ]]\n2\n\n[[ ## completed ## ]]", {"step": "2"}),
        ('[[ ## rules ## ]]\n["One rule here"]', {"rules": ["One rule here"]}),
        ('{"step": 2} and {"step": 3}', {"step": 2}),
        ("", {}),
        ("I am not able to.", {}),
        ("{{{{", {}),
        ("[" * 50_000, {}),
    ],
)
def test_a_reply_is_read_whatever_it_looks_like(reply: str, fields: dict[str, object]) -> None:
    assert read(reply) == fields


def test_an_empty_reply_is_an_empty_text_and_one_call() -> None:
    lm = ScriptedLM([""])
    with dspy.context(lm=lm):
        reply = ask(dspy.Signature("a -> b"), {"b": {"type": "string"}}, a="x")

    assert reply == ""
    assert len(lm.prompts) == 1
