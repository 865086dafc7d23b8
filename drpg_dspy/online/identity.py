"""Whose memory it is: two different programs must not learn from one another by accident."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory import Memory
from drpg_dspy.plain import dumps
from drpg_dspy.types import ProgramCard

__all__ = ["PROGRAM_KEY", "check_program", "claim_memory"]

PROGRAM_KEY = "learner:program"
"""Setting of a memory under which the fields of its program's routes stand."""

logger = logging.getLogger(__name__)

Routes = Mapping[str, Mapping[str, list[str]]]


def check_program(memory: Memory, card: ProgramCard, where: str) -> None:
    """Compare a program with the one that a memory was filled by.

    A route is the same when its name is, and it still shares an input and an output. A program
    that shares no route with the memory's is another program. One that shares some has grown:
    that is allowed, and said in the log.

    Args:
        memory: Of this or an earlier process.
        card: The program at hand.
        where: What to call the memory in a message.

    Raises:
        ResumeMismatch: It is another program; the message prints both.
    """
    text = memory.get_meta(PROGRAM_KEY)
    if text is None:
        return
    stored, given = json.loads(text), _routes(card)
    if stored == given:
        return
    shared = [name for name in given if name in stored and _alike(stored[name], given[name])]
    if not shared:
        raise ResumeMismatch(
            f"{where} was filled by another program. Its routes: {_shown(stored)}. The program "
            f"given: {_shown(given)}. Give this learner another name or memory; policies and "
            "examples of one program mean nothing to the other."
        )
    logger.warning(
        "%s was filled by an earlier form of this program: %s; now: %s. What was learned for "
        "routes that are gone or renamed is not used.",
        where,
        _shown(stored),
        _shown(given),
    )


def claim_memory(memory: Memory, card: ProgramCard) -> None:
    """Write down whose memory it is, unless that stands there already."""
    text = dumps(_routes(card))
    if memory.get_meta(PROGRAM_KEY) != text:
        memory.set_meta(PROGRAM_KEY, text)


def _routes(card: ProgramCard) -> Routes:
    return {
        route.name: {"inputs": list(route.inputs), "outputs": list(route.outputs)}
        for route in card.routes
    }


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(set(one[side]) & set(other[side]) for side in ("inputs", "outputs"))


def _shown(routes: Routes) -> str:
    return "; ".join(
        f"{name}: {', '.join(fields['inputs'])} -> {', '.join(fields['outputs'])}"
        for name, fields in routes.items()
    )
