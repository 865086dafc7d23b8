"""NLPG: corrections addressed to the module that caused the failure."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.optimizers.corrections.ablation import Ablation
from drpg_dspy.optimizers.corrections.clusters import Correction, merge
from drpg_dspy.optimizers.corrections.decisions import Decision
from drpg_dspy.optimizers.corrections.diagnosis import MAX_CALLS, Diagnosis
from drpg_dspy.optimizers.corrections.guiding import GIVEN, STANDING, Draw, for_good, guide, named
from drpg_dspy.optimizers.corrections.instructions import (
    BULLET_CHARS,
    EVERY_ROUTE,
    Instruction,
    PolicyMemory,
)
from drpg_dspy.optimizers.corrections.traces import own_calls
from drpg_dspy.optimizers.corrections.trials import TRIAL_SHARE, Gate
from drpg_dspy.optimizers.corrections.updates import PolicyUpdates
from drpg_dspy.optimizers.corrections.window import Window, noted_as, verdicts_of
from drpg_dspy.plain import digest
from drpg_dspy.types import Experience, Guidance, ProgramCard

__all__ = ["NLPG", "Ablation"]

logger = logging.getLogger(__name__)

Category = Callable[[Mapping[str, Any]], str] | str
Options = TypeVar("Options")

_GATE = Gate()


class NLPG(OnlineOptimizer):
    """Natural-language policy gradients: local instructions for the modules of any program.

    Every predictor of the program is a route. For each call a route gets the instructions that
    were accepted for it and for the category of the inputs, at most ``max_instructions`` of them
    and ``max_chars`` characters. When the judge says *wrong*, the trace is diagnosed: one LM
    call finds the first wrong step and the modules at fault, and the blame goes back through the
    module graph, from the answer towards the first module; each module that it reaches is asked,
    with its own steps alone, for a correction. A window's corrections are clustered by route and
    category, and those that recur are put up, at most ``max_changes`` of them. A correction on
    trial is given to half of the calls that it applies to, drawn call by call, and accepted when
    the evidence says that they are right more often; without that nothing changes. Calls that
    were judged before a correction was written never count in its trial. What is accepted goes
    on being withheld from a share of the calls, and is retired when it stops helping.

    Args:
        max_instructions: K: instructions that a route gets for one call, at least 1. The paper:
            4 on conversation memories, 3 on HotpotQA, IFBench and HoVer.
        max_chars: Length of a route's policy, at least 50. The paper: 1,000.
        window: Verdicts after which corrections are put up, at least 1.
        max_changes: Corrections that a window may put up, at least 1.
        category: Of a call: a function of its inputs, or the name of the input that holds it;
            ``None`` = all inputs are of one category. A call of a category for which nothing was
            learned gets what holds for its family (what stands before a colon, as in
            ``"count:numbers"``) and for the whole route.
        gate: What a correction has to show before it stays; ``None`` = it is adopted as it comes.
            A mapping of :class:`Gate`'s arguments will do.
        ablation: Parts that are turned off; a mapping of :class:`Ablation`'s arguments will do.
        policy_lm: The LM that diagnoses and corrects; ``None`` = the one that answers.

    Attributes:
        instructions: What stands and what is on trial, with the evidence for and against it.
        decisions: The last 50 decisions with their figures, the oldest first. All of them are
            kept in the memory: ``memory.recall("nlpg:decision:N")``, N from 1, as JSON; a
            failure's corrections under ``"nlpg:gradients:ROLLOUT_ID"``.
        counters: Events since the beginning, by name.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.

    At most 3 LM calls for a failure (1 for a program with one module, or when the module is not
    looked for), none for a right answer or a prediction.

    Source: Liu et al. 2026, "NLPG: Natural-Language Policy Gradients for Self-Evolving Language
    Agents". No code was published.

    Deviations (the paper gives neither formulas nor prompts): the score of an instruction, by
    which it is ranked, is the difference between the mean rates of right answers with and
    without it, under uniform priors; instructions are ranked by score, then those of the
    category, then by the number of failures behind them, then the later ones. Two instructions
    are one when :func:`~drpg_dspy.optimizers.rules.similar` says so; merged corrections keep the
    words of one of them, so that no second LM call can bend them. Online, acceptance is a
    sequential test between two arms, because old questions are not asked again;
    :func:`drpg_dspy.streaming.run_epoch` asks the same items twice, as the paper does. A call that
    gave no answer because a module's reply could not be read is a failure like any other: it is
    diagnosed, and counts against the corrections that it had. One whose program raised for
    another reason (a dead LM, an error in its code) is none.
    """

    name = "nlpg"
    paper = "Liu et al. 2026, NLPG"
    max_lm_calls = MAX_CALLS
    learns_from_unreadable = True

    def __init__(
        self,
        max_instructions: int = 4,
        *,
        max_chars: int = 1_000,
        window: int = 20,
        max_changes: int = 3,
        category: Category | None = None,
        gate: Gate | Mapping[str, Any] | None = _GATE,
        ablation: Ablation | Mapping[str, Any] | None = None,
        policy_lm: dspy.BaseLM | None = None,
    ) -> None:
        if category is not None and not callable(category) and not isinstance(category, str):
            raise ValueError(
                "category must be a function of a call's inputs, or the name of one of them; "
                f"got {category!r}."
            )
        if policy_lm is not None and not isinstance(policy_lm, dspy.BaseLM):
            raise ValueError(f"policy_lm must be a dspy.LM, got {policy_lm!r}.")
        self.max_instructions = whole("max_instructions", max_instructions, 1)
        self.max_chars = whole("max_chars", max_chars, 50)
        self.window = whole("window", window, 1)
        self.max_changes = whole("max_changes", max_changes, 1)
        self.category = category
        self.gate = gate
        self.ablation = ablation
        self.policy_lm = policy_lm
        self._gate = None if gate is None else _options(Gate, "gate", gate)
        self._parts = _options(Ablation, "ablation", ablation or Ablation())
        self._policies = PolicyMemory(max_instructions, max_chars)
        self._updates = PolicyUpdates(self._policies, self._gate, max_changes)
        self._window = Window(window)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """What stands and what is on trial."""
        return tuple(self._policies)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last 50 decisions, the oldest first."""
        return tuple(self._updates.log.last)

    @property
    def counters(self) -> dict[str, int]:
        """Events since the beginning, by name."""
        return dict(self._updates.counters)

    @property
    def level(self) -> float | None:
        """The gate's level; ``None`` without a gate."""
        return None if self._gate is None else self._gate.level

    def bind(self, card: ProgramCard) -> None:
        """Learn which program is served, and say so when there is nothing to route."""
        if self.card is None and len(card.routes) == 1 and self._parts.routing:
            logger.info(
                "%s has one module, %r: all corrections go to it, routing is idle.",
                card.name,
                card.routes[0].name,
            )
        super().bind(card)

    # -- answering --------------------------------------------------------------------------

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return each route's instructions; of those on trial and watched, what was drawn."""
        gate, category = self._gate, self.category_of(inputs)
        if gate is None or not len(self._policies):
            return self._guidance(category, lambda pool: (None,) * len(pool))
        gives = gate.draws(f"{memory.count()} {self.require_card().key(inputs)}")
        shares = {"trial": TRIAL_SHARE, "accepted": 1 - gate.watch}

        def draw(pool: Sequence[Instruction]) -> tuple[bool | None, ...]:
            drawn = gives([(one.id, shares[one.status]) for one in pool])
            if gate.watch:
                return drawn
            fates = zip(pool, drawn, strict=True)  # what is accepted stands
            return tuple(fate if one.status == "trial" else None for one, fate in fates)

        return self._guidance(category, draw)

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return no instructions: the call counts for none of them."""
        return Guidance()

    def propose_fixed(self, inputs: Mapping[str, Any], with_trials: Sequence[str] = ()) -> Guidance:
        """Return the accepted instructions, and those on trial that are named, nothing drawn.

        For calls on which a decision is based by asking the same item twice.

        Args:
            inputs: The call's.
            with_trials: Ids of the instructions on trial that are shown; the others are not.
        """
        shown = frozenset(with_trials)
        return self._guidance(
            self.category_of(inputs), lambda pool: tuple(one.id in shown or None for one in pool)
        )

    def _guidance(self, category: str, draw: Draw) -> Guidance:
        routes = self.require_card().route_names
        guidance = guide(self._policies, routes, category, draw)
        idle = len(routes) == 1 and self._parts.routing
        return guidance.counting({"routing_idle": 1}) if idle else guidance

    def category_of(self, inputs: Mapping[str, Any]) -> str:
        """Return the category of a call; ``""`` = none.

        Raises:
            ValueError: The function given as ``category`` returned no text.
        """
        if self.category is None:
            return ""
        if isinstance(self.category, str):
            found = inputs.get(self.category, "")
            return found if isinstance(found, str) else str(found)
        found = self.category(inputs)
        if not isinstance(found, str):
            raise ValueError(
                f"category must return a text ('' = none), got {found!r} for {sorted(inputs)}."
            )
        return found

    # -- learning ---------------------------------------------------------------------------

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Count the verdict for what was drawn, decide, and write corrections of a failure."""
        unreadable = experience.rollout.failed
        known = self._window.knows(experience.id, memory) if unreadable else None
        revised = known or memory.experience(experience.id) is not None
        if not revised:
            self._updates.seen += 1
            self._window.verdicts += 1
        self._count(experience, memory, revised)
        self._correct(experience, memory, revised)
        if self._window.full:
            self.close_window(memory, experience)
        self._save_decisions(memory)

    def close_window(self, memory: MemoryView, latest: Experience | None = None) -> None:
        """Put up what the corrections since the last time have in common.

        Called by :meth:`update` after ``window`` verdicts.

        Args:
            memory: All experiences so far.
            latest: One that is not in it yet.
        """
        counters = self._updates.counters
        self._updates.review(verdicts_of(memory, latest))
        gradients = list(
            self._window.gradients(memory, latest, self._policies, self.category_of, counters)
        )
        if self._parts.aggregate:
            corrections, dropped = merge(gradients)
            counters["gradients_contradictory"] += dropped
        else:
            corrections = [Correction(g.route, g.category, g.text, (g,)) for g in gradients]
        held = {
            "verdicts": self._window.verdicts,
            "gradients": len(gradients),
            "corrections": len(corrections),
        }
        rare = self._updates.admit(corrections, held, recur=self._parts.aggregate)
        self._window.close({case for correction in rare for case in correction.cases})
        self._save_decisions(memory)

    def _count(self, experience: Experience, memory: MemoryView, revised: bool) -> None:
        called = {call.route for call in own_calls(experience.rollout)}
        drawn: dict[str, bool] = {}
        standing: list[str] = []
        for purpose, id in named(experience.rollout):
            one = self._policies.get(id)
            if one is None or not any(map(one.is_for, called)):
                continue
            if purpose == STANDING:
                standing.append(id)
            else:
                drawn[id] = purpose == GIVEN
        for id, given in drawn.items():
            self._updates.note(id, given, noted_as(experience), experience.correct, revised=revised)
        if not revised and self._gate is None:  # else there is nothing to compare them with
            self._updates.count(standing, experience.correct)

        self._updates.decide(drawn, verdicts_of(memory, experience))

    def _correct(self, experience: Experience, memory: MemoryView, revised: bool) -> None:
        """Write the corrections of a failure and keep them under its id."""
        if experience.correct:
            if revised:
                self._window.write(experience.id, {}, memory)
            return
        counters = self._updates.counters
        called = list(dict.fromkeys(call.route for call in own_calls(experience.rollout)))
        if not called:
            counters["diagnosis_no_trace"] += 1
            return
        routes: tuple[str, ...] | None = None
        if not self._parts.routing:
            routes = (EVERY_ROUTE,)
        elif self._parts.random_route:
            seed = self._gate.seed if self._gate else 0
            routes = (called[int(digest("route", seed, experience.id), 16) % len(called)],)
        elif len(self.require_card().routes) == 1:
            counters["routing_idle"] += 1
        in_force = {
            route: [rule.text for rule in policy.rules]
            for route, policy in experience.rollout.guidance.policies.items()
        }
        if routes == (EVERY_ROUTE,):
            in_force = {
                EVERY_ROUTE: list(dict.fromkeys(t for own in in_force.values() for t in own))
            }
        with dspy.context(lm=self.policy_lm) if self.policy_lm else dspy.context():
            diagnosis = Diagnosis(self.require_card(), self.max_chars - BULLET_CHARS)
            try:
                found = diagnosis(experience, in_force, routes)
            except Exception:  # the learner keeps the verdict and says why
                counters["diagnosis_failed"] += 1
                raise
        counters["failures_diagnosed"] += 1
        counters["gradients"] += len(found.corrections)
        counters.update(found.counts)
        self._window.write(experience.id, found.corrections, memory)
        if experience.rollout.failed:  # no memory finds it by its id
            self._window.keep(experience, self.category_of(experience.rollout.inputs))

    def _save_decisions(self, memory: MemoryView) -> None:
        for decision in self._updates.log.take_new():
            text = json.dumps(decision.as_plain(), ensure_ascii=False)
            memory.remember(f"nlpg:decision:{decision.number}", text)

    def settle(
        self,
        id: str,
        memory: MemoryView,
        *,
        flips: tuple[int, int],
        items: tuple[int, int],
        p: float,
        accept: bool,
    ) -> None:
        """Decide on a trial by items that were answered without and with the instruction.

        Args:
            id: An instruction on trial or waiting for one.
            memory: Keeps the decision, with the next commit.
            flips: How many items only the answers with it, and only those without it, got right.
            items: How many were right with it, and how many there were.
            p: One-sided, of the exact McNemar test.
            accept: Whether it stays.

        Raises:
            ValueError: No such instruction is on trial.
        """
        fixed, broken = flips
        self._updates.settle(id, fixed, broken, items, p, accept)
        self._save_decisions(memory)

    # -- keeping ----------------------------------------------------------------------------

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Keep what was accepted; what is for one category says so in its words."""
        return for_good(self._policies, self.require_card().route_names)

    def state_dict(self) -> dict[str, Any]:
        """Return instructions, trials, decisions and the window under way."""
        return {**self._updates.as_plain(), "window": self._window.as_plain()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self._updates.load_plain(state)
        self._window.load_plain(state["window"])


def _options(kind: type[Options], name: str, given: Any) -> Options:
    """Return an argument's dataclass, also given as a mapping, as settings files have it."""
    if isinstance(given, kind):
        return given
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        raise ValueError(
            f"{name} must be a {kind.__name__} or a mapping of {', '.join(known)}; got {given!r}."
        )
    return kind(**given)
