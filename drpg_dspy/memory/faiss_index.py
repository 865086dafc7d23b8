"""Exact nearest neighbours at half of the vectors' memory.

A search over float vectors is bound by how fast memory can be read. So FAISS keeps one byte for
each component and reads a fourth, a second byte is looked at for the few vectors that come
near, and the float vectors in the file decide about those that come nearest. Nothing is lost.

Let R be a rotation, b = round(s R x) a vector's bytes for a scale s, and e the largest
‖R x - b / s‖ among the vectors kept; likewise c, r and f for a query q. By Cauchy and Schwarz,
for unit vectors,

    |<q, x> - <c / r, b / s>|  <=  e + f (1 + e)

so a vector among the best k lies at most twice this below the k-th best screened score. All
that do are looked at again with two bytes, whose error is some 250 times smaller, and those
that remain are scored with the stored vectors: the result is that of a full search, ties
included. In practice these are hardly more than k. The rotation spreads any embedding evenly
over its components, so that one scale fits all of them.

Each verdict has an index of its own, so a filtered search reads nothing of the other. The
vectors that came last wait in a short list and are scored as they are, because rounding many
together costs little more than rounding one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import faiss
import numpy as np

from drpg_dspy.types import Verdict

__all__ = ["FaissIndex", "Labels"]

Similarities = Callable[[np.ndarray], np.ndarray]
"""Gives the exact similarities of the wanted ids to the query."""

_SIGMAS = 6.0
"""Components beyond this many standard deviations are cut off (and the error grows)."""

_FLOAT_SLACK = 1e-5
"""More than rotating in float32 can add to the screening error."""

_BATCH = 4096
_TURNED = 64
"""Components turned together."""

_BLOCK_ROWS = 16_384
_FINER = 256.0
"""How much finer two bytes are than one."""

_FRESH = 32
"""Vectors that wait to be rounded together."""

_SPARE = 32
"""Neighbours asked for beyond 6k; usually more than lie within the error."""


class Labels:
    """The verdict of each id, one byte each, and how many there are of either.

    >>> labels = Labels()
    >>> labels.put(7, "wrong"); labels.put(7, "correct"); labels.put(9, None)
    >>> labels.get(7), labels.count("wrong"), labels.count(None)
    ('correct', 0, 1)
    """

    _NAMES: tuple[Verdict | None, ...] = (None, "wrong", "correct")

    def __init__(self) -> None:
        self._codes = bytearray()
        self._counts = [0, 0, 0]

    def get(self, id: int) -> Verdict | None:
        """Return the verdict of an id; ``None`` when it has none."""
        return self._NAMES[self._codes[id]] if id < len(self._codes) else None

    def put(self, id: int, verdict: Verdict | None) -> None:
        """Set or remove the verdict of an id."""
        if id >= len(self._codes):
            if verdict is None:
                return
            self._codes.extend(bytes(id + 1 - len(self._codes)))
        code = self._NAMES.index(verdict)
        self._counts[self._codes[id]] -= 1
        self._counts[code] += 1
        self._codes[id] = code

    def count(self, verdict: Verdict | None) -> int:
        """Return how many ids have this verdict, or any."""
        if verdict is None:
            return self._counts[1] + self._counts[2]
        return self._counts[self._NAMES.index(verdict)]


class FaissIndex:
    """Vectors by id and verdict. Not thread-safe: the owner holds a lock.

    Args:
        dimension: Length of a vector.

    >>> index = FaissIndex(2)
    >>> points = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)
    >>> index.add([5, 6, 9], points, "correct")
    >>> near = lambda ids: np.array([points[{5: 0, 6: 1, 9: 2}[i]][0] for i in ids])
    >>> index.search(np.array([1, 0], dtype=np.float32), 2, None, near)
    [(5, 1.0), (9, 1.0)]
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._rotation = _Rotation(dimension)
        scale = 127.0 / min(1.0, _SIGMAS / math.sqrt(dimension))
        self._parts: dict[Verdict, _Part] = {
            "correct": _Part(self._rotation, scale),
            "wrong": _Part(self._rotation, scale),
        }
        self._labels = Labels()
        self._last: _Query | None = None

    def __len__(self) -> int:
        return self._labels.count(None)

    def add(self, ids: Sequence[int], vectors: np.ndarray, verdict: Verdict) -> None:
        """Add vectors; an id that is there already gets its new vector and verdict.

        Args:
            ids: Distinct numbers, at least 0.
            vectors: Unit vectors, float32 of shape ``(len(ids), dimension)``.
            verdict: Of all of them.
        """
        self.remove(ids)
        with _one_thread():
            for start in range(0, len(ids), _BATCH):
                stop = start + _BATCH
                self._parts[verdict].add(ids[start:stop], vectors[start:stop])
        for id in ids:
            self._labels.put(id, verdict)

    def remove(self, ids: Sequence[int]) -> None:
        """Remove ids; one that is not there is no error."""
        for verdict, part in self._parts.items():
            gone = [id for id in ids if self._labels.get(id) == verdict]
            if gone:
                with _one_thread():
                    part.remove(gone)
        for id in ids:
            self._labels.put(id, None)

    def search(
        self, vector: np.ndarray, k: int, verdict: Verdict | None, similarities: Similarities
    ) -> list[tuple[int, float]]:
        """Return the ids of the ``k`` nearest vectors with their similarities.

        Most similar first; equal similarity, smaller id first.

        Args:
            vector: The query, a unit vector.
            k: At least 1; more than exist gives all.
            verdict: Which index; ``None`` for both.
            similarities: Gives the exact similarities, in [-1, 1].
        """
        query = self._last
        if query is None or not np.array_equal(query.vector, vector):
            self._last = query = _Query(vector, self._rotation)
        parts = self._parts.values() if verdict is None else (self._parts[verdict],)
        with _one_thread():
            found = [part.candidates(query, k) for part in parts if len(part)]
        if not found:
            return []
        ids = np.concatenate(found)
        exact = similarities(ids)
        order = np.lexsort((ids, -exact))[:k]
        return [(int(ids[i]), float(exact[i])) for i in order]


class _Query:
    """A query, rotated and rounded; both verdicts are searched with the same."""

    def __init__(self, vector: np.ndarray, rotation: _Rotation) -> None:
        self.vector = vector.copy()
        self.turned = rotation(vector[None])
        self.scale = 127.0 / max(float(np.abs(self.turned).max()), 1e-6)
        self.coarse = _rounded(self.turned * np.float32(self.scale), 127)
        self.lost = float(_lengths(self.turned - self.coarse / np.float32(self.scale))[0])


class _Block:
    """Some thousand rotated vectors: a byte for each component in FAISS, another beside it.

    Blocks neither move nor double when an index grows, and a removal shifts one of them alone.
    """

    def __init__(self, width: int) -> None:
        self.coarse = faiss.IndexScalarQuantizer(
            width, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
        )
        self.rest = np.empty((_BLOCK_ROWS, width), dtype=np.int8)  # untouched pages are free
        self.ids = np.empty(_BLOCK_ROWS, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.coarse.ntotal)

    def add(self, ids: Sequence[int], coarse: np.ndarray, rest: np.ndarray) -> None:
        start, stop = len(self), len(self) + len(ids)
        self.ids[start:stop], self.rest[start:stop] = ids, rest
        self.coarse.add(coarse)

    def fine(self, places: np.ndarray) -> np.ndarray:
        """Return both bytes together, as floats."""
        width = self.coarse.d
        codes = faiss.rev_swig_ptr(self.coarse.codes.data(), len(self) * width)
        high = codes.reshape(-1, width)[places].astype(np.float32)
        high -= 128.0  # how FAISS keeps a signed byte
        high *= _FINER
        high += self.rest[places]
        return np.asarray(high)

    def remove(self, ids: np.ndarray) -> None:
        gone = np.isin(self.ids[: len(self)], ids)
        if gone.any():
            kept, first = np.flatnonzero(~gone), int(np.argmax(gone))
            for start in range(first, len(kept), _BATCH):
                places = kept[start : start + _BATCH]
                self.ids[start : start + len(places)] = self.ids[places]
                self.rest[start : start + len(places)] = self.rest[places]
            self.coarse.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(gone)))


class _Part:
    """The vectors of one verdict, and the largest errors made in rounding them."""

    def __init__(self, rotation: _Rotation, scale: float) -> None:
        self.blocks = [_Block(rotation.width)]
        self.fresh: dict[int, np.ndarray] = {}
        self._rotation = rotation
        self._scale = scale
        self._coarse_error = self._fine_error = 0.0

    def __len__(self) -> int:
        return sum(map(len, self.blocks)) + len(self.fresh)

    def add(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        if len(self.fresh) + len(ids) <= _FRESH:
            self.fresh.update(zip(ids, vectors.copy(), strict=True))
            return
        ids = [*self.fresh, *ids]
        self._round(ids, np.stack([*self.fresh.values(), *vectors]))
        self.fresh.clear()

    def remove(self, ids: Sequence[int]) -> None:
        settled = [id for id in ids if self.fresh.pop(id, None) is None]
        if settled:
            for block in self.blocks:
                block.remove(np.asarray(settled, dtype=np.int64))

    def candidates(self, query: _Query, k: int) -> np.ndarray:
        """Return all ids that may belong to the best k."""
        fresh = np.fromiter(self.fresh, dtype=np.int64, count=len(self.fresh))
        if sum(map(len, self.blocks)) <= k:
            return np.concatenate([*(block.ids[: len(block)] for block in self.blocks), fresh])
        found = self._screened(query, k)
        ids = np.concatenate([block.ids[places] for block, places in found])
        fine = np.concatenate([block.fine(places) for block, places in found])
        scores = np.einsum("ij,j->i", fine, query.turned[0])
        unit = self._scale * _FINER
        floor = np.partition(scores, -k)[-k] - 2.0 * (self._fine_error + _FLOAT_SLACK) * unit
        return np.concatenate([ids[scores >= floor], fresh])

    def _round(self, ids: Sequence[int], vectors: np.ndarray) -> None:
        scaled = self._rotation(vectors) * np.float32(self._scale)
        coarse = _rounded(scaled, 127)
        rest = _rounded((scaled - coarse) * np.float32(_FINER), 127)
        lost = (scaled - coarse) / np.float32(self._scale)
        self._coarse_error = max(self._coarse_error, float(_lengths(lost).max()))
        lost -= rest / np.float32(self._scale * _FINER)
        self._fine_error = max(self._fine_error, float(_lengths(lost).max()))
        start = 0
        while start < len(ids):
            if len(self.blocks[-1]) == _BLOCK_ROWS:
                self.blocks.append(_Block(self._rotation.width))
            stop = start + _BLOCK_ROWS - len(self.blocks[-1])
            self.blocks[-1].add(ids[start:stop], coarse[start:stop], rest[start:stop])
            start = stop

    def _screened(self, query: _Query, k: int) -> list[tuple[_Block, np.ndarray]]:
        error = self._coarse_error + query.lost * (1.0 + self._coarse_error) + _FLOAT_SLACK
        blocks = [block for block in self.blocks if len(block)]
        wanted = 6 * k + _SPARE
        while True:
            found = [block.coarse.search(query.coarse, min(len(block), wanted)) for block in blocks]
            if len(found) == 1:  # FAISS gives them sorted
                kth = found[0][0][0, k - 1]
            else:
                kth = np.partition(np.concatenate([scores[0] for scores, _ in found]), -k)[-k]
            floor = float(kth) - 2.0 * error * query.scale * self._scale
            if all(
                len(block) <= wanted or scores[0, -1] < floor
                for block, (scores, _) in zip(blocks, found, strict=True)
            ):
                return [
                    (block, places[0][scores[0] >= floor])
                    for block, (scores, places) in zip(blocks, found, strict=True)
                ]
            wanted *= 4  # many are nearly as near: copies of one question, say


def _rounded(scaled: np.ndarray, limit: int) -> np.ndarray:
    """Return whole numbers (as floats), cut off at ± limit."""
    whole = np.rint(scaled)
    np.minimum(whole, limit, out=whole)
    np.maximum(whole, -limit, out=whole)
    return np.asarray(whole)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))


class _Rotation:
    """A fixed rotation: components shuffled, then turned in blocks.

    One full matrix would turn them more evenly, but for a single query the small product stays
    on one thread, where a large one wakes all of the BLAS library's.
    """

    def __init__(self, dimension: int) -> None:
        rng = np.random.default_rng(0)
        self._order = rng.permutation(dimension)
        gaussian = rng.standard_normal((_TURNED, _TURNED))
        self._block = np.ascontiguousarray(np.linalg.qr(gaussian)[0], dtype=np.float32)
        self.width = -(-dimension // _TURNED) * _TURNED

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        padded = np.zeros((len(vectors), self.width), dtype=np.float32)
        padded[:, : len(self._order)] = vectors[:, self._order]
        turned = padded.reshape(-1, _TURNED) @ self._block
        return np.asarray(turned).reshape(len(vectors), self.width)


@contextmanager
def _one_thread() -> Iterator[None]:
    # One query gives FAISS nothing to share out; idle OpenMP threads would spin or be waited
    # for, and in a forked child their pool does not exist.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
