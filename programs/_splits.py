"""Construction, selection and test: parts of a benchmark that share no group.

A group is what must not be torn apart: a question, a conversation, a user. Which part a group
falls into depends on its name and the seed alone, as far as the sizes allow, so that the order
of a file and the rows around it do not matter.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any

import dspy

__all__ = ["PARTS", "checked_limit", "part_of"]

PARTS = ("construction", "selection", "test")
"""Policies are written from the first, chosen on the second, reported on the third."""


def part_of(
    examples: Sequence[dspy.Example], split: str, sizes: Any, *, seed: int = 1, what: str
) -> list[dspy.Example]:
    """Return the examples of one part, in their own order.

    Args:
        examples: All of them, each with its ``group``.
        split: One of :data:`PARTS`, or ``"stream"`` for everything.
        sizes: Groups in construction, selection and test. Where there are fewer groups than
            these, the parts shrink in proportion and a warning says so.
        seed: Another one gives other parts.
        what: What a group is, for the messages, e.g. ``"questions"``.

    Raises:
        ValueError: An unknown split, or sizes that are no three whole numbers.
    """
    if split == "stream":
        return list(examples)
    if split not in PARTS:
        raise ValueError(f"The splits are stream, {', '.join(PARTS)}; got {split!r}.")
    wanted = _checked_sizes(sizes)
    groups = sorted({example.group for example in examples}, key=lambda g: (_place(g, seed), g))
    if len(groups) < sum(wanted):
        scaled = _scaled(wanted, len(groups))
        warnings.warn(
            f"{len(groups)} {what} are fewer than {' + '.join(map(str, wanted))}: construction, "
            f"selection and test have {', '.join(map(str, scaled))}.",
            UserWarning,
            stacklevel=3,
        )
        wanted = scaled
    number = PARTS.index(split)
    begin = sum(wanted[:number])
    chosen = set(groups[begin : begin + wanted[number]])
    return [example for example in examples if example.group in chosen]


def checked_limit(limit: int | None) -> int | None:
    """Return a limit.

    Raises:
        ValueError: It is negative.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, got {limit}.")
    return limit


def _checked_sizes(sizes: Any) -> tuple[int, int, int]:
    good = isinstance(sizes, (list, tuple)) and len(sizes) == 3
    good = good and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes)
    if not good or not any(sizes):
        raise ValueError(
            "sizes must be three whole numbers (construction, selection, test), e.g. "
            f"[150, 300, 300]; got {sizes!r}."
        )
    return (sizes[0], sizes[1], sizes[2])


def _scaled(sizes: tuple[int, int, int], total: int) -> tuple[int, int, int]:
    """Share out groups in proportion, the largest remainder first; no part wanted is empty."""
    exact = [total * size / sum(sizes) for size in sizes]
    counts = [int(share) for share in exact]
    by_rest = sorted(range(3), key=lambda i: (counts[i] - exact[i], i))
    for i in by_rest[: total - sum(counts)]:
        counts[i] += 1
    for i in range(3):
        most = max(range(3), key=lambda j: counts[j])
        if sizes[i] and not counts[i] and counts[most] > 1:
            counts[i], counts[most] = 1, counts[most] - 1
    return (counts[0], counts[1], counts[2])


def _place(group: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{group}".encode(), digest_size=8).digest()
