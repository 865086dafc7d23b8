"""What people decided, put upon what an optimizer proposes."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Iterable, Sequence

from drpg_dspy.exceptions import StorageError
from drpg_dspy.governance.state import KEY, State
from drpg_dspy.memory import Memory
from drpg_dspy.types import CANDIDATE, Guidance, Policy, Rule

__all__ = ["Applier", "with_pinned"]

_log = logging.getLogger(__name__)

_SEEN_AT_MOST = 10_000


class Applier:
    """Stands between an optimizer and the program.

    Reads the memory once for each call: a decision made in another process holds from the next
    call on. Without decisions a guidance passes as it is.

    Args:
        memory: Where decisions and versions are.

    Attributes:
        unnoted: Candidates that could not be stored; the call went on without.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.unnoted = 0
        self._text: str | None = None
        self._state = State()
        self._noted: set[tuple[str, str, int]] = set()
        self._lock = threading.Lock()

    def state(self) -> State:
        """Return what was decided up to now."""
        text = self.memory.recall(KEY)
        with self._lock:
            if text != self._text:
                self._text, self._state = text, State.decode(text)
            return self._state

    def holds(self, routes: Sequence[str], state: State | None = None) -> bool:
        """Tell whether no route would get what an optimizer proposes, approved or not.

        Args:
            routes: The program's.
            state: What was decided, where it has been read already.
        """
        if state is None:
            state = self.state()
        return (
            bool(routes)
            and not state.approval
            and all(state.route(route).standing is not None for route in routes)
        )

    def apply(
        self, guidance: Guidance, routes: Iterable[str], state: State | None = None
    ) -> Guidance:
        """Return the guidance that a call gets.

        A held route gets its standing version; where approval is required, one that nobody has
        approved yet gets none, and what was proposed becomes a candidate. Pinned rules come first
        in whatever a route gets. Constraints in force are put before all of it and need no
        approval, and a version from when others were in force does not bring those back.

        Args:
            guidance: What the optimizer proposed.
            routes: The program's.
            state: What was decided, where the guidance was made under a reading of it.
        """
        if state is None:
            state = self.state()
        if state.idle:
            return guidance
        policies = dict(guidance.policies)
        for route in routes:
            governed = state.route(route)
            proposed, required = _parted(policies.pop(route, None))
            served = proposed
            if governed.standing is not None or state.approval:
                stored = self.memory.policy(route, governed.standing) if governed.standing else None
                served, _ = _parted(stored)
                if state.approval and proposed is not None and _differs(proposed, served):
                    self._note(route, proposed, served, governed.standing or 0)
            if governed.pinned:
                served = with_pinned(served, governed.pinned, route)
            if required:
                served = with_pinned(served, required, route)
            if served is not None:
                policies[route] = served
        return dataclasses.replace(guidance, policies=policies)

    def _note(self, route: str, proposed: Policy, served: Policy | None, stands: int) -> None:
        """Keep a proposed policy as a candidate, once for each version that stands meanwhile."""
        name = (route, proposed.text, stands)
        with self._lock:
            if name in self._noted:
                return
            if len(self._noted) >= _SEEN_AT_MOST:
                self._noted.clear()
            self._noted.add(name)
        message = f"{CANDIDATE}: {proposed.message}".rstrip(": ")
        step = self.memory.count_rollouts() + 1
        candidate = dataclasses.replace(proposed, route=route, message=message, step=step)
        # What is in force stays in force: it is named last.
        standing = served or Policy(route, author="governance", message="no policy approved yet")
        try:
            stored = self.memory.amend(KEY, lambda text: ({}, [candidate, standing]))[0]
            if stored.author.startswith("person:"):
                return
            self.memory.amend(KEY, lambda text: (_with_candidate(text, stored), []))
        except StorageError as error:
            self.unnoted += 1
            with self._lock:
                self._noted.discard(name)
            _log.warning("A candidate for %s could not be kept: %s", route, error)


def with_pinned(policy: Policy | None, pinned: Sequence[Rule], route: str) -> Policy:
    """Return a policy whose first rules are the pinned ones.

    >>> bare = with_pinned(None, [Rule("Never join twice.", pinned=True)], "predict")
    >>> bare.text
    '- Never join twice.'
    """
    texts = {rule.text for rule in pinned}
    if policy is None:
        return Policy(route, tuple(pinned), author=pinned[0].author, message="pinned rules")
    learned = tuple(rule for rule in policy.rules if rule.text not in texts)
    return dataclasses.replace(policy, rules=(*pinned, *learned))


def _with_candidate(text: str | None, stored: Policy) -> dict[str, str]:
    state = State.decode(text)
    governed = state.route(stored.route)
    stands = governed.standing or 0
    # One that waits already is learned anew once another version stands.
    waits = governed.candidates.get(stored.version) == stands
    if waits or stored.version == stands or governed.rejected.get(stored.version) == stands:
        return {}
    return {KEY: state.with_candidate(stored.route, stored.version).encode()}


def _parted(policy: Policy | None) -> tuple[Policy | None, tuple[Rule, ...]]:
    """Return a policy without its constraints (``None`` = nothing else is in it), and these."""
    if policy is None:
        return None, ()
    required = tuple(rule for rule in policy.rules if rule.required)
    if not required:
        return policy, ()
    others = tuple(rule for rule in policy.rules if not rule.required)
    return (dataclasses.replace(policy, rules=others) if others else None), required


def _differs(proposed: Policy, served: Policy | None) -> bool:
    return bool(proposed.rules) and (served is None or proposed.text != served.text)
