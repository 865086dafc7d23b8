"""From a policy's text, as a person wrote it, to rules, and what tells two policies apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drpg_dspy.types import Policy, Rule

__all__ = ["changed", "rules_from"]

_BULLET = re.compile(r"\s*(?:[-*•–]|\d{1,3}[.)])\s+")


def rules_from(text: str, author: str, known: Iterable[Rule] = ()) -> tuple[Rule, ...]:
    r"""Return the rules that a text states.

    Lines with a bullet or number begin a rule, others go on with the one before; a text without
    any has a rule on each line. A rule that is known keeps its id, author and sources.

    Args:
        text: The text.
        author: Of the rules that are new.
        known: Rules of earlier versions.

    >>> [rule.text for rule in rules_from("- Use INNER JOIN\n  by default.\n- Quote names.", "me")]
    ['Use INNER JOIN by default.', 'Quote names.']
    >>> [rule.text for rule in rules_from("Quote names.\n\nNo CROSS JOIN.", "me")]
    ['Quote names.', 'No CROSS JOIN.']
    """
    lines = [line for line in text.splitlines() if line.strip()]
    bulleted = any(_BULLET.match(line) for line in lines)
    found: list[str] = []
    for line in lines:
        match = _BULLET.match(line)
        if match or not bulleted or not found:
            found.append(line[match.end() :].strip() if match else line.strip())
        else:
            found[-1] = f"{found[-1]} {line.strip()}".strip()
    earlier = {rule.text: rule for rule in known}
    texts = dict.fromkeys(text for text in found if text)
    return tuple(earlier.get(text) or Rule(text, author=author) for text in texts)


def changed(before: Policy | None, after: Policy | None) -> list[tuple[str, str]]:
    """Return what went (``-``), came (``+``) and stayed; the order of rules is no change.

    >>> one, other = Policy("p", (Rule("A"), Rule("B"))), Policy("p", (Rule("B"), Rule("C")))
    >>> changed(one, other)
    [('-', 'A'), (' ', 'B'), ('+', 'C')]
    """
    old = [rule.text for rule in before.rules] if before is not None else []
    new = [rule.text for rule in after.rules] if after is not None else []
    gone = [("-", text) for text in old if text not in new]
    return gone + [(" " if text in old else "+", text) for text in new]
