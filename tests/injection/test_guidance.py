from __future__ import annotations

from typing import Any

import dspy
import pytest
from dspy.dsp.utils.settings import main_thread_config as config

from drpg_dspy.injection import attach, set_policy, use_guidance, use_policy
from drpg_dspy.types import Guidance, Policy, Rule


def guidance(route: str, *texts: str, **more: Any) -> Guidance:
    policy = Policy(route, tuple(Rule(text) for text in texts))
    return Guidance(policies={route: policy}, **more)


@pytest.fixture
def pair() -> dspy.Module:
    class Pair(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = dspy.Predict("question -> draft")
            self.b = dspy.Predict("draft -> answer")

        def forward(self, question: str) -> Any:
            return self.b(draft=self.a(question=question).draft)

    program = Pair()
    attach(program)
    return program


def test_a_guidance_puts_its_rules_and_shots_in_force(pair, lm) -> None:
    shots = {"b": ({"draft": "d1", "answer": "a1"},)}
    with use_guidance(guidance("a", "one", "two", shots=shots)):
        pair(question="q")
    first, second = lm.texts()
    assert "[[ ## policy ## ]]\n- one\n- two\n" in first
    assert "a1" not in first
    assert "a1" in second
    assert "policy" not in second


def test_a_route_without_a_policy_in_a_guidance_runs_as_the_plain_program(pair, lm) -> None:
    pair(question="q")
    set_policy(pair, {"a": "- own", "b": "- own"})
    with use_guidance(Guidance(policies={"a": Policy("a")})):
        pair(question="q")
    assert lm.prompts[2:] == lm.prompts[:2]


def test_what_is_in_force_is_a_snapshot(pair, lm) -> None:
    texts, shots = {"a": "- before"}, {"a": [{"question": "s", "draft": "before"}]}
    with use_policy(texts, shots):
        texts["a"] = "- after"
        shots["a"][0]["draft"] = "after"
        shots["a"].append({"question": "s", "draft": "more"})
        pair(question="q")
    assert "- before" in lm.texts()[0]
    assert "after" not in lm.texts()[0]
    assert "more" not in lm.texts()[0]


def test_the_innermost_block_counts_and_the_outer_one_comes_back(pair, lm) -> None:
    with use_policy({"a": "- outer a", "b": "- outer b"}):
        with use_policy({"a": "- inner a"}):
            pair(question="q")
        with use_guidance(guidance("a", "alone")):
            pair(question="q")
        pair(question="q")
    pair(question="q")
    said = ["- inner a", "- outer b", "- alone", "", "- outer a", "- outer b", "", ""]
    assert all(part in text for part, text in zip(said, lm.texts(), strict=True))
    assert ["policy" in text for text in lm.texts()] == [bool(part) for part in said]


def test_a_block_left_by_an_error_is_over(pair, lm) -> None:
    with pytest.raises(KeyError), use_policy({"a": "- rule"}):
        raise KeyError
    pair(question="q")
    assert "rule" not in lm.texts()[0]


def test_a_guidance_for_one_program_leaves_the_others_alone(lm) -> None:
    mine, theirs = dspy.Predict("question -> answer"), dspy.Predict("question -> answer")
    attach(mine)
    set_policy(theirs, {"self": "- compiled"})
    for block in (
        use_guidance(guidance("self", "mine"), program=mine),
        use_policy({"self": "- mine"}, program=mine),
    ):
        with block:
            mine(question="q")
            theirs(question="q")
            mine.deepcopy()(question="q")
    assert ["- mine" in text for text in lm.texts()] == [True, False, True] * 2
    assert ["- compiled" in text for text in lm.texts()] == [False, True, False] * 2


def test_a_scope_of_another_program_does_not_hide_the_outer_one(lm) -> None:
    mine, theirs = dspy.Predict("question -> answer"), dspy.Predict("question -> answer")
    attach(mine)
    attach(theirs)
    with use_policy({"self": "- mine"}, program=mine):
        with use_guidance(guidance("self", "theirs"), program=theirs):
            mine(question="q")
            theirs(question="q")
    assert ["- mine" in text for text in lm.texts()] == [True, False]
    assert ["- theirs" in text for text in lm.texts()] == [False, True]


def test_mistakes_are_refused_before_anything_runs(pair) -> None:
    with pytest.raises(ValueError, match="policy of route 'a' must be a text, got None"):
        with use_policy({"a": None}):  # type: ignore[dict-item]
            pass
    with pytest.raises(ValueError, match=r"shot for route 'a' must be a mapping .* got 'text'"):
        with use_policy({}, {"a": ["text"]}):  # type: ignore[list-item]
            pass
    with pytest.raises(ValueError, match=r"No such route: \['c'\]"):
        with use_policy({"c": "- x"}, program=pair):
            pass
    with pytest.raises(ValueError, match="Predict is not attached"):
        with use_policy({}, program=dspy.Predict("a -> b")):
            pass


def test_dspy_configure_inside_a_block_works_as_outside(pair, make_lm) -> None:
    before, after = make_lm(), make_lm()
    kept = dict(config)
    try:
        config["lm"] = before
        with use_policy({"a": "- rule"}):
            pair(question="q")
            config["lm"] = after  # what dspy.configure does, from whichever thread owns it
            pair(question="q")
    finally:
        config.update(kept)
    assert len(before.prompts) == len(after.prompts) == 2
