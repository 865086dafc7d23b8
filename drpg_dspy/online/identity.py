"""Whose memory it is: two different programs must not learn from one another by accident."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.memory import Memory
from drpg_dspy.memory.base import Claim
from drpg_dspy.plain import dumps
from drpg_dspy.types import ProgramCard

__all__ = ["PROGRAM_KEY", "check_program", "is_owner", "program_claim"]

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
    _refuse_stranger(stored, given, where)
    if stored != given:
        logger.warning(
            "%s was filled by an earlier form of this program: %s; now: %s. What was learned for "
            "routes that are gone or renamed is not used.",
            where,
            _shown(stored),
            _shown(given),
        )


def is_owner(memory: Memory, card: ProgramCard, where: str) -> bool:
    """Tell whether the memory is this program's for good; False = it is nobody's yet.

    Two learners may open one empty memory; the first to record owns it, and from then on a
    program that shares no route with it is refused.

    Raises:
        ResumeMismatch: It is another program's.
    """
    text = memory.get_meta(PROGRAM_KEY)
    if text is None:
        return False
    _refuse_stranger(json.loads(text), _routes(card), where)
    return True


def program_claim(card: ProgramCard, where: str) -> Claim:
    """Return the claim with which a program's first record takes or renews its ownership.

    Refused with a :class:`~drpg_dspy.exceptions.ResumeMismatch` where another program was
    faster: it is decided within the transaction that records.
    """
    given = _routes(card)

    def decide(stood: str | None) -> str:
        if stood is not None:
            _refuse_stranger(json.loads(stood), given, where)
        return dumps(given)

    return PROGRAM_KEY, decide


def _refuse_stranger(stored: Routes, given: Routes, where: str) -> None:
    if any(name in stored and _alike(stored[name], given[name]) for name in given):
        return
    raise ResumeMismatch(
        f"{where} was filled by another program. Its routes: {_shown(stored)}. The program "
        f"given: {_shown(given)}. Give this learner another name or memory; policies and "
        "examples of one program mean nothing to the other."
    )


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
