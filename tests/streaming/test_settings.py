from __future__ import annotations

import functools
from typing import Any

import dspy
import pytest

from drpg_dspy.optimizers import DRPG, CaseWriter
from drpg_dspy.streaming.settings import identity, lm_identity
from drpg_dspy.testing.scripted import ScriptedLM


class Judge:
    version = "2"

    def __init__(self, data: str = "/somewhere") -> None:
        self.data = data

    def __call__(self, example: Any, prediction: Any) -> float:
        return 1.0


def test_two_optimizers_made_alike_have_one_identity() -> None:
    def make(**options: Any) -> DRPG:
        return DRPG(k=4, policy_lm=ScriptedLM(["x"], model="scripted/w"), **options)

    assert identity(make(writer=CaseWriter())) == identity(make(writer=CaseWriter()))
    assert identity(make(writer=CaseWriter())) != identity(make(writer=CaseWriter(max_rules=2)))
    assert identity(make()) != identity(make(contrast="wrong"))


def test_another_policy_writer_is_another_identity() -> None:
    small, big = (DRPG(policy_lm=ScriptedLM(["x"], model=name)) for name in ("s/small", "s/big"))

    assert identity(small) != identity(big)


def test_a_judge_is_its_name_and_version_not_where_its_data_lies() -> None:
    assert identity(Judge("/a"), depth=0) == identity(Judge("/b"), depth=0)
    assert identity(Judge(), depth=0).endswith("Judge 2")


def test_a_partial_function_is_named_with_what_it_binds() -> None:
    def metric(example: Any, prediction: Any, strict: bool = False) -> float:
        return 0.0

    loose, strict = functools.partial(metric), functools.partial(metric, strict=True)

    assert identity(loose) != identity(strict)
    assert identity(strict) == identity(functools.partial(metric, strict=True))


def test_an_object_may_name_itself() -> None:
    judge = Judge()
    judge.identity = "spider/test_suite/1"  # type: ignore[attr-defined]

    assert identity(judge, depth=0) == "spider/test_suite/1"


def test_an_lm_is_its_model_and_what_changes_its_answers() -> None:
    lm = dspy.LM("openai/m", api_base="http://127.0.0.1:4711", api_key="secret", temperature=0.0)

    shown = lm_identity(lm)

    assert shown.startswith("openai/m temperature=0.0")
    assert "4711" not in shown
    assert "secret" not in shown


@pytest.mark.parametrize("value", [None, 3, 0.5, "x", True, ["a", 1], {"k": 4}])
def test_plain_values_stand_for_themselves(value: Any) -> None:
    assert identity(value) == value
