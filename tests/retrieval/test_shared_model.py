from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drpg_dspy.retrieval import shared_model as module
from drpg_dspy.retrieval.embedder import SentenceTransformerEmbedder
from drpg_dspy.retrieval.shared_model import model_key, shared_model


class Parameter:
    """A model's parameter, without torch."""

    def __init__(self, value: float) -> None:
        self.array = np.full(3, value, dtype=np.float32)

    def detach(self) -> Parameter:
        return self

    cpu = contiguous = detach

    def numpy(self) -> np.ndarray:
        return self.array


class Model:
    """What is needed of a sentence-transformers model, counting who uses it at once."""

    loaded = 0
    max_seq_length = 8

    def __init__(self, name: str, **options: Any) -> None:
        if name.startswith("no/"):
            raise OSError("it is not there")
        type(self).loaded += 1
        self.busy = threading.Lock()

    def parameters(self) -> list[Parameter]:
        return [Parameter(1.0)]

    def __iter__(self) -> Any:
        return iter(())

    def get_embedding_dimension(self) -> int:
        return 2

    def encode(self, texts: list[str], **options: Any) -> np.ndarray:
        assert self.busy.acquire(blocking=False), "two threads are inside at once"
        try:
            return np.array([[1.0, 0.0]] * len(texts), dtype=np.float32)
        finally:
            self.busy.release()


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    st = pytest.importorskip("sentence_transformers")
    gc.collect()
    monkeypatch.setattr(st, "SentenceTransformer", Model)
    monkeypatch.setattr(Model, "loaded", 0)


def test_embedders_that_name_one_model_share_it_and_free_it_with_the_last() -> None:
    one = SentenceTransformerEmbedder("some/model")
    two = SentenceTransformerEmbedder("some/model", name="another name", batch_size=4)
    other = SentenceTransformerEmbedder("some/model", revision="v2")
    model = weakref.ref(one._model)

    assert (one._model is two._model, one._model is other._model) == (True, False)
    assert (Model.loaded, two.identity.split("#")[0]) == (2, "another name")
    del one
    gc.collect()
    assert model() is not None
    del two
    gc.collect()
    assert model() is None


def test_threads_that_ask_at_once_load_it_once_and_take_turns() -> None:
    def use(_: int) -> Any:
        embedder = SentenceTransformerEmbedder("some/model")
        for _ in range(20):
            embedder(["a", "b"])
        return embedder

    with ThreadPoolExecutor(8) as pool:
        embedders = list(pool.map(use, range(8)))

    assert Model.loaded == 1
    assert len({id(embedder._model) for embedder in embedders}) == 1


def test_copies_share_the_model_and_what_is_sent_elsewhere_loads_it_there() -> None:
    embedder = SentenceTransformerEmbedder("some/model", batch_size=4)
    text = pickle.dumps(embedder)

    assert copy.deepcopy(embedder)._model is embedder._model
    assert b"Parameter" not in text
    del embedder
    gc.collect()
    again = pickle.loads(text)
    assert (again.batch_size, again(["x"]).shape, Model.loaded) == (4, (1, 2), 2)


def test_another_state_of_a_folder_is_another_model(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"1")
    os.utime(weights, ns=(1, 1))
    before = model_key(str(tmp_path), None, "cpu")
    assert model_key(f"{tmp_path}/.", None, "cpu") == before

    os.utime(weights, ns=(2, 2))
    assert model_key(str(tmp_path), None, "cpu") != before


def test_a_model_that_could_not_be_loaded_is_tried_again() -> None:
    def fail() -> Any:
        raise OSError("not yet")

    with pytest.raises(OSError, match="not yet"):
        shared_model("later", fail)
    assert shared_model("later", lambda: Model("x")).model is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_a_thread_that_stayed_behind() -> None:
    embedder = SentenceTransformerEmbedder("some/model")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with embedder._shared.lock, module._locks["loading"]:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    pid = os.fork()
    if pid == 0:
        got = embedder._shared.lock.acquire(timeout=5)
        os._exit(0 if got and module._locks["loading"].acquire(timeout=5) else 1)
    release.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
