"""Constraints that contradict each other: found by rule where both have one, else by an LM."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import dspy

from drpg_dspy.constraints import RULE_TYPES, CaseRule, Constraint, NoCommasRule, Rule, parse_rule
from drpg_dspy.constraints.wording import negated
from drpg_dspy.optimizers.books.showing import asked
from drpg_dspy.optimizers.corrections.clusters import contradicts
from drpg_dspy.optimizers.corrections.replies import read
from drpg_dspy.optimizers.standing.clashes import first_clash
from drpg_dspy.optimizers.standing.registry import overlap, shown
from drpg_dspy.types import Usage

__all__ = [
    "Comparison",
    "Conflict",
    "compare",
    "compare_by_lm",
    "compare_rules_by_lm",
    "opposed",
    "told_by_rule",
]

MOST_COMPARED = 60
"""Constraints that one LM call compares a new one with."""

_NUMBER = re.compile(r"\d+")
_COMMAS = r"\b(?:use|put|add|insert|write|place|set|include|separat\w*|join|with)\b[^.]*\bcommas?\b"
_SMALL = r"\blower[\s-]?case\b|\bsmall\s+letters?\b"
_CAPITALS = r"\b(?:upper[\s-]?case|capitals?|capital\s+letters?|capitali[sz]e[sd]?|title\s+case)\b"
_SCHEMA = {
    "contradicted": {"type": "array", "items": {"type": "integer"}},
    "reason": {"type": "string"},
}
_PAIR = {
    "type": "object",
    "properties": {
        "rule": {"type": "integer"},
        "requirement": {"type": "integer"},
        "reason": {"type": "string"},
    },
    "required": ["rule", "requirement", "reason"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Conflict:
    """A constraint in force that a new one contradicts.

    Attributes:
        constraint: The one in force.
        reason: In words.
        by: Who found it.
    """

    constraint: Constraint
    reason: str
    by: Literal["rule", "lm"] = "rule"

    def __str__(self) -> str:
        one = self.constraint
        return f"{one.type} {shown(one.text)} by {one.author} ({self.by}: {self.reason})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing a new constraint with those in force.

    Attributes:
        conflicts: Those that it contradicts.
        undecided: Those of which no rule can tell.
    """

    conflicts: tuple[Conflict, ...] = ()
    undecided: tuple[Constraint, ...] = ()


def compare(new: Constraint, others: Iterable[Constraint]) -> Comparison:
    """Compare a constraint by rule with those that hold on one of its routes.

    Two that both state rules contradict each other when two of these rules cannot both hold
    (:func:`~drpg_dspy.optimizers.standing.clashes.clash`). Of others, those that say the same but
    for a negation do; of the rest no rule can tell: both 911 and 112 may be named.
    """
    own = _rules(new.type, new.text)
    conflicts: list[Conflict] = []
    undecided: list[Constraint] = []
    for other in others:
        if other.id == new.id or not overlap(new.routes, other.routes):
            continue
        rules = _rules(other.type, other.text)
        reason = first_clash(own, rules)
        if not reason and not (own and rules) and _denies(new.text, other.text):
            reason = "the same, but for a negation"
        if reason:
            conflicts.append(Conflict(other, reason))
        elif not (own and rules):
            undecided.append(other)
    return Comparison(tuple(conflicts), tuple(undecided))


def compare_by_lm(
    text: str, others: Sequence[Constraint]
) -> tuple[tuple[Conflict, ...], tuple[Constraint, ...], Usage]:
    """Ask the configured LM which constraints a text contradicts.

    Args:
        text: A new constraint's or a learned rule's.
        others: Those in force; the first :data:`MOST_COMPARED` are shown.

    Returns:
        The contradictions, those of which it is still not known, and what asking cost. A reply
        that cannot be read leaves all of them unknown.
    """
    compared, rest = others[:MOST_COMPARED], tuple(others[MOST_COMPARED:])
    if not compared:
        return (), rest, Usage()
    listed = "\n".join(f"{i}. {one.text}" for i, one in enumerate(compared, 1))
    reply, usage = asked(FindContradictions, _SCHEMA, new=text, in_force=listed)
    found = read(reply)
    if "contradicted" not in found:
        return (), tuple(others), usage
    reason = str(found.get("reason") or "no answer can satisfy both")[:300]
    numbers = {n for n in _numbers(found["contradicted"]) if 1 <= n <= len(compared)}
    return tuple(Conflict(compared[n - 1], reason, "lm") for n in sorted(numbers)), rest, usage


def compare_rules_by_lm(rules: Sequence[str], constraints: Sequence[str]) -> tuple[str, Usage]:
    """Ask the configured LM which learned rules contradict which constraints.

    Returns:
        Its raw reply, which holds objects with the numbers of a ``rule`` and a ``requirement``,
        from 1, and a ``reason``, under ``contradictions``; and what asking cost.
    """
    return asked(
        FindContradictingRules,
        {"contradictions": {"type": "array", "items": _PAIR}},
        requirements="\n".join(f"{i}. {text}" for i, text in enumerate(constraints, 1)),
        rules="\n".join(f"{i}. {text}" for i, text in enumerate(rules, 1)),
    )


def opposed(text: str, constraints: Iterable[Constraint]) -> Conflict | None:
    """Return the constraint that a learned rule contradicts, by rule; ``None`` = none is found.

    A learned rule names no type: it is read as each type that has rules.

    >>> limit = Constraint("Length", "Keep the answer under 200 words.")
    >>> opposed("Write at least 300 words.", [limit]).reason
    'at most 199 words and at least 300 words'
    >>> opposed("Divide amounts by 100.", [limit]) is None
    True
    """
    own = tuple(rule for kind in RULE_TYPES for rule in _rules(kind, text))
    for one in constraints:
        parsed = _rules(one.type, one.text)
        reason = first_clash(own, parsed)
        if not reason and contradicts(text, one.text):
            reason = "the same, but for a number or a negation"
        if not reason:
            reason = next(filter(None, (_asks_against(text, r) for r in parsed)), "")
        if reason:
            return Conflict(one, reason)
    return None


def told_by_rule(text: str, constraints: Iterable[Constraint]) -> bool:
    """Tell whether rules can say of a learned rule that it contradicts none of the constraints.

    >>> limit = Constraint("Length", "Keep the answer under 200 words.")
    >>> told_by_rule("Write at least 20 words.", [limit]), told_by_rule("Be brief.", [limit])
    (True, False)
    """
    own = any(_rules(kind, text) for kind in RULE_TYPES)
    return own and all(_rules(one.type, one.text) for one in constraints)


def _asks_against(text: str, rule: Rule) -> str:
    """Say why a learned rule asks for what a rule forbids, in words that state no rule itself."""
    if negated(text):
        return ""
    if isinstance(rule, NoCommasRule) and re.search(_COMMAS, text, re.I):
        return "asks for commas, and none are allowed"
    if isinstance(rule, CaseRule):
        found = re.search(_SMALL if rule.upper else _CAPITALS, text, re.I)
        return f"asks for {found[0].lower()} where it may not be" if found else ""
    return ""


def _denies(one: str, other: str) -> bool:
    return negated(one) != negated(other) and contradicts(one, other)


@functools.lru_cache(maxsize=8192)
def _rules(kind: str, text: str) -> tuple[Rule, ...]:
    return parse_rule(kind, text)


def _numbers(value: Any) -> list[int]:
    """Return the numbers in a reply: a list, one alone, or a text with numbers in it."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, str):
        return [int(found) for found in _NUMBER.findall(value)[:MOST_COMPARED]]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [n for item in value for n in _numbers(item)] if isinstance(value, list) else []


class FindContradictions(dspy.Signature):
    """Requirements are in force for every answer of an assistant, and another one is to be added.
    Name those in force that contradict it: two requirements contradict each other only when no
    answer at all can satisfy both. Requirements on different things, one that is stricter than
    another, and ones that are hard to satisfy together do not. Mostly there is none."""

    new: str = dspy.InputField(desc="the requirement to be added")
    in_force: str = dspy.InputField(desc="the requirements in force, numbered")
    contradicted: list[int] = dspy.OutputField(
        desc="numbers of the requirements in force that contradict it; empty when none does"
    )
    reason: str = dspy.OutputField(desc="why, in one short sentence; empty when none does")


class FindContradictingRules(dspy.Signature):
    """An assistant's answers are under requirements that people set, and it follows rules that it
    learned by itself. Name the rules that cannot be followed without breaking a requirement.
    Rules about other things than the requirements do not. Mostly there is none."""

    requirements: str = dspy.InputField(desc="what people require, numbered")
    rules: str = dspy.InputField(desc="what was learned, numbered")
    contradictions: list[dict[str, Any]] = dspy.OutputField(
        desc="objects with rule and requirement (their numbers) and reason; empty when none does"
    )
