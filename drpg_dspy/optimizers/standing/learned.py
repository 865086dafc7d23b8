"""What was learned, beside what people put into force: contradictions and repetitions go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from drpg_dspy.constraints import Constraint, RuleCheck
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.books.replies import read_objects
from drpg_dspy.optimizers.books.showing import lm_identity, under
from drpg_dspy.optimizers.rules import similar
from drpg_dspy.optimizers.standing.answers import answer_field
from drpg_dspy.optimizers.standing.conflicts import (
    Conflict,
    compare_rules_by_lm,
    opposed,
    told_by_rule,
)
from drpg_dspy.optimizers.standing.registry import Registry, shown
from drpg_dspy.plain import digest
from drpg_dspy.types import ProgramCard, Rule, Usage

__all__ = ["Screened", "screen", "without_violations"]

_RULES = RuleCheck()


@dataclass
class Screened:
    """What became of learned rules, over all routes of a call.

    Attributes:
        dropped: By rule id: the rule, the constraint it contradicts, why, and who found it.
        retrieved: Under ``"dropped RULE_ID"``: the cases that the rule came from.
        counts: How many were dropped, how many repeated a constraint, and of how many kept
            ones no rule can tell and nobody was asked.
        memo: The LM's replies, to keep for the same rules and constraints.
        usage: What asking it cost.
    """

    dropped: dict[str, dict[str, Any]] = field(default_factory=dict)
    retrieved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    memo: dict[str, str] = field(default_factory=dict)
    usage: Usage = Usage()

    def drop(self, rule: Rule, why: Conflict) -> None:
        """Put a drop on record."""
        self.counts["learned_rules_dropped"] += 1
        self.retrieved[f"dropped {rule.id}"] = rule.sources
        self.dropped[rule.id] = {
            "rule": rule.text,
            "author": rule.author,
            "constraint": why.constraint.to_plain(),
            "reason": why.reason,
            "by": why.by,
        }

    def said(self, rules: Iterable[Rule]) -> list[str]:
        """Say which of these rules were dropped."""
        return [
            f"dropped {shown(rule.text)}, which contradicts {why['constraint']['type']}"
            for rule in rules
            if (why := self.dropped.get(rule.id)) is not None
        ]


def screen(
    rules: Sequence[Rule],
    constraints: Sequence[Constraint],
    lm: dspy.BaseLM | None,
    memory: MemoryView,
    screened: Screened,
) -> tuple[Rule, ...]:
    """Return the learned rules of a route that go with its constraints; the rest is on record.

    Args:
        rules: What was learned.
        constraints: In force on the route.
        lm: Asked where no rule finds a contradiction; ``None`` = nobody.
        memory: Where its replies are kept.
        screened: Takes what became of the others.
    """
    kept: list[Rule] = []
    for rule in rules:
        why = opposed(rule.text, constraints)
        if why is not None:
            screened.drop(rule, why)
        elif any(similar(rule.text, one.text) for one in constraints):
            screened.counts["learned_rules_repeated"] += 1
        else:
            kept.append(rule)
    if lm is None or not kept:
        unknown = sum(not told_by_rule(rule.text, constraints) for rule in kept)
        screened.counts["learned_rules_not_compared"] += unknown
        return tuple(kept)
    found = _by_lm(kept, constraints, lm, memory, screened)
    for rule in kept:
        if rule.id in found:
            screened.drop(rule, found[rule.id])
    return tuple(rule for rule in kept if rule.id not in found)


def _by_lm(
    rules: Sequence[Rule],
    constraints: Sequence[Constraint],
    lm: dspy.BaseLM,
    memory: MemoryView,
    screened: Screened,
) -> dict[str, Conflict]:
    texts, standing = [rule.text for rule in rules], [one.text for one in constraints]
    with under(lm):
        key = digest("constraints", lm_identity(), texts, standing)
        reply = memory.recall(key)
        if reply is None:
            reply, usage = compare_rules_by_lm(texts, standing)
            screened.usage += usage
            screened.memo[key] = reply
    return {
        rules[rule].id: Conflict(constraints[one], reason, "lm")
        for rule, one, reason in _pairs(reply, len(rules), len(constraints))
    }


def _pairs(reply: str, rules: int, constraints: int) -> list[tuple[int, int, str]]:
    """Return the pairs in a reply that name a rule and a constraint that exist, from 0."""
    found = []
    for item in read_objects(reply, "contradictions"):
        rule, one = _place(item.get("rule"), rules), _place(item.get("requirement"), constraints)
        if rule is not None and one is not None:
            reason = str(item.get("reason") or "both cannot be followed")[:300]
            found.append((rule, one, reason))
    return found


def _place(number: Any, most: int) -> int | None:
    return number - 1 if isinstance(number, int) and 1 <= number <= most else None


def without_violations(
    shots: Mapping[str, Sequence[Mapping[str, Any]]],
    registry: Registry,
    card: ProgramCard,
    field: str,
    now: float,
) -> tuple[dict[str, tuple[Mapping[str, Any], ...]], int]:
    """Leave out examples whose answer violates a constraint in force on their route.

    Returns:
        The examples that stay, by route, and how many went.
    """
    stay: dict[str, tuple[Mapping[str, Any], ...]] = {}
    gone = 0
    for route, given in shots.items():
        name, standing = answer_field(card, route, field), registry.in_force(route, now)
        kept = tuple(shot for shot in given if not _violates(shot.get(name), standing))
        gone += len(given) - len(kept)
        if kept:
            stay[route] = kept
    return stay, gone


def _violates(answer: Any, constraints: Sequence[Constraint]) -> bool:
    if not isinstance(answer, str):
        return False
    checks = (_RULES.check(one.type, one.text, answer) for one in constraints)
    return any(check.satisfied is False for check in checks)
