"""The vectors that were looked at last, in one array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["VectorCache"]

_BYTES = 24_000_000


class VectorCache:
    """Vectors by number; when it is full, the one that came first goes first.

    Not thread-safe: the owner holds a lock.

    Args:
        dimension: Length of a vector.
        capacity: How many are kept; by default what fits into 24 MB.

    >>> cache = VectorCache(2, capacity=2)
    >>> for number in (7, 8, 9):
    ...     cache.put(number, np.array([number, 0], dtype=np.float32))
    >>> cache.missing([7, 9])
    [7]
    >>> cache.rows([9, 8, 9])[:, 0].tolist()
    [9.0, 8.0, 9.0]
    """

    def __init__(self, dimension: int, capacity: int | None = None) -> None:
        self._capacity = capacity or max(1, _BYTES // max(1, 4 * dimension))
        self._rows = np.empty((self._capacity, dimension), dtype=np.float32)  # pages on demand
        self._places: dict[int, int] = {}
        self._owners: list[int] = []
        self._next = 0

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def put(self, number: int, vector: np.ndarray) -> None:
        """Keep a vector; one with this number is replaced."""
        place = self._places.get(number)
        if place is None:
            place = self._next
            self._next = (place + 1) % self._capacity
            if place < len(self._owners):
                del self._places[self._owners[place]]
                self._owners[place] = number
            else:
                self._owners.append(number)
            self._places[number] = place
        self._rows[place] = vector

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return those that are not here."""
        return [number for number in numbers if number not in self._places]

    def rows(self, numbers: Sequence[int]) -> np.ndarray:
        """Return a copy of the vectors of numbers that are all here, in this order."""
        return self._rows[[self._places[number] for number in numbers]]

    def clear(self) -> None:
        """Forget all."""
        self._places.clear()
        self._owners.clear()
        self._next = 0
