"""Constraints that people add, edit and withdraw, in force from the next call on."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, get_args

import dspy

from drpg_dspy.arguments import number, one_line, whole
from drpg_dspy.constraints import Constraint, is_refusal
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.memory.base import Memory, MemoryView
from drpg_dspy.optimizers.around import Around
from drpg_dspy.optimizers.base import OnlineOptimizer, Rerun, Revision
from drpg_dspy.optimizers.standing.answers import AnswerText
from drpg_dspy.optimizers.standing.cutting import cut
from drpg_dspy.optimizers.standing.desk import ConstraintDesk
from drpg_dspy.optimizers.standing.keeper import Keeper, OnConflict
from drpg_dspy.optimizers.standing.learned import Screened, screen, without_violations
from drpg_dspy.optimizers.standing.mending import Mend, mends
from drpg_dspy.optimizers.standing.registry import Registry, from_mapping
from drpg_dspy.optimizers.standing.repairing import Draft, mend, repair
from drpg_dspy.plain import digest
from drpg_dspy.types import Guidance, Policy, ProgramCard

__all__ = ["Combined", "ConstraintAdapter"]


class ConstraintAdapter(ConstraintDesk, OnlineOptimizer):
    """Give every call the constraints in force, and repair answers that violate them.

    The policy field of a route is rendered from the registry of the constraints in force there:
    in a fixed order, in their own words and no others. An edit replaces, a deletion removes, so
    nothing stale can remain. The registry is kept in the learner's memory and read at every call:
    a change from another thread or process (:meth:`open`, ``drpg constraints``) holds from the
    next call on. Every change is a policy version with its author.

    Where ``repair`` is not 0, a draft answer is checked against the constraints whose text states
    a rule (:func:`drpg_dspy.constraints.parse_rule`). What takes no writer (letters' case, commas,
    what the answer begins or ends with) is put right at once; of what is still violated the LM
    that answered is told, and writes the answer anew. What is too long after that, and wrong in
    nothing else, loses its last sentences, whole ones, if every constraint that has a rule holds
    then. An answer is only ever replaced by one that breaks nothing that held before and puts
    something right.

    Args:
        constraints: What is in force to begin with, where the memory's constraints were never
            changed: a mapping of type to text, or a list of :class:`.Constraint` or mappings of
            its fields.
        repair: LM calls at most for one answer, at least 0; 0 = answers are not looked at.
        repair_share: Share of the answers that an LM may be asked to repair, in (0, 1]: which
            ones is drawn by the call. A bound on what repairing costs on average.
        mend: What to put right without an LM, where answers are looked at: everything (``True``),
            nothing, or some of ``"case"``, ``"commas"``, ``"begin"``, ``"end"`` and ``"length"``;
            the last alone takes something away from what was said.
        on_conflict: ``"newest"``: a constraint that is added or edited overrides those that it
            contradicts: they are not in force where and as long as it is. ``"refuse"``: it is not
            put into force. Either is reported to whoever makes the change.
        policy_lm: The LM that is asked whether a change contradicts what is in force, where no
            rule can tell: one call for a change, none for an answer. ``None`` = nobody is asked,
            and the change says what nobody could tell.
        max_chars: Length of a route's policy, at least 50, hard.
        field: The output field that constraints speak of; ``""`` = the last text that the last
            predictor writes.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.

    At most ``repair`` LM calls a step.

    Source: ours, after the finding of "RECAP: Regression Evaluation for Continual Adaptation of
    Prompts" (2026) that no method beats a prompt that lists the active constraints. Its methods
    check nothing: compare them with ``repair=0``.

    >>> rules = ConstraintAdapter()
    >>> rules.add("Length", "Keep the answer under 200 words.", author="anna").message
    "add Length 'Keep the answer under 200 words.'"
    >>> rules.edit("Length", "Keep the answer under 120 words.").before.text
    'Keep the answer under 200 words.'
    >>> [one.text for one in rules.in_force()]
    ['Keep the answer under 120 words.']
    """

    name = "constraints"
    paper = "ours, after RECAP 2026, arXiv 2606.06698"
    writes_policies = False  # none of its own: what people put into force is never withheld

    def __init__(
        self,
        constraints: Mapping[str, str] | Sequence[Any] | None = None,
        *,
        repair: int = 1,
        repair_share: float = 1.0,
        mend: bool | Sequence[Mend] = True,
        on_conflict: OnConflict = "newest",
        policy_lm: dspy.BaseLM | None = None,
        max_chars: int = 10_000,
        field: str = "",
    ) -> None:
        if on_conflict not in get_args(OnConflict):
            raise ValueError(f"on_conflict must be 'newest' or 'refuse', got {on_conflict!r}.")
        if policy_lm is not None and not isinstance(policy_lm, dspy.BaseLM):
            raise ValueError(f"policy_lm must be a dspy.LM, got {policy_lm!r}.")
        if not isinstance(field, str):
            raise ValueError(f"field must be the name of an output field, got {field!r}.")
        self.constraints = constraints
        self.repair = whole("repair", repair, 0)
        self.repair_share = number("repair_share", repair_share, 0, 1)
        mends(mend)
        self.mend = mend
        self.on_conflict = on_conflict
        self.policy_lm = policy_lm
        self.max_chars = whole("max_chars", max_chars, 50)
        self.field = field
        self._keeper = Keeper(on_conflict, policy_lm, max_chars)
        self._rendered: tuple[Registry, float, dict[str, Policy]] | None = None
        for one in from_mapping(constraints or ()):
            text = one_line(f"The text of {one.type}", one.text)
            self._keeper.add(dataclasses.replace(one, text=text), one.author)

    @classmethod
    def open(cls, memory: Memory | str | PathLike[str], **options: Any) -> ConstraintAdapter:
        """Return an adapter on a memory that a learner uses, to change its constraints.

        In any process, also while the learner runs: what is changed holds from its next call on.

        Args:
            memory: The learner's memory, or its file.
            **options: Constructor arguments, e.g. ``on_conflict``.
        """
        given = memory if isinstance(memory, Memory) else SQLiteMemory(memory)
        adapter = cls(**options)
        adapter._keeper.bind(given, ())
        return adapter

    # -- serving ----------------------------------------------------------------------------

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step beside the program's own: the repairs."""
        return self.repair

    def bind_memory(self, memory: Memory) -> None:
        """Serve a memory; what was put into force before goes into it, unless it has its own.

        Raises:
            StorageError: The constraints cannot be written there.
            ValueError: This adapter serves another memory already.
        """
        served = self._keeper.memory
        if served is not None and served.place != memory.place:
            raise ValueError(
                f"This ConstraintAdapter serves the memory {served.place} already; construct "
                f"another one for {memory.place}, or a change would reach one of them only."
            )
        self._keeper.bind(memory, self.require_card().route_names)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the constraints in force as each route's policy."""
        return Guidance(self.policies(memory))

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the same: what people put into force is withheld from no call."""
        return self.propose(inputs, memory)

    @property
    def revises(self) -> bool:
        """Whether answers are looked at."""
        return bool(self.repair)

    def revise(
        self, inputs: Mapping[str, Any], answer: Any, guidance: Guidance, memory: MemoryView
    ) -> Revision:
        """Check the answer, put right what takes no writer, have the rest repaired, or cut.

        A refusal is given as it is, and counted.
        """
        found = AnswerText.of(answer, self.require_card(), self.field)
        if found is None:
            return Revision(answer)
        standing = self.registry(memory).in_force(found.route, time.time())
        draft = Draft.of(found.text, standing)
        counts = Counter({"constraints_checked": len(draft.checks)})
        counts["constraint_violations"] = len(draft.violated)
        if draft.violated and is_refusal(draft.text):
            counts["answers_declined"] = 1
        elif draft.violated:
            draft = self._repaired(draft, standing, inputs, memory, counts)
        counts["constraint_violations_left"] = len(draft.violated)
        kept = {name: count for name, count in counts.items() if count}
        return Revision(found.replaced(answer, draft.text), kept)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep the constraints in force."""
        return Guidance(self.policies(memory))

    def fresh(self) -> ConstraintAdapter:
        """Return an adapter of its own with the constraints in force: people put them there."""
        twin = ConstraintAdapter(**self.get_params())
        twin._keeper = Keeper(self.on_conflict, self.policy_lm, self.max_chars)
        for one in self.in_force():
            twin._keeper.add(one, one.author)
        return twin

    def registry(self, memory: MemoryView) -> Registry:
        """Return the constraints as they stand in a memory now."""
        return self._keeper.registry(memory)

    def policies(self, memory: MemoryView) -> dict[str, Policy]:
        """Return the policies of the routes that have constraints in force.

        Rendered anew only when the registry has changed or something in it has expired.
        """
        registry, now = self.registry(memory), time.time()
        made = self._rendered
        if made is None or made[0] is not registry or now >= made[1]:
            later = [one.expires for one in registry.constraints if one.expires > now]
            until = min(later, default=float("inf"))
            made = (registry, until, registry.policies(self.require_card().route_names, now))
            self._rendered = made
        return made[2]

    def _repaired(
        self,
        draft: Draft,
        standing: Sequence[Constraint],
        inputs: Mapping[str, Any],
        memory: MemoryView,
        counts: Counter[str],
    ) -> Draft:
        kinds = mends(self.mend)
        if draft.text.strip():
            draft, counts["constraint_mends"] = mend(draft, standing, kinds)
        asks = self.repair if draft.violated and self._draws(inputs, memory) else 0
        for _ in range(asks):
            draft = repair(
                draft,
                standing,
                task=self.require_card().task,
                inputs=inputs,
                kinds=kinds,
                counts=counts,
            )
            if not draft.violated:
                break
        return cut(draft, standing, kinds, counts) if draft.violated else draft

    def _draws(self, inputs: Mapping[str, Any], memory: MemoryView) -> bool:
        """Tell whether this call may ask an LM for repairs: the same call, the same draw."""
        if self.repair_share >= 1:
            return True
        drawn = digest("repair", self.require_card().key(inputs), memory.count_rollouts())
        return bool(int(drawn, 16) / 16 ** len(drawn) < self.repair_share)


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
    has a ``policy_lm``, it is asked about the others, once for the same rules and constraints.
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
        for part in (self.optimizer, self.rules):
            if part.revises:
                revision = part.revise(inputs, answer, guidance, memory)
                answer = revision.answer
                counts.update(revision.counts)
        return Revision(answer, dict(counts))

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
