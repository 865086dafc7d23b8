"""DSPy's cache of replies under changing policies."""

from __future__ import annotations

from collections.abc import Callable

import dspy
import pytest

from drpg_dspy.injection import attach, use_policy
from drpg_dspy.testing.scripted import ScriptedLM


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = dspy.clients.Cache(
        enable_disk_cache=False, enable_memory_cache=True, disk_cache_dir=None
    )
    monkeypatch.setattr(dspy, "cache", fresh, raising=False)


@pytest.mark.parametrize("placement", ["input", "instructions"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_each_policy_has_replies_of_its_own(
    asynchronous, placement, make_lm: Callable[..., ScriptedLM]
) -> None:
    lm = make_lm(cache=True)
    program = dspy.ChainOfThought("question -> answer")
    attach(program, placement=placement)
    sent = []
    for text in ("- one", "- one", "- two", "- one"):
        before = len(lm.prompts)
        with dspy.context(lm=lm), use_policy({"predict": text}):
            await program.acall(question="q") if asynchronous else program(question="q")
        sent.append(len(lm.prompts) - before)
    assert sent == [1, 0, 1, 0]


def test_without_a_policy_the_plain_programs_replies_are_found(make_lm) -> None:
    lm = make_lm(cache=True)
    plain, attached = (dspy.ChainOfThought("question -> answer") for _ in range(2))
    attach(attached)
    with dspy.context(lm=lm):
        plain(question="q")
        attached(question="q")
        with use_policy({"predict": ""}):
            attached(question="q")
    assert len(lm.prompts) == 1
