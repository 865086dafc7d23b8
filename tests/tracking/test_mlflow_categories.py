"""Policies of several routes and categories in MLflow's default store, written by NLPG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

mlflow = pytest.importorskip("mlflow")

from drpg_dspy import NLPG, OnlinePolicyOptimizer  # noqa: E402
from drpg_dspy.memory import SQLiteMemory  # noqa: E402
from drpg_dspy.retrieval import HashingEmbedder  # noqa: E402
from drpg_dspy.testing import ScriptedLM, fields  # noqa: E402
from drpg_dspy.tracking import MLflowTracker  # noqa: E402


class TwoModules(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("word, kind -> draft")
        self.reply = dspy.Predict("draft, kind -> answer")

    def forward(self, word: str, kind: str) -> dspy.Prediction:
        return self.reply(draft=self.draft(word=word, kind=kind).draft, kind=kind)


def script(messages: list[dict[str, str]]) -> str:
    system, asked = messages[0]["content"], messages[-1]["content"]
    kind = (
        "title:long" if "title:long" in asked else "title:short" if "title:" in asked else "plain"
    )
    if "modules_at_fault" in system:
        return json.dumps({"step": 0, "modules_at_fault": ["reply", "draft"], "reason": "?"})
    if "You coach" in system:
        if "module: draft" in asked:  # the same for all inputs
            return json.dumps({"rules": ["Copy the word letter by letter."], "upstream": ""})
        rule = "Give titles their capitals." if "title" in kind else "Write in small letters only."
        return json.dumps({"rules": [rule], "upstream": ""})
    out = "draft" if "`[[ ## draft ## ]]`" in asked else "answer"
    return fields(**{out: "wrong"})


def test_each_route_and_category_is_a_prompt_of_its_own(tmp_path: Path, mlflow_uri: str) -> None:
    learner = OnlinePolicyOptimizer(
        TwoModules(),
        NLPG(window=6, category="kind", gate=None),
        memory=SQLiteMemory(tmp_path / "m.sqlite", HashingEmbedder()),
        tracker=MLflowTracker("exp", tracking_uri=mlflow_uri, artifacts=False),
        metric=lambda *_: False,
        name="first",
    )
    kinds = ("plain", "title:long", "title:short")
    with dspy.context(lm=ScriptedLM(script)):
        for n in range(12):
            rollout = learner.predict_one({"word": f"word{n}", "kind": kinds[n % 3]})
            learner.feedback(rollout.id, 0.0, "not as wanted")
    learner.close()

    client = mlflow.MlflowClient(tracking_uri=mlflow_uri)
    found: dict[str, Any] = {}
    for prompt in client.search_prompts():
        (found[prompt.name],) = client.search_prompt_versions(prompt.name)
    assert {name: version.template for name, version in found.items()} == {
        "first.draft.policy": "- Copy the word letter by letter.",
        "first.reply-plain.policy": "- Write in small letters only.",
        "first.reply-title.policy": "- Give titles their capitals.",
    }
    plain = found["first.reply-plain.policy"]
    assert (plain.tags["route"], plain.tags["category"]) == ("reply", "plain")
    assert plain.tags["parent_version"] == "none"  # what others of the route had does not count
    assert "category" not in found["first.draft.policy"].tags
    for name in found:
        assert client.get_prompt_version_by_alias(name, "current").version == 1


def test_a_text_that_two_categories_share_is_a_version_of_each(tmp_path: Path) -> None:
    from drpg_dspy.types import Guidance, Policy, Rollout, Rule

    memory = SQLiteMemory(tmp_path / "m.sqlite")
    rules = (Rule("Be brief."),)

    def play(id: str, category: str) -> Policy:
        policy = Policy("reply", rules, category=category)
        guidance = Guidance({"reply": policy})
        rollout = memory.record(Rollout(id, 0, {"q": "?"}, {"a": "!"}, guidance=guidance))
        return rollout.guidance.policies["reply"]

    played = [play(f"r{n}", kind) for n, kind in enumerate(("", "plain", "title", "plain"))]

    assert [(one.category, one.version, one.parent) for one in played] == [
        ("", 1, 0), ("plain", 2, 0), ("title", 3, 0), ("plain", 2, 0),
    ]  # fmt: skip
    assert memory.policies("reply") == [played[0], played[1], played[2]]
    assert memory.rollout("r2").guidance.policies["reply"] == played[2]
