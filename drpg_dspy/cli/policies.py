"""The versions of a policy: what changed, why, and how it did."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from drpg_dspy.cli.app import unknown_name, wrong
from drpg_dspy.cli.layout import clean, clip, columns, heading, ranges, share
from drpg_dspy.cli.steps import mark, verdict_word
from drpg_dspy.memory.base import Memory
from drpg_dspy.types import Policy, Rule

__all__ = ["Case", "History", "Use"]

_SPEC = "ROUTE[@VERSION]"


@dataclass(frozen=True, slots=True)
class Case:
    """What is shown of a case behind a rule: its step, question, verdict and feedback."""

    step: int
    key: str
    word: str
    said: str


@dataclass(frozen=True, slots=True)
class Use:
    """How one version of a route's policy did.

    Attributes:
        steps: Steps that it was in force for.
        judged: How many of them have a score.
        score: Their mean score, in [0, 1]; NaN when none has one.
    """

    steps: tuple[int, ...] = ()
    judged: int = 0
    score: float = math.nan


class History:
    """A run's policy versions with the steps and cases around them, read in one pass.

    Args:
        memory: The run.
    """

    def __init__(self, memory: Memory) -> None:
        self.versions = memory.policies()
        self._numbered = {(policy.route, policy.version): policy for policy in self.versions}
        self._cases: dict[str, Case] = {}
        steps: dict[tuple[str, int], list[int]] = defaultdict(list)
        scores: dict[tuple[str, int], list[float]] = defaultdict(list)
        for rollout, feedback in memory.rollouts():
            word = verdict_word(memory, rollout, feedback)
            said = feedback.text if feedback is not None else ""
            self._cases[rollout.id] = Case(rollout.step, rollout.key, word, said)
            for route, policy in rollout.guidance.policies.items():
                steps[route, policy.version].append(rollout.step)
                if feedback is not None and feedback.judged:
                    scores[route, policy.version].append(feedback.score)
        self._uses = {key: Use(tuple(steps[key]), *_mean(scores[key])) for key in steps}

    def select(self, route: str | None = None, last: int | None = None) -> list[Policy]:
        """Return versions, oldest first: of one route or all, the newest ``last`` or all.

        Raises:
            click.BadParameter: There is no such route.
        """
        if route is not None and self.versions:
            self._check_route(route, "--route")
        chosen = [policy for policy in self.versions if route in (None, policy.route)]
        return chosen[-last:] if last else chosen

    def find(self, spec: str) -> Policy:
        """Return the policy named ``ROUTE@VERSION``; ``ROUTE`` alone is its newest version.

        Raises:
            click.BadParameter: There is no such route or version.
        """
        route, at, number = spec.rpartition("@")
        if not at:
            route, number = spec, ""
        self._check_route(route, _SPEC)
        versions = self.select(route)
        if not number:
            return versions[-1]
        if not number.isdigit():
            raise wrong(_SPEC, f"Expected ROUTE@VERSION, e.g. {route}@3, got {spec!r}.")
        found = self._numbered.get((route, int(number)))
        if found is None:
            numbers = ranges([version.version for version in versions])
            raise wrong(_SPEC, f"{route} has no version {number}; it has {numbers}.")
        return found

    def as_text(self, versions: Iterable[Policy]) -> Iterator[str]:
        """Yield one paragraph for each version, in the given order, as ``git log -p`` does."""
        for policy in versions:
            yield "\n".join(self._entry(policy))

    def as_plain(self, policy: Policy) -> dict[str, Any]:
        """Return one version for ``--json``."""
        diff = _diff(self._parent(policy), policy)
        return {
            "route": policy.route,
            "version": policy.version,
            "parent": policy.parent,
            "author": policy.author,
            "step": policy.step,
            "message": policy.message,
            "rules": [self._rule_as_plain(rule) for rule in policy.rules],
            "added": [text for sign, text in diff if sign == "+"],
            "removed": [text for sign, text in diff if sign == "-"],
            "use": dataclasses.asdict(self._use(policy)),
        }

    def in_full(self, policy: Policy) -> str:
        """Return one version with each rule's cases spelled out."""
        parts = [f"{_title(policy)}\n{_served(self._use(policy))}"]
        for rule in policy.rules:
            pinned = ", pinned" if rule.pinned else ""
            head = f"- {clean(rule.text)}\n  {rule.id}, by {rule.author}{pinned}"
            cases = [self._case(id) for id in rule.sources]
            rows = [
                (f"    {mark(case.word)} step {case.step}", clip(case.key, 56), clip(case.said))
                for case in cases
            ]
            parts.append(f"{head}\n{columns(rows)}".rstrip())
        return "\n\n".join(parts)

    def _entry(self, policy: Policy) -> Iterator[str]:
        parent = self._parent(policy)
        yield _title(policy)
        yield _served(self._use(policy))
        before = self._use(parent) if parent is not None else Use()
        if before.judged:
            yield f"before: {share(before.score)} of {before.judged} judged under @{policy.parent}"
        if policy.message:
            yield f"\n    {clean(policy.message)}\n"
        sources = {rule.text: rule.sources for rule in policy.rules}
        for sign, text in _diff(parent, policy):
            line = f"  {sign} {clean(text)}"
            colour = {"+": "green", "-": "red"}.get(sign)
            yield click.style(line, fg=colour) if colour else line
            if sign == "+" and sources[text]:
                yield f"      from {self._named(sources[text])}"
        yield ""

    def _named(self, ids: tuple[str, ...], most: int = 6) -> str:
        """Name a few cases by step and verdict; ``policy show`` spells all of them out."""
        cases = [self._case(id) for id in ids[:most]]
        named = ", ".join(f"step {case.step} {mark(case.word)}" for case in cases)
        return named + (f" and {len(ids) - most} more" if len(ids) > most else "")

    def _rule_as_plain(self, rule: Rule) -> dict[str, Any]:
        cases = [{"rollout_id": id, **dataclasses.asdict(self._case(id))} for id in rule.sources]
        return {**dataclasses.asdict(rule), "cases": cases}

    def _case(self, id: str) -> Case:
        # A person may name as source what this run never saw.
        return self._cases.get(id) or Case(0, id, "unknown", "")

    def _use(self, policy: Policy) -> Use:
        return self._uses.get((policy.route, policy.version), Use())

    def _parent(self, policy: Policy) -> Policy | None:
        return self._numbered.get((policy.route, policy.parent))

    def _check_route(self, route: str, option: str) -> None:
        routes = list(dict.fromkeys(policy.route for policy in self.versions))
        if route not in routes:
            remedy = "" if routes else "This run has no policies so far."
            raise wrong(option, unknown_name("route", route, routes, remedy))


def _title(policy: Policy) -> str:
    parent = f", after @{policy.parent}" if policy.parent else ""
    head = heading(f"{policy.route}@{policy.version}")
    return f"{head}  by {policy.author}, step {policy.step}{parent}"


def _served(use: Use) -> str:
    if not use.steps:
        return "in force: not yet for any step"
    shown = ranges(use.steps)
    judged = f": {share(use.score)} of {use.judged} judged" if use.judged else ""
    return f"in force: step{'s' * (len(use.steps) > 1)} {shown}{judged}"


def _diff(parent: Policy | None, policy: Policy) -> list[tuple[str, str]]:
    """Return what went (``-``), came (``+``) and stayed; the order of rules is no change."""
    before = [rule.text for rule in parent.rules] if parent else []
    after = [rule.text for rule in policy.rules]
    gone = [("-", text) for text in before if text not in after]
    return gone + [(" " if text in before else "+", text) for text in after]


def _mean(scores: list[float]) -> tuple[int, float]:
    return len(scores), math.fsum(scores) / len(scores) if scores else math.nan
