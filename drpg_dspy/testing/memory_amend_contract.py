"""The promises of a memory about what people change, see :mod:`.memory_contract`."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import pytest

from drpg_dspy.memory.base import Memory
from drpg_dspy.testing.memory_toys import plain_rollout
from drpg_dspy.types import Policy, Rule

__all__ = ["MemoryAmendContract"]


class MemoryAmendContract:
    """A part of :class:`~drpg_dspy.testing.memory_contract.MemoryContract`."""

    @abstractmethod
    def open(self, folder: Path, embedder: Any, threshold: float = 0.5) -> Memory:
        """Return the memory that belongs to a folder."""

    def test_an_amended_text_is_there_for_everybody(self, tmp_path: Path) -> None:
        one, other = self.open(tmp_path, None), self.open(tmp_path, None)
        seen: list[str | None] = []

        def amend(memory: Memory, text: str) -> None:
            def decide(stood: str | None) -> tuple[dict[str, str], tuple[Policy, ...]]:
                seen.append(stood)
                return {"house": text, "house:note": f"note on {text}"}, ()

            assert memory.amend("house", decide) == []

        amend(one, "rules")
        amend(other, "more rules")

        assert seen == [None, "rules"]
        assert one.recall("house") == other.recall("house") == "more rules"
        assert one.recall("house:note") == "note on more rules"

    def test_policies_put_into_force_by_people_are_versions(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        memory.record(plain_rollout("r"))
        ruled = Policy("predict", (Rule("Use cents."),), author="person:anna", step=2)
        bare = Policy("predict", author="person:ben", step=2)

        def enforce(policy: Policy) -> Policy:
            return memory.amend("house", lambda _: ({}, [policy]))[0]

        stored = [enforce(ruled), enforce(bare), enforce(ruled)]

        assert [(p.version, p.parent, p.author) for p in stored] == [
            (1, 0, "person:anna"),
            (2, 1, "person:ben"),
            (1, 0, "person:anna"),
        ]
        assert [policy.text for policy in memory.policies("predict")] == ["- Use cents.", ""]
        assert [e.ref for e in memory.events() if e.kind == "policy"] == ["predict@1", "predict@2"]

    def test_an_amendment_that_refuses_changes_nothing(self, tmp_path: Path) -> None:
        memory = self.open(tmp_path, None)
        memory.amend("house", lambda _: ({"house": "rules"}, ()))

        def refuse(stood: str | None) -> Any:
            raise ValueError("not now")

        with pytest.raises(ValueError, match="not now"):
            memory.amend("house", refuse)
        assert memory.recall("house") == "rules"
        assert memory.policies() == []
        memory.amend("house", lambda stood: ({"house": f"{stood} again"}, ()))
        assert memory.recall("house") == "rules again"
