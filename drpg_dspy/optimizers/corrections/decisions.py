"""What was decided on which instruction, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drpg_dspy.optimizers.corrections.instructions import Instruction

__all__ = ["Decision", "DecisionLog"]

_KEPT = 50


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on an instruction, and on what grounds.

    Attributes:
        number: Counts decisions from 1.
        seen: Verdicts that the optimizer had seen.
        outcome: ``"tried"``, ``"accepted"``, ``"adopted"`` (without a trial), ``"given up"``,
            ``"retired"``, ``"withdrawn"`` (its verdicts were revised), ``"superseded"``,
            ``"crowded out"``; ``"unchanged"`` when a window gave nothing to try.
        id, route, category, text: The instruction; empty for ``"unchanged"``.
        reason: In words.
        counts: The figures behind it: calls or items ``given_right``, ``given_wrong``,
            ``withheld_right``, ``withheld_wrong``, or ``fixed`` and ``broken`` on the same
            items, ``cases``; of a window what it held.
        evidence: The e-value of a trial, or the p-value of a test on the same items.
        sources: Experiences behind the instruction.
    """

    number: int
    seen: int
    outcome: str
    id: str = ""
    route: str = ""
    category: str = ""
    text: str = ""
    reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    evidence: float | None = None
    sources: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values["counts"] = dict(self.counts)
        values["sources"] = list(self.sources)
        return values

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Decision:
        """Undo :meth:`as_plain`."""
        return cls(**{**values, "sources": tuple(values["sources"])})


class DecisionLog:
    """The decisions made, numbered from 1; the last 50 are kept at hand."""

    def __init__(self) -> None:
        self.made = 0
        self.last: list[Decision] = []
        self._new: list[Decision] = []

    def add(
        self,
        seen: int,
        outcome: str,
        one: Instruction | None,
        reason: str,
        counts: Mapping[str, int],
        evidence: float | None = None,
    ) -> None:
        """Write down a decision; see :class:`Decision` for what it holds."""
        self.made += 1
        decision = Decision(
            self.made,
            seen,
            outcome,
            id=one.id if one else "",
            route=one.route if one else "",
            category=one.category if one else "",
            text=one.text if one else "",
            reason=reason,
            counts={name: n for name, n in counts.items() if n or name in ("fixed", "broken")},
            evidence=None if evidence is None else float(f"{evidence:.4g}"),
            sources=one.sources if one else (),
        )
        self.last = [*self.last, decision][-_KEPT:]
        self._new.append(decision)

    def take_new(self) -> list[Decision]:
        """Return the decisions that were made since this was asked last."""
        taken, self._new = self._new, []
        return taken

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {"made": self.made, "last": [decision.as_plain() for decision in self.last]}

    def load_plain(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`as_plain` returned."""
        self.made = int(state["made"])
        self.last = [Decision.from_plain(row) for row in state["last"]]
        self._new = []
