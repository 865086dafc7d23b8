"""The model of ``drpg demo --fast``: it understands nothing, and still gains from a memory.

It lets the demo's every part run in seconds and without a download, for tests. Asked for SQL it
repeats the query of the most similar example it is shown, or else counts the rows of a table
that the question names. Asked for rules it hands on what the reviewer said.
"""

from __future__ import annotations

import json
import re

from drpg_dspy.testing import ScriptedLM, fields

__all__ = ["imitator"]


def imitator() -> ScriptedLM:
    """Return the model; ``--lm scripted/drpg_dspy.cli.imitator:imitator``."""
    return ScriptedLM(_reply, model="scripted/imitator")


def _reply(messages: list[dict[str, str]]) -> str:
    prompt = messages[-1]["content"]
    if "wrong_case" in prompt:
        said = re.findall(r"^reviewer: (.+)$", prompt, re.MULTILINE)
        return json.dumps({"rules": [text[:200] for text in said[-1:]]})
    shown = re.findall(r"^sql: (.+)$", prompt, re.MULTILINE)
    return fields(sql=shown[-1] if shown else _count_rows(prompt))


def _count_rows(prompt: str) -> str:
    before, _, question = prompt.rpartition("[[ ## question ## ]]")
    tables = re.findall(r"(?:CREATE TABLE |^)(\w+) ?\(", before, re.MULTILINE) or ["sqlite_master"]
    named = [table for table in tables if re.search(rf"\b{table}\b", question, re.IGNORECASE)]
    return f"SELECT COUNT(*) FROM {(named or tables)[0]}"
