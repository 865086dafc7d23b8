"""From a policy writer's reply to rules: parsed, cut to size, without repetition.

A reply may be anything: typed JSON, bullets after a marker, markdown, twelve rules, a refusal,
another language, fifty kilobytes. It is parsed or counted, never a crash.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import json_repair

__all__ = ["ParsedRules", "content_words", "literals", "parse_rules", "similar"]

MAX_RULES = 5
MAX_RULE_CHARS = 300
_MAX_REPLY_CHARS = 20_000  # beyond this a reply is a loop, not a policy

_BULLET = re.compile(r"^\s*(?:[-*•‣–—]|\(?\d{1,2}[.):])\s+(?P<text>.+)$")
_LABEL = re.compile(r"^(?:rule|policy|guideline)\s*\d*\s*[:.)-]\s*", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_HIJACK = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|rule|prompt|polic)"
    r"|\bsystem prompt\b",
    re.IGNORECASE | re.DOTALL,
)
_STOP = frozenset(
    "a an and are as at be by for from if in into is it its of on or that the this to use used "
    "using when where which with you your always ensure make sure".split()
)


@dataclass(frozen=True, slots=True)
class ParsedRules:
    """Rules found in a reply, best first, and what had to be done to get them.

    ``counts`` may hold ``rules_unparsable`` (no rule found), ``rules_over_limit``,
    ``rules_repeated``, ``rules_cut`` and ``rules_suspicious`` (a rule that tries to command
    the prompt itself, as text injected through feedback does).
    """

    texts: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def parse_rules(
    reply: Any, *, max_rules: int = MAX_RULES, max_rule_chars: int = MAX_RULE_CHARS
) -> ParsedRules:
    """Find at most ``max_rules`` distinct rules in a writer's reply.

    Args:
        reply: Text, or what a typed output gave (a list, or a mapping with ``rules``).
        max_rules: Rules kept, in the reply's order.
        max_rule_chars: Longer rules are cut at a word, visibly.

    >>> parse_rules("POLICY:\\n- Count each order once.\\n- Dates are text.").texts
    ('Count each order once.', 'Dates are text.')
    >>> parse_rules('{"rules": ["Use cents.", "Use cents!"]}').counts
    {'rules_repeated': 1}
    >>> parse_rules("I cannot help with that.").counts
    {'rules_unparsable': 1}
    """
    counts: Counter[str] = Counter()
    kept: list[str] = []
    for candidate in _candidates(reply):
        text = _clean(candidate)
        if not text:
            continue
        if _HIJACK.search(text):
            counts["rules_suspicious"] += 1
        elif any(similar(text, other) for other in kept):
            counts["rules_repeated"] += 1
        elif len(kept) == max_rules:
            counts["rules_over_limit"] += 1
        else:
            if len(text) > max_rule_chars:
                text = text[:max_rule_chars].rsplit(" ", 1)[0] + " …"
                counts["rules_cut"] += 1
            kept.append(text)
    if not kept:
        counts["rules_unparsable"] += 1
    return ParsedRules(tuple(kept), dict(counts))


def similar(a: str, b: str, threshold: float = 0.75) -> bool:
    """Tell whether two rules say the same in other words.

    Compares the sets of content words: the smaller one is contained in the larger by at least
    ``threshold``, and numbers and quoted names agree, so that "divide by 100" and "divide by
    12" stay two rules.

    >>> similar("Divide amount by 100.", "Always divide the amount by 100")
    True
    >>> similar("Divide amount by 100.", "Divide amount by 12.")
    False
    """
    if a.casefold() == b.casefold():
        return True
    words_a, words_b = content_words(a), content_words(b)
    if not words_a or not words_b:
        return False
    if literals(a) != literals(b):
        return False
    overlap = len(words_a & words_b)
    return overlap / min(len(words_a), len(words_b)) >= threshold and (
        overlap / max(len(words_a), len(words_b)) >= threshold / 2
    )


def content_words(text: str) -> frozenset[str]:
    """Return the words of a rule that carry its meaning, in lower case."""
    return frozenset(word.casefold() for word in _WORD.findall(text)) - _STOP


def literals(text: str) -> frozenset[str]:
    """Return numbers, names in code style and quoted text, and ``¬`` for a rule that forbids.

    They make a rule specific: two rules that differ in them are not the same.
    """
    found = re.findall(r"\d+(?:\.\d+)?|\w+_\w+|`[^`]+`|'[^']+'|\"[^\"]+\"", text)
    negations = re.findall(r"\b(?:not|never|no|without|except|exclude)\b", text, re.IGNORECASE)
    return frozenset(item.strip("`'\"").casefold() for item in found) | (
        {"¬"} if negations else frozenset()
    )


def _candidates(reply: Any) -> Iterable[str]:
    if isinstance(reply, Mapping):
        reply = reply.get("rules", [])
    if isinstance(reply, (list, tuple)):
        return [item if isinstance(item, str) else _from_object(item) for item in reply]
    if not isinstance(reply, str):
        return []
    text = reply[:_MAX_REPLY_CHARS]
    typed = _typed(text)
    if typed is not None:
        return _candidates(typed)
    marker = re.search(r"POLICY\s*:", text)
    return _bullets(text[marker.end() :] if marker else text)


def _from_object(item: Any) -> str:
    if isinstance(item, Mapping):
        strings = [value for value in item.values() if isinstance(value, str)]
        return max(strings, key=len, default="")
    return "" if item is None else str(item)


def _typed(text: str) -> Any:
    """Return the rules of a JSON reply, fenced or bare; None when it is not JSON."""
    fenced = re.search(r"```(?:json)?\s*\n(.*?)\n\s*```", text, re.DOTALL)
    body = (fenced.group(1) if fenced else text).strip()
    if not body.startswith(("{", "[")) or body.startswith("[["):
        return None
    try:
        value = json.loads(body)
    except (json.JSONDecodeError, RecursionError):
        # Cut off at the token limit, most often: what is there still counts.
        value = json_repair.loads(body)
    return value if isinstance(value, (dict, list)) else None


def _bullets(text: str) -> list[str]:
    """Bullet lines, each with its continuation lines; nested bullets count as rules."""
    rules: list[str] = []
    for line in text.splitlines():
        match = _BULLET.match(line)
        if match:
            rules.append(match.group("text"))
        elif rules and line.strip() and line.startswith((" ", "\t")):
            rules[-1] += " " + line.strip()
    return rules


def _clean(text: str) -> str:
    text = " ".join(text.split())
    bullet = _BULLET.match(text)
    if bullet:
        text = bullet.group("text")
    text = _LABEL.sub("", text.replace("**", "")).strip().strip('"').strip()
    words = _WORD.findall(text)
    # Scripts without spaces put a whole sentence into one word.
    return text if len(words) >= 2 or any(len(w) >= 4 and not w.isascii() for w in words) else ""
