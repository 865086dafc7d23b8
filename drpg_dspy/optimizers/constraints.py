"""Constraints that people add, edit and withdraw, in force from the next call on."""

from __future__ import annotations

import dataclasses
import logging
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
from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.optimizers.standing.answers import AnswerText
from drpg_dspy.optimizers.standing.cutting import cut
from drpg_dspy.optimizers.standing.desk import ConstraintDesk
from drpg_dspy.optimizers.standing.keeper import Keeper, OnConflict
from drpg_dspy.optimizers.standing.mending import Mend, mends
from drpg_dspy.optimizers.standing.registry import Registry, from_mapping
from drpg_dspy.optimizers.standing.repairing import Draft, mend, repair
from drpg_dspy.plain import digest
from drpg_dspy.types import Guidance, Policy, ProgramCard

__all__ = ["ConstraintAdapter"]

logger = logging.getLogger(__name__)


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

    def bind(self, card: ProgramCard) -> None:
        """Bind to a program; a field that none of its predictors writes is warned of."""
        super().bind(card)
        written = dict.fromkeys(name for route in card.routes for name in route.outputs)
        if self.field and self.field not in written:
            logger.warning(
                "field=%r: no predictor of %s writes it (they write: %s). Unless the program "
                "itself returns it, no answer can be checked.",
                self.field,
                card.name,
                ", ".join(written),
            )

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

        A refusal is given as it is, and counted; so is a choice among given words (``Literal``).
        When the LM fails in a repair, what takes no writer is done all the same.
        """
        found = AnswerText.of(answer, self.require_card(), self.field)
        if found is None:
            return Revision(answer)
        standing = self.registry(memory).in_force(found.route, time.time())
        draft = Draft.of(found.text, standing)
        counts = Counter({"constraints_checked": len(draft.checks)})
        counts["constraint_violations"] = len(draft.violated)
        failure = None
        if draft.violated and is_refusal(draft.text):
            counts["answers_declined"] = 1
        elif draft.violated and found.free:
            draft, failure = self._repaired(draft, standing, inputs, memory, counts)
        counts["constraint_violations_left"] = len(draft.violated)
        kept = {name: count for name, count in counts.items() if count}
        return Revision(found.replaced(answer, draft.text), kept, failure)

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
    ) -> tuple[Draft, Exception | None]:
        kinds = mends(self.mend)
        if draft.text.strip():
            draft, counts["constraint_mends"] = mend(draft, standing, kinds)
        asks = self.repair if draft.violated and self._draws(inputs, memory) else 0
        failure: Exception | None = None
        while asks and draft.violated and failure is None:
            asks -= 1
            try:
                draft = repair(
                    draft,
                    standing,
                    task=self.require_card().task,
                    inputs=inputs,
                    kinds=kinds,
                    counts=counts,
                )
            except Exception as raised:  # noqa: BLE001 - handed on with what was reached
                failure = raised
        return (cut(draft, standing, kinds, counts) if draft.violated else draft), failure

    def _draws(self, inputs: Mapping[str, Any], memory: MemoryView) -> bool:
        """Tell whether this call may ask an LM for repairs: the same call, the same draw."""
        if self.repair_share >= 1:
            return True
        drawn = digest("repair", self.require_card().key(inputs), memory.count_rollouts())
        return bool(int(drawn, 16) / 16 ** len(drawn) < self.repair_share)
