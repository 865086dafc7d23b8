"""One phrasing for each kind of wrong argument."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

__all__ = ["checked_path", "number", "scalar", "whole"]


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
