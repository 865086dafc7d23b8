"""Answers that decline the task."""

from __future__ import annotations

import re

__all__ = ["is_refusal"]

_OPENS = 160
"""A refusal says so at once: characters from the start that are looked at."""

_SORRY = (
    r"(?:i['’]?m\s+(?:very\s+|so\s+)?sorry|i\s+am\s+sorry|sorry|(?:my\s+)?apologies|i\s+apologi[sz]e"
    r"|i['’]?m\s+afraid|i\s+am\s+afraid|unfortunately|regrettably)"
)
_CANNOT = (
    r"i\s*(?:['’]m|\s+am)?\s*(?:really\s+)?(?:can(?:['’]?t|not|\s+not)"
    r"|(?:am|['’]m)?\s*(?:not\s+able|unable)\s+to|won['’]?t(?:\s+be\s+able\s+to)?"
    r"|(?:must|have\s+to)\s+(?:decline|refuse))"
)
_TASK = (
    r"(?:fulfil?l?|comply|satisf\w+|complete|assist|help(?!\s+(?:but|\w+ing)\b)|provide|answer|do"
    r"|write|generate|create|meet|follow|process|respond|produce|proceed|continue|decline|refuse)"
)
# What is declined: the task that was given, and not something that the text is about.
_GIVEN = (
    r"(?:\s+(?:with|to|in|on|for))?(?:\s+(?:this|that|these|those|it|your|both|all|such|any"
    r"|the\s+(?:request|task|instructions?|constraints?|requirements?|rules?|question|prompt))\b"
    r"|\s*(?:[.!,;:–—-]|$))"
)
_REFUSAL = re.compile(
    rf"^\W*(?:\w+\s*[:–—-]\s*)?(?:as\s+an\s+ai\b[^.]{{0,60}},?\s*)?"
    rf"(?:{_SORRY}\b[\s,.;:–—-]*(?:but\s+|that\s+)?(?:{_CANNOT})\s+(?:\w+\s+){{0,2}}?{_TASK}\b"
    rf"|{_SORRY}\b[\s,.;:–—-]*(?:but\s+|that\s+)?i\s+(?:must|have\s+to)\s+(?:decline|refuse)\b"
    rf"|{_CANNOT}\s+(?:\w+\s+){{0,2}}?{_TASK}{_GIVEN}"
    r"|i\s+(?:must\s+|have\s+to\s+)?(?:refuse|decline)\s*(?:[.!]|$|to\b)|request\s+denied\b"
    r"|it(?:\s+is|['’]s)\s+(?:impossible|not\s+possible)\s+to\s+(?:satisfy|meet|fulfil?l?|follow)\b)"
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
