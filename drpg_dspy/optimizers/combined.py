"""People's constraints together with any method that learns."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from drpg_dspy.memory.base import Memory, MemoryView
from drpg_dspy.optimizers.around import Around
from drpg_dspy.optimizers.base import OnlineOptimizer, Rerun, Revision
from drpg_dspy.optimizers.constraints import ConstraintAdapter
from drpg_dspy.optimizers.standing.learned import Screened, screen, without_violations
from drpg_dspy.types import Guidance, ProgramCard

__all__ = ["Combined"]


class Combined(Around):
    """Constraints of people together with any method that learns; the people's outrank it.

    A route's policy is its constraints in force, then the rules that were learned. A learned rule
    that contradicts a constraint in force there is left out, and the drop is on record: counted
    in the rollout (``learned_rules_dropped``), named in it (purpose ``"dropped RULE_ID"`` of what
    was retrieved, with the cases behind the rule), and kept with its reason (:meth:`dropped`).
    One that repeats a constraint is left out as well, and so are examples whose answer violates a
    constraint in force: they would teach to violate it. The final answer is checked and repaired
    as :class:`ConstraintAdapter` does.

    Args:
        rules: The constraints; kept changing by people as they like.
        optimizer: The method that learns.

    Raises:
        ValueError: An argument is of the wrong kind.

    Whether a learned rule contradicts a constraint is told by rule where possible; where ``rules``
    has a ``policy_lm``, it is asked about the others, once for the same rules and constraints;
    where it has none, they are kept and counted (``learned_rules_not_compared``).
    """

    name = "combined"

    def __init__(self, rules: ConstraintAdapter, optimizer: OnlineOptimizer) -> None:
        if not isinstance(rules, ConstraintAdapter):
            raise ValueError(f"rules must be a ConstraintAdapter, got {rules!r}.")
        if not isinstance(optimizer, OnlineOptimizer):
            raise ValueError(f"optimizer must be the method that learns, got {optimizer!r}.")
        if isinstance(optimizer, (Combined, ConstraintAdapter)):
            raise ValueError(f"The constraints are in rules already; optimizer is {optimizer!r}.")
        self.rules = rules
        self.optimizer = optimizer

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step: the method's, the repairs, and one to compare learned rules."""
        routes = len(self.card.routes) if self.card is not None else 1
        asks = routes if self.rules.policy_lm is not None else 0
        return self.optimizer.max_lm_calls + self.rules.max_lm_calls + asks

    def fresh(self) -> Combined:
        """Return the same constraints with a method that knows nothing."""
        return Combined(self.rules.fresh(), self.optimizer.fresh())

    def bind(self, card: ProgramCard) -> None:
        """Bind both."""
        super().bind(card)
        self.rules.bind(card)

    def bind_memory(self, memory: Memory) -> None:
        """Let both know."""
        super().bind_memory(memory)
        self.rules.bind_memory(memory)

    def equip(self, rerun: Rerun) -> None:
        """Hand the program on to both."""
        super().equip(rerun)
        self.rules.equip(rerun)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the constraints and what of the method's guidance goes with them."""
        return self._joined(self.optimizer.propose(inputs, memory), memory)

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the constraints and the method's examples, no learned rule."""
        return self._joined(self.optimizer.propose_plain(inputs, memory), memory)

    @property
    def revises(self) -> bool:
        """Whether either does."""
        return bool(self.optimizer.revises or self.rules.revises)

    def revise(
        self, inputs: Mapping[str, Any], answer: Any, guidance: Guidance, memory: MemoryView
    ) -> Revision:
        """Let the method revise the answer, then check it against the constraints."""
        counts: Counter[str] = Counter()
        failure: Exception | None = None
        for part in (self.optimizer, self.rules):
            if part.revises:
                try:
                    revision = part.revise(inputs, answer, guidance, memory)
                except Exception as raised:  # noqa: BLE001 - people's rules are checked all the same
                    revision = Revision(answer, failure=raised)
                answer = revision.answer
                counts.update(revision.counts)
                failure = failure or revision.failure
        return Revision(answer, dict(counts), failure)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the constraints, and what the method keeps that goes with them."""
        return self._joined(self.optimizer.consolidate(memory), memory)

    def dropped(self, memory: MemoryView, rule_id: str) -> Mapping[str, Any] | None:
        """Return on what grounds a learned rule was left out last.

        Args:
            memory: The learner's.
            rule_id: The rule's id, as in the purpose ``"dropped RULE_ID"`` of a rollout.

        Returns:
            Its text, the constraint and the reason; ``None`` = it never was.
        """
        text = memory.recall(_dropped_key(rule_id))
        found: Mapping[str, Any] | None = None if text is None else json.loads(text)
        return found

    def _joined(self, learned: Guidance, memory: MemoryView) -> Guidance:
        people = self.rules.policies(memory)
        if not people:
            return learned
        registry, now = self.rules.registry(memory), time.time()
        policies = {**learned.policies, **people}
        screened = Screened()
        for route, policy in people.items():
            own = learned.policies.get(route)
            if own is None:
                continue
            standing = registry.in_force(route, now)
            kept = screen(own.rules, standing, self.rules.policy_lm, memory, screened)
            said = [f"{len(policy.rules)} constraints", own.message, *screened.said(own.rules)]
            policies[route] = dataclasses.replace(
                own, rules=(*policy.rules, *kept), message="; ".join(filter(None, said))
            )
        shots, violating = without_violations(
            learned.shots, registry, self.require_card(), self.rules.field, now
        )
        counts = {**screened.counts, "examples_dropped": violating}
        notes = {_dropped_key(id): json.dumps(why) for id, why in screened.dropped.items()}
        return dataclasses.replace(
            learned,
            policies=policies,
            shots=shots,
            retrieved={**learned.retrieved, **screened.retrieved},
            usage=learned.usage + screened.usage,
            memo={**learned.memo, **screened.memo, **notes},
        ).counting({name: n for name, n in counts.items() if n})


def _dropped_key(rule_id: str) -> str:
    return f"constraints:dropped:{rule_id}"
