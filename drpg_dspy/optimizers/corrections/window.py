"""The corrections of the failures that were judged since the last time some were put up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from drpg_dspy.memory.base import MemoryView
from drpg_dspy.optimizers.corrections.clusters import Gradient
from drpg_dspy.optimizers.corrections.guiding import WITHHELD, named
from drpg_dspy.optimizers.corrections.instructions import PolicyMemory
from drpg_dspy.optimizers.corrections.trials import Verdicts
from drpg_dspy.types import Experience

__all__ = ["Window", "noted_as", "verdicts_of"]

_UNREADABLE = "!"


class Window:
    """Which failures wait for their corrections to be put up.

    The corrections themselves stand in the memory, under the failure's id, for good: the state
    stays small, and what caused an instruction can be looked up.

    Args:
        size: Verdicts that a window holds.

    Attributes:
        verdicts: How many it holds now.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.verdicts = 0
        self._cases: list[str] = []
        self._kept: dict[str, tuple[str, list[str]]] = {}  # category, ids of what it was shown

    @property
    def full(self) -> bool:
        """Whether it holds all verdicts that it is to hold."""
        return self.verdicts >= self.size

    def write(self, case: str, corrections: Mapping[str, str], memory: MemoryView) -> None:
        """Keep a failure's corrections, by route, in place of those it may have had."""
        memory.remember(_key(case), json.dumps(dict(corrections), ensure_ascii=False))
        if corrections and case not in self._cases:
            self._cases.append(case)

    def knows(self, case: str, memory: MemoryView) -> bool:
        """Tell whether a failure was diagnosed before."""
        return memory.recall(_key(case)) is not None

    def keep(self, failure: Experience, category: str) -> None:
        """Keep what :meth:`gradients` needs of a failure that no memory finds by its id."""
        if failure.id in self._cases:
            self._kept[failure.id] = (category, _shown(failure))

    def gradients(
        self,
        memory: MemoryView,
        latest: Experience | None,
        instructions: PolicyMemory,
        category: Callable[[Mapping[str, Any]], str],
        counters: Counter[str],
    ) -> Iterator[Gradient]:
        """Yield all corrections, in order of arrival, each with where it belongs.

        A failure whose verdict was taken back is left out, and counted.

        Args:
            memory: All experiences so far.
            latest: One that is not in it yet.
            instructions: Which of them a failure had.
            category: Of a call's inputs.
            counters: Of ``gradients_retracted``.
        """
        for case in self._cases:
            corrections = json.loads(memory.recall(_key(case)) or "{}")
            if not corrections:
                continue
            if case in self._kept:
                kind, shown = self._kept[case]
            else:
                known = latest if latest is not None and latest.id == case else None
                experience = known or memory.experience(case)
                if experience is None:
                    counters["gradients_retracted"] += 1
                    continue
                kind, shown = category(experience.rollout.inputs), _shown(experience)
            had = [one for one in instructions if one.id in shown]
            for route, text in corrections.items():
                given = tuple(one.id for one in had if one.is_for(route))
                yield Gradient(case, route, kind, text, given)

    def close(self, again: Collection[str]) -> None:
        """Begin a new window.

        Args:
            again: Failures whose corrections did not recur yet: the latest of them are looked
                at again beside those of the next window.
        """
        self._cases = [case for case in self._cases if case in again][-self.size :]
        self._kept = {case: kept for case, kept in self._kept.items() if case in self._cases}
        self.verdicts = 0

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        kept = {case: list(each) for case, each in self._kept.items()}
        return {"verdicts": self.verdicts, "cases": list(self._cases), "kept": kept}

    def load_plain(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`as_plain` returned."""
        self.verdicts = int(state["verdicts"])
        self._cases = list(state["cases"])
        kept = state.get("kept", {})  # states from before have none
        self._kept = {case: (category, list(ids)) for case, (category, ids) in kept.items()}


def noted_as(experience: Experience) -> str:
    """Return the name under which a verdict is noted.

    A call whose reply could not be read is no experience that a memory finds; it stays wrong.
    """
    return f"{_UNREADABLE}{experience.id}" if experience.rollout.failed else experience.id


def verdicts_of(memory: MemoryView, latest: Experience | None) -> Verdicts:
    """Return how to look up by :func:`noted_as` whether a call is right, as it is judged now.

    Args:
        memory: All experiences so far.
        latest: One that is not in it yet.
    """

    def verdict(name: str) -> bool | None:
        if name.startswith(_UNREADABLE):
            return False
        known = latest is not None and name == latest.id
        found = latest if known else memory.experience(name)
        return None if found is None else found.correct

    return verdict


def _shown(failure: Experience) -> list[str]:
    return [id for done, id in named(failure.rollout) if done != WITHHELD]


def _key(case: str) -> str:
    return f"nlpg:gradients:{case}"
