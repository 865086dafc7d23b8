"""Finding passages: by words, by vectors, and by whatever a user brings."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

from drpg_dspy.retrieval import (
    BM25Retriever,
    CallableEmbedder,
    DenseRetriever,
    HashingEmbedder,
    passages_of,
)
from drpg_dspy.retrieval.passages import best

TEXTS = (
    "Kiss and Tell (1945 film) | A comedy with Shirley Temple as Corliss Archer.",
    "Shirley Temple | An actress and later Chief of Protocol of the United States.",
    "García Lorca | A poet born near Granada.",
    "Moon | The moon is far away.",
    "Moon | The moon is far away.",
)


def make(kind: str, texts: Sequence[str] = TEXTS, k: int = 2, **options: Any) -> Any:
    if kind == "bm25":
        return BM25Retriever(texts, k=k, **options)
    return DenseRetriever(texts, HashingEmbedder(), k=k, **options)


both = pytest.mark.parametrize("kind", ["bm25", "dense"])


# -- what retrievers return ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        dspy.Prediction(passages=["one", "two"]),
        ["one", "two"],
        ("one", "two"),
        [{"long_text": "one", "pid": 3}, {"text": "two"}],
        [types.SimpleNamespace(long_text="one"), types.SimpleNamespace(text="two")],
        dspy.Prediction(passages=[{"long_text": "one"}, "two"]),
    ],
)
def test_every_customary_form_of_result_is_read(result: Any) -> None:
    assert passages_of(result) == ["one", "two"]


@pytest.mark.parametrize("result", [None, "one", 3, [1], [{"title": "one"}], {"passages": 1}])
def test_another_form_is_refused_and_shown(result: Any) -> None:
    with pytest.raises(ValueError, match=r"must return a dspy\.Prediction with passages"):
        passages_of(result)


def test_our_retrievers_return_passages_with_places_and_scores() -> None:
    for kind in ("bm25", "dense"):
        found = make(kind)("Who was Chief of Protocol?")
        assert found.passages[0] == TEXTS[1]
        assert found.indices[0] == 1
        assert found.scores == sorted(found.scores, reverse=True)
        assert passages_of(found) == found.passages


def test_dspys_own_retriever_over_our_embedder_is_read_too() -> None:
    search = dspy.Embeddings(list(TEXTS), HashingEmbedder(), k=1)
    assert passages_of(search("Who was Chief of Protocol?")) == [TEXTS[1]]


# -- order and bounds ---------------------------------------------------------------------------


@both
def test_equal_scores_stand_in_the_order_of_the_passages(kind: str) -> None:
    search = make(kind, ["moon far"] * 70 + ["sun near"], k=3)
    assert search("moon far").indices == [0, 1, 2]
    assert search("moon far", k=40).indices == list(range(40))


def test_the_best_of_an_array_are_exact_whatever_the_ties() -> None:
    scores = np.random.default_rng(0).integers(0, 4, 300).astype(np.float32)
    for k in (1, 7, 150, 300, 500):
        assert best(scores, k) == sorted(range(300), key=lambda i: (-scores[i], i))[:k]


@both
def test_more_than_there_is_gives_what_there_is(kind: str) -> None:
    search = make(kind, TEXTS[:2], k=9)
    assert sorted(search("Shirley Temple the actress and Archer").indices) == [0, 1]


def test_passages_that_share_no_word_are_not_found_by_words() -> None:
    search = make("bm25", k=5)
    assert search("Which poet was born in Granada?").indices == [2]
    for query in ("", "   ", "the of and", "?!", "xylophones", "\ud800", "日本"):
        assert search(query).passages == []


@both
def test_any_query_is_answered(kind: str) -> None:
    search = make(kind)
    for query in ("\u0000 moon", "moon " * 5000, "MOON", "moons'"):
        assert len(search(query).passages) <= 2
    assert 3 in make("bm25")("MOONS").indices


def test_accents_and_case_do_not_matter_and_other_scripts_count() -> None:
    search = make("bm25", [*TEXTS, "東京 | 日本 の 首都"], k=1)
    assert search("garcia LORCA").indices == [2]
    assert search("日本").indices == [5]


@both
@pytest.mark.parametrize(
    ("passages", "k", "said"),
    [
        ([], 2, "at least one passage"),
        ("text", 2, "must be a list of texts"),
        (["a", 3], 2, "must be texts, got 3"),
        (["a"], 0, "k must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(kind: str, passages: Any, k: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make(kind, passages, k=k)


def test_passages_without_any_word_find_nothing() -> None:
    search = make("bm25", ["?!", "..."])
    assert search("what").passages == []


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("bm25s", "Stemmer"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(ImportError, match=r"drpg-dspy\[retrieval\]"):
                make("bm25")


# -- copies, threads, files ---------------------------------------------------------------------


class Holder(dspy.Module):
    def __init__(self, search: Any) -> None:
        super().__init__()
        self.search = search
        self.answer = dspy.Predict("question -> answer")


@both
def test_a_copied_program_shares_the_index_and_a_pickled_one_finds_the_same(kind: str) -> None:
    program = Holder(make(kind))
    assert program.deepcopy().search is program.search
    assert copy.deepcopy(program.search) is program.search
    again = pickle.loads(pickle.dumps(program.search))
    assert again("Shirley Temple").toDict() == program.search("Shirley Temple").toDict()


@both
def test_many_threads_find_the_same(kind: str) -> None:
    search = make(kind)
    queries = ["Shirley Temple's protocol", "a poet of Granada", "the far moon"] * 20
    alone = [search(query).indices for query in queries]
    found: list[Any] = [None] * len(queries)

    def ask(i: int) -> None:
        found[i] = search(queries[i]).indices

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


@both
def test_an_index_on_disk_gives_the_same_and_belongs_to_its_passages(
    kind: str, tmp_path: Path
) -> None:
    fresh = make(kind)("Shirley Temple").toDict()
    for _ in range(2):
        assert make(kind, cache=tmp_path)("Shirley Temple").toDict() == fresh
    files = {path.name for path in tmp_path.iterdir()}
    assert len(files) == 1
    other = make(kind, [*TEXTS[:4], "Sun | Near."], cache=tmp_path)
    assert other("sun").passages[0] == "Sun | Near."
    assert len(list(tmp_path.iterdir())) == 2


@both
def test_a_damaged_file_is_made_again(kind: str, tmp_path: Path) -> None:
    fresh = make(kind, cache=tmp_path)("Shirley Temple").toDict()
    for path in [p for p in tmp_path.rglob("*") if p.is_file()]:
        raw = path.read_bytes()
        path.write_bytes(raw[: len(raw) // 2])
        assert make(kind, cache=tmp_path)("Shirley Temple").toDict() == fresh, path.name


def test_texts_are_embedded_once_and_never_read_by_another_model(tmp_path: Path) -> None:
    calls: list[int] = []

    def embedder(name: str) -> CallableEmbedder:
        def embed(texts: list[str]) -> Any:
            calls.append(len(texts))
            return [[len(text), 1.0] for text in texts]

        return CallableEmbedder(embed, name, dimension=2)

    DenseRetriever(TEXTS, embedder("a"), cache=tmp_path)
    DenseRetriever(TEXTS, embedder("a"), cache=tmp_path)
    assert calls == [5]
    DenseRetriever(TEXTS, embedder("b"), cache=tmp_path)
    assert calls == [5, 5]


def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path: Path) -> None:
    texts = [f"passage number {i}" for i in range(1500)]
    sizes: list[int] = []

    def embed(batch: list[str]) -> Any:
        sizes.append(len(batch))
        if len(sizes) == 2:
            raise KeyboardInterrupt
        return np.ones((len(batch), 3))

    embedder = CallableEmbedder(embed, "slow", dimension=3)
    with pytest.raises(KeyboardInterrupt):
        DenseRetriever(texts, embedder, cache=tmp_path)
    DenseRetriever(texts, embedder, cache=tmp_path)
    assert sizes == [1024, 476, 476]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("query", [None, 3, ["x"]])
def test_a_query_that_is_no_text_is_refused(query: Any) -> None:
    for retriever in (BM25Retriever(TEXTS), DenseRetriever(TEXTS, HashingEmbedder())):
        with pytest.raises(ValueError, match="A query must be a text, got"):
            retriever(query)
