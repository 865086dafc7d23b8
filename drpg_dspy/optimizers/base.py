"""The contract of an online optimizer, and its laws.

Checked over every class that exists (``drpg_dspy.testing.contracts``):

* no label is visible when predicting: ``propose`` gets the inputs alone;
* predicting changes no state: ``propose`` twice gives the same guidance;
* learning returns nothing;
* same seed, same run;
* feedback that is NaN or uninformative changes nothing (the learner does not pass it on);
* an empty memory works, and the program's own call has the prompt of the plain program;
* ``load_state_dict(state_dict())`` on a fresh instance continues the same run;
* LM calls of a step stay within ``max_lm_calls``;
* a policy of any content reaches the prompt verbatim;
* a rule that a person pinned comes first in whatever it gives (:mod:`drpg_dspy.governance`);
* constructor arguments are stored unchanged under their own names.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import dspy

from drpg_dspy.memory.base import Memory, MemoryView
from drpg_dspy.types import Experience, Guidance, ProgramCard, Rollout

__all__ = ["OnlineOptimizer", "Rerun", "Revision", "named"]


Rerun = Callable[[Mapping[str, Any], Guidance], Rollout]
"""Answers inputs under a guidance, for a trial."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What an optimizer makes of a program's answer before it is given.

    Attributes:
        answer: What the caller gets, of the kind that the program returned. The very object
            that was looked at means: nothing is changed.
        counts: Events worth counting, e.g. ``{"repairs": 1}``; added to the guidance's.
        failure: What went wrong on the way, where the answer was revised as far as was possible
            without it: ``revise_failed`` is counted, the answer and the counts stand.
    """

    answer: Any
    counts: Mapping[str, int] = field(default_factory=dict)
    failure: Exception | None = None


class OnlineOptimizer(ABC):
    """Decides which policy and which examples a program gets, and learns from verdicts.

    Subclasses are one method each. They hold no copy of the history: it is passed in.

    Attributes:
        name: The method's name on the command line and in provenance.
        max_lm_calls: Bound on the LM calls that one step costs beside the program's own.
        paper: Where the method comes from.
        writes_policies: False for a method that gives examples or revises answers, and never a
            policy: there is nothing that ``drpg run --holdout`` could leave out.
        learns_from_unreadable: True for a method that :meth:`update` also tells of calls that
            gave no answer because a predictor's reply could not be read. They are never
            experiences that a memory finds.
    """

    name: ClassVar[str]
    max_lm_calls: ClassVar[int] = 0
    paper: ClassVar[str] = ""
    writes_policies: ClassVar[bool] = True
    learns_from_unreadable: ClassVar[bool] = False

    card: ProgramCard | None = None
    _place: str = ""

    def bind(self, card: ProgramCard) -> None:
        """Learn which program is served; called before anything else.

        Raises:
            ValueError: This instance serves another program already.
        """
        if self.card is not None and self.card.routes != card.routes:
            raise ValueError(
                f"This {type(self).__name__} serves {self.card.name!r} already; construct another "
                f"one for {card.name!r}."
            )
        self.card = card

    def learn_into(self, place: str) -> None:
        """Learn where the memory is that the state belongs to; called by the learner.

        What was counted of one memory's rollouts is no evidence about another's.

        Args:
            place: The memory's :attr:`~drpg_dspy.memory.base.Memory.place`.

        Raises:
            ValueError: This instance keeps state, of another memory already.
        """
        if self.keeps_state and self._place not in ("", place):
            raise ValueError(
                f"This {type(self).__name__} keeps what it learned from the memory {self._place} "
                f"and would mix it with that of {place}. Give the second learner an optimizer of "
                "its own: optimizer.fresh()."
            )
        self._place = place

    def bind_memory(self, memory: Memory) -> None:
        """Learn which memory is served; called by the learner, after :meth:`learn_into`.

        By default it is forgotten: a method sees its memory when it is called. One that people
        change from outside (:class:`~drpg_dspy.optimizers.constraints.ConstraintAdapter`) writes
        there what they change.

        Raises:
            ValueError: This instance serves another memory already.
        """

    def equip(self, rerun: Rerun) -> None:
        """Be given the program, called by the learner; by default it is not needed.

        Args:
            rerun: Answers inputs under a guidance. The answer is not recorded, not learned from
                and reaches nobody; its LM calls count where they are made.
        """

    @property
    def keeps_state(self) -> bool:
        """Whether the class has a :meth:`state_dict` of its own."""
        return type(self).state_dict is not OnlineOptimizer.state_dict

    def require_card(self) -> ProgramCard:
        """Return the program's card.

        Raises:
            ValueError: The optimizer is not bound to a program yet.
        """
        if self.card is None:
            raise ValueError(
                f"{type(self).__name__} serves no program yet; "
                "give it to OnlinePolicyOptimizer(program, optimizer)."
            )
        return self.card

    @abstractmethod
    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return policy and examples for this call. Must not change any state.

        Args:
            inputs: The call's arguments, no label.
            memory: All experiences so far.
        """

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return what this call would get if it were to run without a policy.

        By default the guidance of :meth:`propose` with its policies left out; a method whose
        policies cost LM calls saves them here.

        Args:
            inputs, memory: As for :meth:`propose`.
        """
        return self.propose(inputs, memory).without_policies()

    def answering_lm(self, guidance: Guidance) -> dspy.BaseLM | None:
        """Return the LM that is to answer a call under this guidance.

        By default ``None``: the one that is configured. It is in force like one given to
        ``dspy.context``: predictors with an LM of their own keep to it.
        """
        return None

    def revise(
        self, inputs: Mapping[str, Any], answer: Any, guidance: Guidance, memory: MemoryView
    ) -> Revision:
        """Look at the program's answer before it is given, and replace it where it must be.

        By default nothing is changed, at no cost. The revised answer is what the caller gets
        and what is recorded, judged and learned from. LM calls are allowed, within
        ``max_lm_calls``: they run under the LM that answered, count as part of answering, and
        are neither traced nor streamed. When this raises, a served call gives the answer as the
        program gave it and counts ``revise_failed``; a step of a run fails.

        Args:
            inputs: The call's arguments, no label.
            answer: What the program returned; must not be changed in place.
            guidance: What it was given.
            memory: All experiences so far.
        """
        return Revision(answer)

    @property
    def revises(self) -> bool:
        """False when :meth:`revise` is not worth a call."""
        return type(self).revise is not OnlineOptimizer.revise

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Learn from one verdict. The memory does not hold this experience yet.

        Called only with feedback that teaches. LM calls are allowed; writes go through
        :meth:`~drpg_dspy.memory.base.MemoryView.remember` or :meth:`state_dict`.

        Args:
            experience: A rollout with its feedback.
            memory: Everything that was learned from before.
        """

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Return what a plain program should keep when online learning ends.

        By default the guidance of the last answer that was right.
        """
        last = memory.recent(1, "correct")
        return last[0].rollout.guidance if last else Guidance()

    def state_dict(self) -> dict[str, Any]:
        """Return what cannot be recomputed from memory, random state included."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, got {sorted(state)}.")

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name, as they were given."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def fresh(self) -> OnlineOptimizer:
        """Return an instance with the same arguments that serves no program and knows nothing."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = [
            f"{key}={named(value)!r}"
            for key, value in self.get_params().items()
            if value != defaults[key].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def named(value: Any) -> Any:
    """Return an argument with every LM in it as its model's name, which holds no secret.

    >>> named([dspy.LM("openai/gpt-4o", api_key="secret"), None])
    ['openai/gpt-4o', None]
    """
    if isinstance(value, dspy.BaseLM):
        return value.model
    if isinstance(value, (list, tuple)):
        return [named(item) for item in value]
    return value
