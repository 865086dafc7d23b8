"""The policies of a run: what stood at a step, and what changed between versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drpg_dspy.analysis.series import Series
from drpg_dspy.arguments import whole
from drpg_dspy.types import Policy

__all__ = ["Change", "InForce", "changes", "policies_at"]


@dataclass(frozen=True, slots=True)
class InForce:
    """A policy in force at a step.

    Attributes:
        step: The step.
        routes: The routes that had it: the same rules are listed once.
        policy: The first of these routes' policy.
    """

    step: int
    routes: tuple[str, ...]
    policy: Policy


@dataclass(frozen=True, slots=True)
class Change:
    """What one version changed against the one in force before.

    Attributes:
        which: ``"first"``, ``"best"``, ``"last"``, joined where one version is several of them.
        routes: The routes whose policies changed alike.
        policy: The version.
        removed, added, kept: Texts of rules.
    """

    which: str
    routes: tuple[str, ...]
    policy: Policy
    removed: tuple[str, ...]
    added: tuple[str, ...]
    kept: tuple[str, ...]


def policies_at(policies: Sequence[Policy], series: Series, step: int = 100) -> list[InForce]:
    """Return the policies in force at a step, or at the last one of a run that is shorter.

    Args:
        policies: The run's (:meth:`.Memory.policies`).
        series: The run's steps.
        step: From 1.

    Raises:
        ValueError: The step is smaller than 1.
    """
    whole("step", step, 1)
    if not len(series):
        return []
    at = max(0, int(np.searchsorted(series.steps, step, side="right")) - 1)
    numbered = _numbered(policies)
    found: dict[tuple[str, ...], list[Policy]] = {}
    for route, versions in series.versions.items():
        policy = numbered.get((route, int(versions[at])))
        if policy is not None and policy.rules:
            found.setdefault(_texts(policy), []).append(policy)
    number = int(series.steps[at])
    return [InForce(number, tuple(p.route for p in alike), alike[0]) for alike in found.values()]


def changes(policies: Sequence[Policy], series: Series) -> list[Change]:
    """Return what changed in each route's first, best and last change of its policy.

    The first is the second version's: the first has nothing before it, and is shown, as all
    added, only where it stayed the only one. The best version is the one in force where the
    rolling score peaked.

    Args:
        policies: The run's, oldest first.
        series: The run's steps.
    """
    found: list[Change] = []
    for change in _all_changes(policies, series):
        texts = (change.which, change.removed, change.added, change.kept)
        for place, other in enumerate(found):
            if texts == (other.which, other.removed, other.added, other.kept):
                routes = (*other.routes, *change.routes)
                found[place] = Change(other.which, routes, other.policy, *texts[1:])
                break
        else:
            found.append(change)
    return found


def _all_changes(policies: Sequence[Policy], series: Series) -> Iterator[Change]:
    numbered = _numbered(policies)
    best = _best_versions(series)
    for route in dict.fromkeys(policy.route for policy in policies):
        versions = [policy for policy in policies if policy.route == route]
        chosen: dict[int, list[str]] = {}
        first = next((policy for policy in versions if policy.parent), versions[0])
        for which, version in (
            ("first", first.version),
            ("best", best.get(route, 0)),
            ("last", versions[-1].version),
        ):
            if (route, version) in numbered:
                chosen.setdefault(version, []).append(which)
        for version, names in chosen.items():
            policy = numbered[route, version]
            yield _change(", ".join(names), numbered.get((route, policy.parent)), policy)


def _change(which: str, parent: Policy | None, policy: Policy) -> Change:
    """The order of rules is no change."""
    before = _texts(parent) if parent is not None else ()
    after = _texts(policy)
    return Change(
        which,
        (policy.route,),
        policy,
        removed=tuple(text for text in before if text not in after),
        added=tuple(text for text in after if text not in before),
        kept=tuple(text for text in after if text in before),
    )


def _best_versions(series: Series) -> dict[str, int]:
    curve = series.rolling()
    if not len(curve.steps):
        return {}
    at = int(np.searchsorted(series.steps, curve.steps[int(np.argmax(curve.mean))]))
    return {route: int(versions[at]) for route, versions in series.versions.items()}


def _numbered(policies: Sequence[Policy]) -> Mapping[tuple[str, int], Policy]:
    return {(policy.route, policy.version): policy for policy in policies}


def _texts(policy: Policy) -> tuple[str, ...]:
    return tuple(rule.text for rule in policy.rules)
