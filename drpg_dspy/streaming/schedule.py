"""In which order a stream is met, and how a stream is recognised again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy
import numpy as np

from drpg_dspy.plain import dumps

__all__ = ["checked_examples", "fingerprint", "stream_order"]


def stream_order(n: int, seed: int | None = 42) -> list[int]:
    """Return the positions 0 … n-1 in the order in which a stream meets them.

    The permutation of ``numpy.random.default_rng(seed)``, which StreamBench and DRPG use: seed
    42 is the order of the published figures.

    Args:
        n: Number of examples.
        seed: A whole number of at least 0; ``None`` keeps the order as given.

    Raises:
        ValueError: ``n`` or ``seed`` is negative or not a whole number.

    >>> stream_order(5, seed=None)
    [0, 1, 2, 3, 4]
    >>> stream_order(5)
    [4, 2, 3, 1, 0]
    """
    _check_whole("n", n)
    if seed is None:
        return list(range(n))
    _check_whole("seed", seed)
    return [int(i) for i in np.random.default_rng(seed).permutation(n)]


def checked_examples(examples: Sequence[Any]) -> list[dspy.Example]:
    """Return a stream's examples as a list, or say what is wrong with them.

    Args:
        examples: Each a ``dspy.Example`` whose inputs are marked by ``with_inputs``; where they
            carry an ``id``, no two share one.

    Raises:
        ValueError: There are none, an element is no example, its inputs are not marked, or ids
            repeat. The message names the elements.
    """
    if isinstance(examples, (str, bytes, Mapping)) or not isinstance(examples, Iterable):
        raise ValueError(f"A stream is a list of dspy.Example, got {examples!r}.")
    stream = list(examples)
    if not stream:
        raise ValueError("The stream is empty: it needs at least one example.")
    for step, example in enumerate(stream, start=1):
        _check_inputs(step, example)
    ids = Counter(str(example.get("id")) for example in stream if example.get("id") is not None)
    repeated = [name for name, count in ids.items() if count > 1]
    if repeated:
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        raise ValueError(
            f"Examples share an id: {', '.join(map(repr, repeated[:5]))}{more}. "
            "Give each example an id of its own, or leave the ids out."
        )
    return stream


def fingerprint(examples: Sequence[dspy.Example]) -> str:
    """Return a short name for the ids and inputs of examples, in their order.

    Labels are left out: a corrected gold answer does not change what the program was asked.

    Raises:
        StorageError: An input has no plain form and could not be recorded.

    >>> a, b = (dspy.Example(q=text).with_inputs("q") for text in "ab")
    >>> fingerprint([a, b]) != fingerprint([b, a])
    True
    """
    hasher = hashlib.sha256()
    for step, example in enumerate(examples, start=1):
        name = str(example.get("id", ""))
        asked = dict(example.inputs().items())
        line = dumps([name, asked], where=f"inputs of step {step} (id {name!r})")
        hasher.update(line.encode("ascii") + b"\n")
    return hasher.hexdigest()[:16]


def _check_inputs(step: int, example: Any) -> None:
    if not isinstance(example, dspy.Example):
        raise ValueError(
            f"Step {step} of the stream is of type {type(example).__name__}, not a dspy.Example: "
            f"{str(example)[:80]!r}."
        )
    try:
        given = len(example.inputs())
    except ValueError:
        given = 0
    if not given:
        raise ValueError(
            f"Step {step} of the stream (id {example.get('id')!r}) does not say which of its "
            f"fields {sorted(example.keys())} are inputs; mark them: example.with_inputs(…)."
        )


def _check_whole(name: str, value: Any) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}.")
