"""Who may change a policy, and who did: people's decisions, beside what optimizers learn.

::

    governance = Governance(memory)          # or online.governance
    governance.pin("predict", "Never join orders twice.", author="person:ada", reason="bug 12")
    governance.rollback("predict@3", author="person:ada", reason="worse since Monday")

Decisions stand in the memory, so every process that shares it follows them from its next call.
"""

from __future__ import annotations

from drpg_dspy.governance.applying import Applier
from drpg_dspy.governance.following import RegistryFollower
from drpg_dspy.governance.governing import Governance
from drpg_dspy.governance.provenance import Activity, Case, Provenance, Source, case_of
from drpg_dspy.governance.reading import Change, PolicyReader, RouteStatus
from drpg_dspy.governance.state import Decision

__all__ = [
    "Activity",
    "Applier",
    "Case",
    "Change",
    "Decision",
    "Governance",
    "PolicyReader",
    "Provenance",
    "RegistryFollower",
    "RouteStatus",
    "Source",
    "case_of",
]
