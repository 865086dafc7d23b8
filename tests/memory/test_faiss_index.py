from __future__ import annotations

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpg_dspy.memory import faiss_index
from drpg_dspy.memory.faiss_index import FaissIndex, Labels


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def similarities(vectors: dict[int, np.ndarray], query: np.ndarray):
    def of(ids: np.ndarray) -> np.ndarray:
        rows = np.stack([vectors[i] for i in ids.tolist()]).astype(np.float64)
        return np.clip((rows * query.astype(np.float64)).sum(axis=1), -1.0, 1.0)

    return of


def brute_force(
    vectors: dict[int, np.ndarray], query: np.ndarray, k: int
) -> list[tuple[int, float]]:
    ids = np.array(sorted(vectors))
    if not len(ids):
        return []
    exact = similarities(vectors, query)(ids)
    order = np.lexsort((ids, -exact))[:k]
    return [(int(ids[i]), float(exact[i])) for i in order]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dimension=st.sampled_from([1, 2, 3, 16, 64, 65, 100, 384]),
    n=st.integers(0, 300),
    distinct=st.integers(1, 40),
    k=st.integers(1, 40),
    sparse=st.booleans(),
)
def test_search_is_a_full_search_ties_included(
    seed: int, dimension: int, n: int, distinct: int, k: int, sparse: bool
) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.standard_normal((distinct, dimension))
    if sparse:  # most of the length in few components: what bytes hold worst
        pool *= rng.random(pool.shape) < 0.1
        pool[:, 0] += 0.01
    pool = unit(pool)
    ids = rng.permutation(1000)[:n]  # not in order of age
    chosen = {int(i): pool[rng.integers(distinct)] for i in ids}
    verdicts = {i: "correct" if rng.random() < 0.5 else "wrong" for i in chosen}
    index = FaissIndex(dimension)
    for i, vector in chosen.items():
        index.add([i], vector[None], verdicts[i])
    query = pool[0] if rng.random() < 0.5 else unit(rng.standard_normal((1, dimension)))[0]

    for verdict in ("correct", "wrong", None):
        wanted = {i: v for i, v in chosen.items() if verdict in (None, verdicts[i])}
        found = index.search(query, k, verdict, similarities(wanted, query))
        assert found == brute_force(wanted, query, k)


def test_an_index_of_many_blocks_is_searched_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "_BLOCK_ROWS", 10)
    rng = np.random.default_rng(5)
    pool = unit(rng.standard_normal((15, 8)))
    index, known = FaissIndex(8), {}
    for i in range(0, 90, 3):
        known |= {i + j: pool[rng.integers(15)] for j in range(3)}
        index.add([i, i + 1, i + 2], np.stack([known[i + j] for j in range(3)]), "correct")
    for gone in (0, 44, 45, *range(20, 30)):
        index.remove([gone])
        del known[gone]

    for k in (1, 7, 40, 99):
        found = index.search(pool[0], k, "correct", similarities(known, pool[0]))
        assert found == brute_force(known, pool[0], k)


def test_thousands_of_copies_of_one_question_are_found_by_age() -> None:
    vectors = unit(np.random.default_rng(0).standard_normal((2, 32)))
    index = FaissIndex(32)
    index.add(range(3000, 0, -1), np.repeat(vectors[:1], 3000, axis=0), "correct")
    index.add([5000], vectors[1:], "correct")
    known = dict.fromkeys(range(1, 3001), vectors[0]) | {5000: vectors[1]}

    found = index.search(vectors[0], 5, "correct", similarities(known, vectors[0]))

    assert [i for i, _ in found] == [1, 2, 3, 4, 5]


def test_only_what_may_be_among_the_nearest_is_scored_exactly() -> None:
    rng = np.random.default_rng(1)
    vectors = unit(rng.standard_normal((5000, 384)))
    index = FaissIndex(384)
    index.add(range(5000), vectors, "correct")
    asked: list[int] = []

    def count(ids: np.ndarray) -> np.ndarray:
        asked.append(len(ids))
        return vectors[ids].astype(np.float64) @ vectors[7].astype(np.float64)

    index.search(vectors[7], 16, "correct", count)

    assert 16 <= asked[0] <= 24


def test_a_removed_vector_shifts_no_other() -> None:
    vectors = unit(np.eye(4))
    index = FaissIndex(4)
    index.add([0, 1, 2, 3], vectors, "correct")
    index.remove([0])
    index.remove([0, 77])
    known = dict(enumerate(vectors))

    for i in (1, 2, 3):
        assert index.search(vectors[i], 1, None, similarities(known, vectors[i])) == [(i, 1.0)]
    assert len(index) == 3


def test_adding_an_id_again_replaces_its_vector_and_verdict() -> None:
    old, new = unit(np.eye(2))
    index = FaissIndex(2)
    index.add([4], old[None], "wrong")
    index.add([4], new[None], "correct")

    assert index.search(new, 9, None, similarities({4: new}, new)) == [(4, 1.0)]
    assert index.search(new, 9, "wrong", similarities({4: new}, new)) == []


def test_ids_survive_many_random_additions_and_removals() -> None:
    rng = np.random.default_rng(3)
    index, known = FaissIndex(8), {}
    for _ in range(400):
        if known and rng.random() < 0.4:
            gone = int(rng.choice(list(known)))
            index.remove([gone])
            del known[gone]
        else:
            i, vector = int(rng.integers(500)), unit(rng.standard_normal((1, 8)))
            index.add([i], vector, "correct" if rng.random() < 0.5 else "wrong")
            known[i] = vector[0]

    query = unit(rng.standard_normal((1, 8)))[0]
    found = index.search(query, 1000, None, similarities(known, query))
    assert found == brute_force(known, query, 1000)


def test_the_threads_of_faiss_are_left_as_they_were() -> None:
    before = faiss.omp_get_max_threads()
    index = FaissIndex(2)
    index.add([1], unit(np.ones((1, 2))), "correct")

    index.search(unit(np.ones((1, 2)))[0], 1, None, lambda ids: np.ones(len(ids)))

    assert faiss.omp_get_max_threads() == before


def test_vectors_are_kept_in_two_bytes_a_component() -> None:
    index = FaissIndex(384)
    index.add(range(2000), unit(np.random.default_rng(0).standard_normal((2000, 384))), "wrong")
    (block,) = index._parts["wrong"].blocks

    kept = block.coarse.code_size * 2000 + block.rest[:2000].nbytes

    assert kept == 2000 * 384 * 2


@pytest.mark.parametrize("verdict", ["correct", "wrong", None])
def test_labels_count_what_was_put_last(verdict: str | None) -> None:
    labels = Labels()
    for step in range(60):
        labels.put(step % 7, ("correct", "wrong", None)[step % 3])
    last = {step % 7: ("correct", "wrong", None)[step % 3] for step in range(60)}
    judged = [v for v in last.values() if v is not None]

    assert labels.count(verdict) == (len(judged) if verdict is None else judged.count(verdict))
    assert [labels.get(i) for i in range(8)] == [*(last[i] for i in range(7)), None]
