"""Rules that only repeat what their writer was shown, as small models write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["echoes"]

_RUN = 5
"""Words in a row that are no coincidence."""

_SHARE = 0.8
"""Of a rule's runs: from here on it is the text shown, with a word changed or put before it."""

_WORD = re.compile(r"\w+")
_LABELS = frozenset({"step", "module", "modules", "rule", "rules", "received", "gave"})
_FORMAT = "note: the value you produce must adhere to the JSON schema type array items type string"
"""What DSPy puts behind a typed field's name."""


def echoes(rule: str, shown: str, names: Iterable[str] = ()) -> bool:
    """Tell whether a rule is nothing but words of the text that its writer was shown.

    Args:
        rule: One rule.
        shown: The record of a case and the module's purpose. Not what a reviewer said: to keep
            those words is right.
        names: Of modules. A rule of a few words is an echo only if it holds nothing but such
            names, labels of the record and numbers.

    >>> shown = "[step 1] module: draft\\nreceived word: a bird in the hand is worth two"
    >>> echoes("A bird in the hand is worth two.", shown)
    True
    >>> echoes("Step 1: module: draft", shown, ["draft"]), echoes("Write in capitals.", shown)
    (True, False)
    """
    words = _words(rule)
    if len(words) < _RUN:
        known = _LABELS.union(*(_words(name) for name in names))
        return all(word in known or word.isdigit() for word in words)
    seen = {*_runs(_words(shown)), *_runs(_words(_FORMAT))}
    runs = _runs(words)
    return sum(run in seen for run in runs) >= _SHARE * len(runs)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: list[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)]
