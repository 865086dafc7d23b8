"""From instructions to the guidance of one call, and from a rollout back to its instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from drpg_dspy.optimizers.corrections.instructions import Instruction, PolicyMemory
from drpg_dspy.types import Guidance, Policy, Rollout, Rule

__all__ = ["GIVEN", "STANDING", "WITHHELD", "Draw", "for_good", "guide", "named"]

GIVEN, WITHHELD, STANDING = "given", "withheld", "standing"
"""Purposes in ``Guidance.retrieved``, each followed by an instruction's id: it was drawn for this
call, it was drawn not to be in it, or it stands in it and nothing was drawn. The ids behind are
those of the failures that the instruction came from."""

AUTHOR = "nlpg"

Draw = Callable[[Sequence[Instruction]], tuple[bool | None, ...]]
"""Says for each instruction whether the call gets it; ``None`` = nothing is drawn for it."""


def guide(
    instructions: PolicyMemory,
    routes: Iterable[str],
    category: str,
    draw: Draw,
) -> Guidance:
    """Return each route's policy for one call.

    Args:
        instructions: The policy memory.
        routes: The program's.
        category: Of the call.
        draw: Draws for all that a route may get.
    """
    instructions = instructions.snapshot()  # no two modules see different versions
    policies: dict[str, Policy] = {}
    told: dict[str, tuple[str, ...]] = {}
    shown = given = withheld = 0
    for route in routes:
        pool = instructions.pool(route, category)
        if not pool:
            continue
        drawn = draw(pool)
        part = instructions.made(
            (route, category, drawn),
            lambda: _part(instructions, route, category, drawn),  # noqa: B023 - made at once
        )
        if part.policy is not None:
            policies[route] = part.policy
        told.update(part.told)
        shown, given = shown + part.shown, given + part.given
        withheld += part.withheld
    counts = {
        "instructions_shown": shown,
        "instructions_given": given,
        "instructions_withheld": withheld,
        "category_unseen": int(
            category != "" and len(instructions) > 0 and not instructions.knows(category)
        ),
    }
    return Guidance(policies, retrieved=told, counts={k: n for k, n in counts.items() if n})


@dataclass(frozen=True, slots=True)
class _Part:
    """One route's part of a guidance."""

    policy: Policy | None
    told: Mapping[str, tuple[str, ...]]
    shown: int
    given: int
    withheld: int


def _part(
    instructions: PolicyMemory, route: str, category: str, drawn: tuple[bool | None, ...]
) -> _Part:
    chosen = instructions.select(instructions.pool(route, category), drawn)
    given = {one.id for one in chosen.given}
    standing = [one for one in chosen.shown if one.id not in given]
    purposes = ((GIVEN, chosen.given), (WITHHELD, chosen.withheld), (STANDING, standing))
    return _Part(
        _policy(route, chosen.shown) if chosen.shown else None,
        {f"{purpose} {one.id}": one.sources for purpose, ones in purposes for one in ones},
        len(chosen.shown),
        len(chosen.given),
        len(chosen.withheld),
    )


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


def _policy(route: str, shown: Sequence[Instruction]) -> Policy:
    rules = tuple(
        Rule(one.text, id=one.id, author=one.author, sources=one.sources) for one in shown
    )
    cases = sum(one.cases for one in shown)
    # As narrow as the narrowest instruction: inputs without one share the route's own policy.
    kind = max((one.category for one in shown), key=len)
    parts = [f"category {kind!r}"] if kind else []
    parts.append(f"{_counted(len(shown), 'instruction')} from {_counted(cases, 'failure')}")
    parts += [one.standing for one in shown]
    return Policy(route, rules, author=AUTHOR, message="; ".join(parts), category=kind)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
