"""The model of ``drpg demo --fast``: it reads no meaning, and still gains from feedback.

It lets every part of the demo run in seconds and without a download, for tests; its figures say
nothing about any model. It has learned by heart, for each question of ``house_rules``, what a
reader of the schema alone would answer and what the company means. It gives the second where
the policy in its prompt quotes reviewers on every convention that the question takes, else the
first. Asked for rules, it hands on what the reviewer said.
"""

from __future__ import annotations

import importlib
import json
import re

from drpg_dspy.testing import ScriptedLM, fields

__all__ = ["imitator"]


def imitator() -> ScriptedLM:
    """Return the model; ``--lm scripted/drpg_dspy.cli.imitator:imitator``."""
    pairs = importlib.import_module("programs.house_rules").read_pairs()
    known = {pair["question"]: pair for pair in pairs}

    def reply(messages: list[dict[str, str]]) -> str:
        prompt = messages[-1]["content"]
        if "wrong_case" in prompt:
            said = re.findall(r"^reviewer: (.+)$", prompt, re.MULTILINE)
            return json.dumps({"rules": said[-1:]})
        question = _field(prompt, "question")
        policy = _field(prompt, "policy")
        heard = {c for pair in pairs if pair["note"] in policy for c in pair["conventions"]}
        pair = known[question]
        understood = heard.issuperset(pair["conventions"])
        return fields(sql=pair["query" if understood else "naive"])

    return ScriptedLM(reply, model="scripted/imitator")


def _field(prompt: str, name: str) -> str:
    found = re.search(rf"\[\[ ## {name} ## \]\]\n(.*?)\n\n(?:\[\[ ## |Respond with)", prompt, re.S)
    return found[1].strip() if found else ""
