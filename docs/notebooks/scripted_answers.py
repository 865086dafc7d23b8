"""A function that plays a small model, so that the notebooks can be tested without one.

It answers like somebody who can write and knows nothing of the house: a rule is followed
wherever it stands in the prompt, in the policy or in the instructions, and not otherwise.
"""

from __future__ import annotations

import re

from drpg_dspy.testing import fields

Messages = list[dict[str, str]]


def answer(messages: Messages) -> str:
    """Return the reply to a prompt."""
    if messages[0]["role"] != "system":  # GEPA reflects without DSPy's form
        return f"```\n{_INSTRUCTIONS}\n```"
    system, asked = messages[0]["content"], messages[-1]["content"]
    wanted = _fields(system.partition("Your output fields are")[2])
    given = _fields(system.partition("Your output fields are")[0])
    values = {name: _value(name, asked) for name in given}
    rules = f"{system}\n{values.get('policy', '')}"
    return fields(**{name: _PLAYS.get(name, _about)(values, rules) for name in wanted})


def _fields(text: str) -> list[str]:
    return re.findall(r"^\d+\. `(\w+)`", text, flags=re.MULTILINE)


def _value(name: str, asked: str) -> str:
    found = re.search(rf"\[\[ ## {name} ## \]\]\n(.*?)(?=\n\n\[\[ ##|\n\nRespond|\Z)", asked, re.S)
    return found.group(1) if found else ""


def _sql(values: dict[str, str], rules: str) -> str:
    question = values["question"]
    if "Which cities" in question:
        return "SELECT DISTINCT city FROM orders"
    amount = "SUM(amount) / 100.0" if "divide amount by 100" in rules else "SUM(amount)"
    wanted = "COUNT(*)" if "How many" in question else amount
    city = re.search(r"from (\w+)\?", question)
    where = [f"city = '{city[1]}'"] if city else []
    where += ["status <> 'X'"] if "status <> 'X'" in rules else []
    return f"SELECT {wanted} FROM orders" + (f" WHERE {' AND '.join(where)}" if where else "")


_INSTRUCTIONS = "Gift cards are answered by shops."


def _answer(values: dict[str, str], rules: str) -> str:
    if "paragraphs" in values:
        found = re.search(r"(§\d) (.*?\.)", values["paragraphs"])
        paragraph, text = found.groups() if found else ("", "We do not know.")
        return f"{text} ({paragraph})" if "in brackets" in rules else text
    if "sent_back" in values:  # asked to repair an answer
        return "It rests, and has a thick crust."
    return "The sourdough rests for a night, has a thick crust, and keeps for four days."


def _team(values: dict[str, str], rules: str) -> str:
    message = values["message"].lower()
    if "gift card" in message and re.search(r"gift cards [^.]*answered by shops", rules, re.I):
        return "shops"
    if "broken" in message:
        return "payments" if "broken are answered by payments" in rules else "delivery"
    return "delivery" if "parcel" in message else "payments"


def _day(values: dict[str, str], rules: str) -> str:
    note = values["note"]
    if written := re.findall(r"(\d+) (May|July)", note):
        day, month = written[-1]
        return f"2026-{'05' if month == 'May' else '07'}-{int(day):02}"
    first, second = re.findall(r"\d\d", note)[:2]
    return f"2026-{second}-{first}" if "day comes first" in rules else f"2026-{first}-{second}"


def _about(values: dict[str, str], rules: str) -> str:
    return _INSTRUCTIONS


_PLAYS = {"answer": _answer, "day": _day, "sql": _sql, "team": _team}
