"""People's decisions on policies, from Python; the command line says the same."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from drpg_dspy.exceptions import OutdatedCandidate
from drpg_dspy.governance.reading import PolicyReader
from drpg_dspy.governance.state import KEY, MOST_CANDIDATES, Decision, State
from drpg_dspy.governance.texts import changed, one_rule, rules_from
from drpg_dspy.types import Policy, Rule

__all__ = ["Governance"]


class Governance(PolicyReader):
    """Reads and decides on the policies of one memory.

    A version is a distinct text of a route's policy; it keeps its number when it comes back.
    Every decision is logged with its author and reason, and holds for every process that shares
    the memory, from its next call on.

    Args:
        memory: Of a learner or run; it needs no embedder.
        routes: The program's, where they are known; a memory names those that it was filled by.
    """

    def approve(self, spec: str, *, author: str, reason: str = "") -> Decision:
        """Let a candidate stand for its route.

        Raises:
            OutdatedCandidate: Another version stands than when it was learned; the message
                shows what changed.
            ValueError: It is no candidate, or there is no such version.
        """
        policy = self.show(spec)
        route, version = policy.route, policy.version
        waiting, stands = self._waiting(policy)
        if stands != waiting[version]:
            raise OutdatedCandidate(self._outdated(policy, waiting[version], stands))

        def decide(state: State) -> State:
            left = dict(state.route(route).candidates)
            if left.pop(version, None) != stands or (state.route(route).standing or 0) != stands:
                raise OutdatedCandidate(
                    f"Somebody else decided on {route} at this moment; look at it again."
                )
            return state.with_route(route, standing=version, candidates=left)

        return self._decide(decide, "approve", route, version, author, reason)

    def reject(self, spec: str, *, author: str, reason: str = "") -> Decision:
        """Let a candidate wait no longer, nor again while what stands now stands."""
        policy = self.show(spec)
        self._waiting(policy)

        def decide(state: State) -> State:
            governed = state.route(policy.route)
            left = {v: was for v, was in governed.candidates.items() if v != policy.version}
            no = {**governed.rejected, policy.version: governed.standing or 0}
            no = dict(list(no.items())[-MOST_CANDIDATES:])
            return state.with_route(policy.route, candidates=left, rejected=no)

        return self._decide(decide, "reject", policy.route, policy.version, author, reason)

    def pin(self, route: str, rule: str, *, author: str, reason: str = "") -> Decision:
        """Give every call of a route a rule, whatever its optimizer proposes.

        Args:
            route: The route.
            rule: The text of a new rule (one line: line breaks become blanks), or the id or
                text of one that the route had.
            author: Who decides, e.g. ``"person:ada"``.
            reason: Why.

        Raises:
            ValueError: There is no such route, no author, or a new rule is empty, a list of
                several, longer than :data:`drpg_dspy.arguments.LONGEST_RULE` characters, or
                holds a control character.
        """
        _check_author(author)
        self._check_route(route)
        known = self._known(route)
        found = known.get(rule) or Rule(one_rule(rule), author=author)
        pinned = dataclasses.replace(found, pinned=True)
        now = self.current(route)
        others = [one for one in now.rules if one.text != pinned.text] if now else []
        message = reason or f"pinned: {pinned.text}"
        version = self._store(Policy(route, (pinned, *others), author=author, message=message))

        def decide(state: State) -> State:
            governed = state.route(route)
            kept = tuple(one for one in governed.pinned if one.text != pinned.text)
            changes = {} if governed.standing is None else {"standing": version}
            return state.with_route(route, pinned=(*kept, pinned), **changes)

        return self._decide(decide, "pin", route, version, author, reason)

    def unpin(self, route: str, rule: str, *, author: str, reason: str = "") -> Decision:
        """Take a pinned rule's pin away; where a version is held, it stays part of that.

        Elsewhere a rule by a person goes with its pin; one that was learned is the optimizer's
        again.

        Raises:
            ValueError: No such rule is pinned.
        """
        without = self._without_pin(route, rule, author)

        def decide(state: State) -> State:
            pinned = state.route(route).pinned
            left = tuple(one for one in pinned if rule not in (one.id, one.text))
            if len(left) == len(pinned):
                has = "; ".join(f"{one.id}: {one.text}" for one in pinned) or "none"
                raise ValueError(f"{route} has no pinned rule {rule!r}. Pinned: {has}.")
            return state.with_route(route, pinned=left)

        return self._decide(decide, "unpin", route, 0, author, reason, without)

    def edit(
        self, route: str, text: str | Iterable[str], *, author: str, reason: str = ""
    ) -> Decision:
        """Write a route's policy; it stands until somebody decides otherwise (:meth:`thaw`).

        Args:
            route: The route.
            text: Its rules, or a text with one on each line; empty = no policy.
            author: Who decides.
            reason: Why.

        Raises:
            ValueError: There is no such route, no author, or a new rule is longer than
                :data:`drpg_dspy.arguments.LONGEST_RULE` characters or holds a control
                character; nothing was changed.
        """
        _check_author(author)
        self._check_route(route)
        if not isinstance(text, str):
            known = self._known(route)
            text = "\n".join(f"- {rule if rule in known else one_rule(rule)}" for rule in text)
        rules = self._written(route, text, author)
        version = 0
        if rules:
            version = self._store(Policy(route, rules, author=author, message=reason or "edited"))
        return self._hold("edit", route, version, author, reason)

    def rollback(self, spec: str, *, author: str, reason: str = "") -> Decision:
        """Let an earlier version stand again, until somebody decides otherwise.

        Raises:
            ValueError: There is no such version; the message names those that exist.
        """
        policy = self.show(spec)
        return self._hold("rollback", policy.route, policy.version, author, reason)

    def freeze(self, route: str = "", *, author: str, reason: str = "") -> Decision:
        """Hold a route, or every one, at its current version: nothing learned is used.

        Where nothing else would be used either, no policy is written any more, and its LM calls
        are saved.

        Raises:
            ValueError: There is no such route, or none is known yet.
        """
        names = self._chosen(route)
        if not names:
            raise ValueError(
                "There is nothing to freeze: no call of the program is on record yet, so its "
                "routes are not known. Freeze after its first call, or from the program itself."
            )
        current = {name: self.current(name) for name in names}
        versions = {name: policy.version if policy else 0 for name, policy in current.items()}

        def decide(state: State) -> State:
            for name, version in versions.items():
                state = state.with_route(name, standing=version)
            return state

        return self._decide(decide, "freeze", route, versions.get(route, 0), author, reason)

    def thaw(self, route: str = "", *, author: str, reason: str = "") -> Decision:
        """Let the optimizer go on; where approval is required, nothing stands until approved."""
        names = self._chosen(route)

        def decide(state: State) -> State:
            for name in names:
                state = state.with_route(name, standing=None)
            return state

        return self._decide(decide, "thaw", route, 0, author, reason)

    def require_approval(self, required: bool = True, *, author: str, reason: str = "") -> Decision:
        """Let learned versions wait until somebody approves them.

        A route that has a policy now keeps it until then. With ``required=False`` optimizers go
        on by themselves from the next call on; versions that people hold are held.
        """
        statuses = self.status() if required else []
        used = {one.route: one.last.version for one in statuses if one.last and not one.held}

        def decide(state: State) -> State:
            if required and not state.approval:
                for name, version in used.items():
                    state = state.with_route(name, standing=version)
            return dataclasses.replace(state, approval=required)

        action = "require approval" if required else "drop approval"
        return self._decide(decide, action, "", 0, author, reason)

    def take_up(
        self, route: str, text: str, what: str, number: int, *, author: str, reason: str
    ) -> bool:
        """Let a text from a registry stand, once; return whether it was this call's to do.

        Args:
            route: Its route.
            text: The policy.
            what: Under which name it is remembered as seen, with its number there.
            number: Its number in the registry.
            author: Who made it.
            reason: Why.

        Raises:
            ValueError: A new rule is too long or not plain text, as for :meth:`edit`; nothing
                was changed.
        """
        rules = self._written(route, text, author)
        version = 0
        if rules:
            version = self._store(Policy(route, rules, author=author, message=reason))
        entry = Decision(0, "take up", route, version, author, reason, time.time())
        done = False

        def amendment(kept: str | None) -> tuple[dict[str, str], tuple[Policy, ...]]:
            nonlocal done
            state = State.decode(kept)
            governed = state.route(route)
            done = governed.seen.get(what) != number
            if not done:
                return {}, ()
            left = {v: parent for v, parent in governed.candidates.items() if v != version}
            seen = {**governed.seen, what: number}
            state = state.with_route(route, standing=version, candidates=left, seen=seen)
            return {KEY: state.deciding(entry).encode()}, ()

        self.memory.amend(KEY, amendment)
        return done

    def mark_seen(self, route: str, what: str, number: int) -> None:
        """Remember that something in a registry was seen, and change nothing."""

        def amendment(kept: str | None) -> tuple[dict[str, str], tuple[Policy, ...]]:
            state = State.decode(kept)
            seen = {**state.route(route).seen, what: number}
            return {KEY: state.with_route(route, seen=seen).encode()}, ()

        self.memory.amend(KEY, amendment)

    def _written(self, route: str, text: str, author: str) -> tuple[Rule, ...]:
        """Return the rules of a text by a person, without the constraints that it was shown with.

        Those are not the text's to keep: left in it, they would outlive their deletion.
        """
        now = self.current(route)
        required = {rule.text for rule in now.rules if rule.required} if now else set()
        rules = rules_from(text, author, self._known(route).values())
        return tuple(rule for rule in rules if rule.text not in required)

    def _hold(self, action: str, route: str, version: int, author: str, reason: str) -> Decision:
        def decide(state: State) -> State:
            waiting = state.route(route).candidates
            left = {number: parent for number, parent in waiting.items() if number != version}
            return state.with_route(route, standing=version, candidates=left)

        return self._decide(decide, action, route, version, author, reason)

    def _decide(
        self,
        change: Callable[[State], State],
        action: str,
        route: str,
        version: int,
        author: str,
        reason: str,
        policies: Sequence[Policy] = (),
    ) -> Decision:
        _check_author(author)
        entry = Decision(0, action, route, version, author, reason, time.time())
        made: dict[str, State] = {}

        def amendment(text: str | None) -> tuple[dict[str, str], tuple[Policy, ...]]:
            made["state"] = change(State.decode(text)).deciding(entry)
            return {KEY: made["state"].encode()}, tuple(policies)

        self.memory.amend(KEY, amendment)
        return made["state"].decisions[-1]

    def _without_pin(self, route: str, rule: str, author: str) -> list[Policy]:
        """Return what is in force from now on without a pin: nothing else where one is held."""
        now = None if self.state().route(route).standing is not None else self.current(route)
        if now is None:
            return []
        people = {decision.author for decision in self.log(route)}
        rules = [
            dataclasses.replace(one, pinned=False) if rule in (one.id, one.text) else one
            for one in now.rules
            if rule not in (one.id, one.text) or one.author not in people
        ]
        step = self.memory.count_rollouts() + 1
        return [Policy(route, tuple(rules), author=author, message=f"unpinned: {rule}", step=step)]

    def _store(self, policy: Policy) -> int:
        """Store a person's version; return its number."""
        step = self.memory.count_rollouts() + 1
        placed = dataclasses.replace(policy, step=step)
        return self.memory.amend(KEY, lambda text: ({}, [placed]))[0].version

    def _chosen(self, route: str) -> list[str]:
        if route:
            self._check_route(route)
        return [route] if route else self._names()

    def _waiting(self, policy: Policy) -> tuple[Mapping[int, int], int]:
        """Return a route's candidates and what stands, or refuse a version that is none."""
        governed = self.state().route(policy.route)
        if policy.version not in governed.candidates:
            raise ValueError(self._no_candidate(policy, governed.candidates))
        return governed.candidates, governed.standing or 0

    def _no_candidate(self, policy: Policy, waiting: Iterable[int]) -> str:
        others = ", ".join(f"{policy.route}@{version}" for version in waiting) or "none"
        return (
            f"{policy.route}@{policy.version} does not wait for approval; these do: {others}. "
            "To let another version stand: rollback."
        )

    def _outdated(self, policy: Policy, parent: int, stands: int) -> str:
        was = self.memory.policy(policy.route, parent) if parent else None
        now = self.memory.policy(policy.route, stands) if stands else None
        lines = "\n".join(f"  {sign} {text}" for sign, text in changed(was, now))
        before = f"{policy.route}@{parent}" if parent else "no policy"
        after = f"{policy.route}@{stands}" if stands else "no policy"
        return (
            f"{policy.route}@{policy.version} was learned when {before} stood, and now {after} "
            f"stands. What changed in between:\n{lines}\nLook at both, then edit the policy, or "
            "let this very version stand with rollback."
        )


def _check_author(author: str) -> None:
    """Refuse what names nobody, before anything is written."""
    good = isinstance(author, str) and author.strip() and author.isprintable()
    if not good:
        raise ValueError(
            f"A decision needs its author, a name in one line, e.g. 'person:ada', got {author!r}."
        )
