"""From instructions to the guidance of one call, and from a rollout back to its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from drpg_dspy.optimizers.corrections.instructions import Instruction, PolicyMemory
from drpg_dspy.types import Guidance, Policy, Rollout, Rule

__all__ = ["GIVEN", "STANDING", "WITHHELD", "guide", "named"]

GIVEN, WITHHELD, STANDING = "given", "withheld", "standing"
"""Purposes in ``Guidance.retrieved``, each followed by an instruction's id: it was drawn for this
call, it was drawn not to be in it, or it stands in it and nothing was drawn. The ids behind are
those of the failures that the instruction came from."""

AUTHOR = "nlpg"


def guide(
    instructions: PolicyMemory,
    routes: Iterable[str],
    category: str,
    draw: Callable[[Instruction], bool | None],
) -> Guidance:
    """Return each route's policy for one call.

    Args:
        instructions: The policy memory.
        routes: The program's.
        category: Of the call.
        draw: Whether the call gets an instruction; ``None`` = nothing is drawn for it.
    """
    instructions = instructions.snapshot()  # no two modules see different versions
    policies: dict[str, Policy] = {}
    told: dict[str, tuple[str, ...]] = {}
    counts: Counter[str] = Counter()
    for route in routes:
        chosen = instructions.select(route, category, draw)
        if chosen.shown:
            policies[route] = _policy(instructions, route, category, chosen.shown)
            counts["instructions_shown"] += len(chosen.shown)
        drawn = {one.id for one in chosen.given}
        standing = [one for one in chosen.shown if one.id not in drawn]
        for purpose, ones in (
            (GIVEN, chosen.given), (WITHHELD, chosen.withheld), (STANDING, standing)
        ):  # fmt: skip
            told.update({f"{purpose} {one.id}": one.sources for one in ones})
        counts["instructions_given"] += len(chosen.given)
        counts["instructions_withheld"] += len(chosen.withheld)
    if category and len(instructions) and not instructions.knows(category):
        counts["category_unseen"] += 1
    return Guidance(policies, retrieved=told, counts={k: n for k, n in counts.items() if n})


def for_good(instructions: PolicyMemory, routes: Iterable[str]) -> Guidance:
    """Return what a program keeps when learning ends: accepted instructions, the general first.

    One that is for a category says so in its words. The bounds are those of a call.
    """
    policies = {}
    for route in routes:
        own = [
            one
            for one in instructions
            if one.status == "accepted" and one.is_for(route) and one.score >= 0
        ]
        own.sort(key=lambda one: (one.category != "", -one.score, -one.cases, one.id))
        policy = Policy(route, author=AUTHOR)
        for one in own:
            text = f"For inputs of the kind {one.category!r}: {one.text}"
            rule = Rule(
                text if one.category else one.text, one.id, author=one.author, sources=one.sources
            )
            longer = replace(policy, rules=(*policy.rules, rule))
            fits = len(longer.text) <= instructions.max_chars
            policy = longer if fits and len(longer.rules) <= instructions.most else policy
        if policy.rules:
            policies[route] = policy
    return Guidance(policies)


def named(rollout: Rollout) -> Iterator[tuple[str, str]]:
    """Yield what was done with which instruction in a call."""
    for purpose in rollout.guidance.retrieved:
        done, _, id = purpose.partition(" ")
        if id and done in (GIVEN, WITHHELD, STANDING):
            yield done, id


def _policy(
    instructions: PolicyMemory, route: str, category: str, shown: Sequence[Instruction]
) -> Policy:
    made = [instructions.rule(one) for one in shown]
    parts = [f"category {category!r}"] if category else []
    cases = sum(one.cases for one in shown)
    parts.append(f"{_counted(len(shown), 'instruction')} from {_counted(cases, 'failure')}")
    parts += [standing for _, standing in made]
    return Policy(route, tuple(rule for rule, _ in made), author=AUTHOR, message="; ".join(parts))


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
