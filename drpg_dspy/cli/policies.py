"""The versions of a policy: what changed, why, and how it did."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from drpg_dspy.cli.app import unknown_name
from drpg_dspy.cli.layout import clean, clip, columns, heading, share
from drpg_dspy.cli.steps import mark, verdict_word
from drpg_dspy.memory.base import Memory
from drpg_dspy.types import Policy, Rule

__all__ = ["VersionUse", "find_version", "log_as_plain", "log_as_text", "uses", "version_as_text"]


@dataclass(frozen=True, slots=True)
class VersionUse:
    """How one version of a route's policy did.

    Attributes:
        steps: Steps that it was in force for.
        judged: How many of them have a score.
        score: Their mean score, in [0, 1]; NaN when none has one.
    """

    steps: tuple[int, ...] = ()
    judged: int = 0
    score: float = math.nan


Uses = dict[tuple[str, int], VersionUse]


def uses(memory: Memory) -> Uses:
    """Return, by route and version, the steps it served and their scores; one pass."""
    steps: dict[tuple[str, int], list[int]] = defaultdict(list)
    scores: dict[tuple[str, int], list[float]] = defaultdict(list)
    for rollout, feedback in memory.rollouts():
        for route, policy in rollout.guidance.policies.items():
            steps[route, policy.version].append(rollout.step)
            if feedback is not None and feedback.judged:
                scores[route, policy.version].append(feedback.score)
    return {
        key: VersionUse(
            tuple(served),
            len(scores[key]),
            math.fsum(scores[key]) / len(scores[key]) if scores[key] else math.nan,
        )
        for key, served in steps.items()
    }


def find_version(memory: Memory, spec: str) -> Policy:
    """Return the policy named ``ROUTE@VERSION``; ``ROUTE`` alone is its newest version.

    Raises:
        click.BadParameter: There is no such route, or the version is no number.
        ValueError: There is no such version; the message names those that exist.
    """
    route, at, number = spec.rpartition("@")
    if not at:
        route, number = spec, ""
    versions = memory.policies(route)
    if not versions:
        routes = list(dict.fromkeys(policy.route for policy in memory.policies()))
        remedy = "" if routes else "This run has no policies: its optimizer writes none."
        raise click.BadParameter(unknown_name("route", route, routes, remedy))
    if not number:
        return versions[-1]
    if not number.isdigit():
        raise click.BadParameter(f"Expected ROUTE@VERSION, e.g. {route}@3, got {spec!r}.")
    return memory.policy(route, int(number))


def log_as_text(memory: Memory, versions: list[Policy]) -> Iterator[str]:
    """Yield one paragraph for each version, newest first, as ``git log -p`` does."""
    used = uses(memory)
    parents = _by_number(memory)
    for policy in reversed(versions):
        yield "\n".join(_entry(memory, policy, parents.get((policy.route, policy.parent)), used))


def log_as_plain(memory: Memory, versions: list[Policy]) -> list[dict[str, Any]]:
    """Return the versions for ``--json``, oldest first."""
    used = uses(memory)
    parents = _by_number(memory)
    entries = []
    for policy in versions:
        parent = parents.get((policy.route, policy.parent))
        use = used.get((policy.route, policy.version), VersionUse())
        diff = _diff(parent, policy)
        entries.append(
            {
                "route": policy.route,
                "version": policy.version,
                "parent": policy.parent,
                "author": policy.author,
                "step": policy.step,
                "message": policy.message,
                "rules": [_rule_as_plain(memory, rule) for rule in policy.rules],
                "added": [text for sign, text in diff if sign == "+"],
                "removed": [text for sign, text in diff if sign == "-"],
                "use": dataclasses.asdict(use),
            }
        )
    return entries


def version_as_text(memory: Memory, policy: Policy) -> str:
    """Return one version with each rule's cases spelled out."""
    used = uses(memory).get((policy.route, policy.version), VersionUse())
    parts = [f"{_title(policy)}\n{_served(used)}"]
    for rule in policy.rules:
        pinned = ", pinned" if rule.pinned else ""
        lines = [f"- {clean(rule.text)}", f"  {rule.id}, by {rule.author}{pinned}"]
        rows = []
        for id in rule.sources:
            rollout, feedback = memory.rollout(id), memory.feedback(id)
            word = mark(verdict_word(memory, rollout, feedback))
            said = feedback.text if feedback else ""
            rows.append((f"    {word} step {rollout.step}", clip(rollout.key, 56), clip(said)))
        parts.append("\n".join([*lines, columns(rows)]).rstrip())
    return "\n\n".join(parts)


def _entry(memory: Memory, policy: Policy, parent: Policy | None, used: Uses) -> Iterator[str]:
    yield _title(policy)
    yield _served(used.get((policy.route, policy.version), VersionUse()))
    if parent is not None:
        before = used.get((parent.route, parent.version), VersionUse())
        if before.judged:
            yield f"before: {share(before.score)} of {before.judged} judged under @{parent.version}"
    if policy.message:
        yield f"\n    {clean(policy.message)}\n"
    sources = {rule.text: rule.sources for rule in policy.rules}
    for sign, text in _diff(parent, policy):
        line = f"  {sign} {clean(text)}"
        colour = {"+": "green", "-": "red"}.get(sign)
        yield click.style(line, fg=colour) if colour else line
        if sign == "+" and sources.get(text):
            yield f"      from {_cases(memory, sources[text])}"
    yield ""


def _title(policy: Policy) -> str:
    parent = f", after @{policy.parent}" if policy.parent else ""
    head = heading(f"{policy.route}@{policy.version}")
    return f"{head}  by {policy.author}, step {policy.step}{parent}"


def _served(use: VersionUse) -> str:
    if not use.steps:
        return "in force: not yet for any step"
    shown = ", ".join(str(step) for step in use.steps[:8]) + (", …" if len(use.steps) > 8 else "")
    judged = f": {share(use.score)} of {use.judged} judged" if use.judged else ""
    return f"in force: step{'s' * (len(use.steps) > 1)} {shown}{judged}"


def _cases(memory: Memory, ids: tuple[str, ...]) -> str:
    """Name a few cases by step and verdict; ``policy show`` spells all of them out."""
    named = []
    for id in ids[:6]:
        rollout = memory.rollout(id)
        named.append(
            f"step {rollout.step} {mark(verdict_word(memory, rollout, memory.feedback(id)))}"
        )
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return ", ".join(named) + more


def _diff(parent: Policy | None, policy: Policy) -> list[tuple[str, str]]:
    before = [rule.text for rule in parent.rules] if parent else []
    after = [rule.text for rule in policy.rules]
    marks = {"equal": (" ",), "delete": ("-",), "insert": ("+",), "replace": ("-", "+")}
    out: list[tuple[str, str]] = []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for sign in marks[tag]:
            texts = after[j1:j2] if sign in "+ " else before[i1:i2]
            out.extend((sign, text) for text in texts)
    return out


def _by_number(memory: Memory) -> dict[tuple[str, int], Policy]:
    return {(policy.route, policy.version): policy for policy in memory.policies()}


def _rule_as_plain(memory: Memory, rule: Rule) -> dict[str, Any]:
    return {
        **dataclasses.asdict(rule),
        "cases": [
            {"rollout_id": id, "step": memory.rollout(id).step, "key": memory.rollout(id).key}
            for id in rule.sources
        ],
    }
