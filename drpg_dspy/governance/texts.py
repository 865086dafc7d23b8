"""From a policy's text, as a person wrote it, to rules, and what tells two policies apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drpg_dspy.arguments import rule_text
from drpg_dspy.types import Policy, Rule

__all__ = ["changed", "one_rule", "rules_from"]

_BULLET = re.compile(r"\s*(?:[-*•–]|\d{1,3}[.)])\s+")


def rules_from(text: str, author: str, known: Iterable[Rule] = ()) -> tuple[Rule, ...]:
    r"""Return the rules that a text states.

    Lines with a bullet or number begin a rule, others go on with the one before; a text without
    any has a rule on each line. A rule that is known keeps its id, author and sources.

    Args:
        text: The text.
        author: Of the rules that are new.
        known: Rules of earlier versions, whatever their length.

    Raises:
        ValueError: A new rule is longer than :data:`drpg_dspy.arguments.LONGEST_RULE`, or not
            plain text; the message says which and why.

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
    rules: dict[str, Rule] = {}
    for number, text in enumerate(texts, 1):
        known_one = earlier.get(text) or earlier.get(" ".join(text.split()))
        rule = known_one or Rule(rule_text(f"Rule {number}", text), author=author)
        rules[rule.text] = rule
    return tuple(rules.values())


def one_rule(text: str) -> str:
    r"""Return the one rule that a text states, without a bullet.

    Raises:
        ValueError: It states several or none, or one that no policy may hold, as for
            :func:`rules_from`.

    >>> one_rule("- Never answer\n  from memory.")
    'Never answer from memory.'
    >>> one_rule("- Quote names.\n- No CROSS JOIN.")
    Traceback (most recent call last):
    ValueError: rule must be one rule, got a list of 2. Pin each by itself.
    """
    line = rule_text("rule", text)
    bullets = sum(bool(_BULLET.match(line)) for line in text.splitlines())
    if bullets > 1:
        raise ValueError(f"rule must be one rule, got a list of {bullets}. Pin each by itself.")
    return _BULLET.sub("", line, count=1) if _BULLET.match(line) else line


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
