"""A method that stands around another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from drpg_dspy.memory import Memory, MemoryView
from drpg_dspy.optimizers.base import OnlineOptimizer, Rerun, Revision
from drpg_dspy.types import Experience, Guidance, ProgramCard

__all__ = ["Around"]


class Around(OnlineOptimizer):
    """Passes everything on to :attr:`optimizer`; a subclass changes what it is there to change.

    Attributes:
        optimizer: The method inside, an argument of the subclass's constructor.
    """

    optimizer: OnlineOptimizer

    @property
    def max_lm_calls(self) -> int:  # type: ignore[override]
        """LM calls of a step beside the program's own: those of the method inside."""
        return self.optimizer.max_lm_calls

    @property
    def keeps_state(self) -> bool:
        """Whether this class or the method inside does."""
        own = type(self).state_dict is not Around.state_dict
        return own or self.optimizer.keeps_state

    @property
    def learns_from_unreadable(self) -> bool:  # type: ignore[override]
        """Whether the method inside does."""
        return self.optimizer.learns_from_unreadable

    def fresh(self) -> OnlineOptimizer:
        """Return one that knows nothing, around a method that knows nothing."""
        return type(self)(**{**self.get_params(), "optimizer": self.optimizer.fresh()})

    def bind(self, card: ProgramCard) -> None:
        """Bind the method inside as well."""
        super().bind(card)
        self.optimizer.bind(card)

    def learn_into(self, place: str) -> None:
        """Let the method inside know as well."""
        self.optimizer.learn_into(place)
        super().learn_into(place)

    def bind_memory(self, memory: Memory) -> None:
        """Let the method inside know as well."""
        self.optimizer.bind_memory(memory)

    def equip(self, rerun: Rerun) -> None:
        """Hand the program on to the method inside."""
        self.optimizer.equip(rerun)

    def propose(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the guidance of the method inside."""
        return self.optimizer.propose(inputs, memory)

    def propose_plain(self, inputs: Mapping[str, Any], memory: MemoryView) -> Guidance:
        """Return the examples of the method inside."""
        return self.optimizer.propose_plain(inputs, memory)

    def answering_lm(self, guidance: Guidance) -> dspy.BaseLM | None:
        """Return the choice of the method inside."""
        return self.optimizer.answering_lm(guidance)

    @property
    def revises(self) -> bool:
        """Whether the method inside does."""
        return self.optimizer.revises

    def revise(
        self, inputs: Mapping[str, Any], answer: Any, guidance: Guidance, memory: MemoryView
    ) -> Revision:
        """Let the method inside revise the answer."""
        return self.optimizer.revise(inputs, answer, guidance, memory)

    def update(self, experience: Experience, memory: MemoryView) -> None:
        """Let the method inside learn."""
        self.optimizer.update(experience, memory)

    def consolidate(self, memory: MemoryView) -> Guidance:
        """Return what the method inside keeps."""
        return self.optimizer.consolidate(memory)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the method inside."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self.optimizer.load_state_dict(state)
