"""One phrasing for each kind of wrong argument."""

from __future__ import annotations

import difflib
import math
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "LONGEST_RULE",
    "checked_path",
    "number",
    "one_line",
    "rule_text",
    "scalar",
    "takes_no",
    "whole",
]

LONGEST_RULE = 2_000
"""Longest rule or constraint that a person writes, in characters of its one line."""


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least ``least``.

    Raises:
        ValueError: Another kind, or too small; the message names the argument and the value.

    >>> whole("k", True, 1)
    Traceback (most recent call last):
    ValueError: k must be a whole number of at least 1, got True.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return value


def number(name: str, value: Any, over: float, most: float = math.inf) -> float:
    """Return a number in ``(over, most]``.

    Raises:
        ValueError: Another kind, or out of range; the message names the argument and the value.

    >>> number("threshold", "high", 0, 1)
    Traceback (most recent call last):
    ValueError: threshold must lie in (0, 1], got 'high'.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not over < value <= most:
        wanted = f"lie in ({over:g}, {most:g}]" if most < math.inf else f"be more than {over:g}"
        raise ValueError(f"{name} must {wanted}, got {value!r}.")
    return float(value)


def scalar(value: Any) -> float | None:
    """Return the one number that a value is, of whatever library; ``None`` = it is none.

    >>> import numpy as np
    >>> scalar(True), scalar(np.float32(0.5)), scalar(np.array([1.0])), scalar("1")
    (1.0, 0.5, None, None)
    """
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        return None
    if getattr(value, "shape", ()) != ():  # an array, whatever its length
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def checked_path(name: str, value: Any) -> Path:
    """Return a path.

    Raises:
        ValueError: Neither text nor a path; the message names the argument and the value.
    """
    if not isinstance(value, (str, os.PathLike)) or isinstance(value, bytes):
        raise ValueError(f"{name} must be a path, got {value!r}.")
    return Path(os.fspath(value))


def takes_no(who: str, name: str, known: Iterable[str]) -> str:
    """Say that an argument is unknown, which one may have been meant, and which there are.

    >>> takes_no("bird", "evidnce", ["evidence", "descriptions"])
    "bird takes no argument 'evidnce'. Did you mean 'evidence'? It takes: descriptions, evidence."
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    takes = f"It takes: {', '.join(names)}." if names else "It takes none."
    return f"{who} takes no argument {name!r}.{hint} {takes}"


def one_line(name: str, value: Any) -> str:
    r"""Return a text as the one line that it is in a list of rules.

    Line breaks of every kind, tabs and runs of blanks become one blank. What no line of a prompt
    can hold is refused: other control characters (they rewrite terminals and break JSON), and
    halves of surrogate pairs (they are no text at all).

    Raises:
        ValueError: No text, or one with such a character; the message names it and its place.

    >>> one_line("rule", "Use INNER JOIN\n\tby default. ")
    'Use INNER JOIN by default.'
    >>> one_line("rule", "Use \x1b[1mbold\x1b[0m.")
    Traceback (most recent call last):
    ValueError: rule must be plain text; it holds the character U+001B at 5: 'Use \x1b[1mbold\x1b'…
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {value!r}.")
    line = " ".join(value.split())
    for place, character in enumerate(line, 1):
        if unicodedata.category(character) in ("Cc", "Cs"):
            near = line[max(0, place - 12) : place + 8]
            raise ValueError(
                f"{name} must be plain text; it holds the character U+{ord(character):04X} at "
                f"{place}: {near!r}…"
            )
    return line


def rule_text(name: str, value: Any) -> str:
    """Return a rule that a person wrote, as one line; see :func:`one_line`.

    Raises:
        ValueError: No text, an empty one, one of more than :data:`LONGEST_RULE` characters, or
            one that is not plain.

    >>> rule_text("rule", "a" * 2001)
    Traceback (most recent call last):
    ValueError: rule must have 1 to 2000 characters, got 2001: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'…. Say it shorter, or as several rules.
    """  # noqa: E501 - a doctest's message is one line
    line = one_line(name, value)
    if not line:
        raise ValueError(f"{name} must have 1 to {LONGEST_RULE} characters, got {value!r}.")
    if len(line) > LONGEST_RULE:
        raise ValueError(
            f"{name} must have 1 to {LONGEST_RULE} characters, got {len(line)}: {line[:40]!r}…. "
            "Say it shorter, or as several rules."
        )
    return line
