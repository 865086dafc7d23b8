"""Answers that decline the task."""

from __future__ import annotations

import re

__all__ = ["is_refusal"]

_OPENS = 160
"""A refusal says so at once: characters from the start that are looked at."""

_SORRY = (
    r"(?:i['’]?m\s+(?:very\s+|so\s+)?sorry|i\s+am\s+sorry|sorry|i\s+apologi[sz]e"
    r"|unfortunately|regrettably)"
)
_CANNOT = (
    r"i\s*(?:['’]m|\s+am)?\s*(?:really\s+)?(?:can(?:['’]?t|not|\s+not)"
    r"|(?:am|['’]m)?\s*(?:not\s+able|unable)\s+to|won['’]?t(?:\s+be\s+able\s+to)?"
    r"|(?:must|have\s+to)\s+(?:decline|refuse))"
)
_TASK = (
    r"(?:fulfil?l?|comply|satisf\w+|complete|assist|help|provide|answer|do\s+that|write|generate|create"
    r"|meet|follow|process|respond|produce|proceed|continue|decline|refuse)"
)
_REFUSAL = re.compile(
    rf"^\W*(?:as\s+an\s+ai\b[^.]{{0,60}},?\s*)?(?:{_SORRY}\b[\s,.;:—-]*(?:but\s+|that\s+)?(?:{_CANNOT})\b"
    rf"|{_CANNOT}\s+(?:\w+\s+){{0,2}}?{_TASK}\b)"
    rf"|\b(?:conflicting|contradictory|incompatible)\s+(?:constraints?|requirements?|instructions?|rules?)"
    rf"\b[^.]{{0,80}}\b(?:cannot|can['’]?t|impossible|unable)",
    re.IGNORECASE,
)


def is_refusal(answer: str) -> bool:
    """Tell whether an answer declines the task instead of doing it.

    Looked for at the beginning alone, in English: "I'm sorry, but I can't …", or a complaint that
    the requirements contradict each other.

    >>> is_refusal("I'm sorry, but I can't fulfill this request: the constraints conflict.")
    True
    >>> is_refusal("Sorry to hear that! I cannot wait to see your garden grow.")
    False
    """
    return bool(_REFUSAL.search(" ".join(answer.split())[:_OPENS]))
