"""Embedding models in memory: one of each for a process, however many use it."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

__all__ = ["SharedModel", "model_key", "shared_model"]


class SharedModel:
    """A loaded model, one for all embedders that name it; freed with the last of them.

    Args:
        model: A sentence-transformers model.

    Attributes:
        fingerprint: Names its parameters, whatever file or library version they came through.
        pooling: How token vectors become one.
        lock: Held while it computes: tokenizers are not safe among threads.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.fingerprint = _fingerprint(model)
        self.pooling = _pooling(model)
        self.lock = threading.RLock()


def shared_model(key: Hashable, load: Callable[[], Any]) -> SharedModel:
    """Return the model of that key, loaded unless this process has it.

    Args:
        key: Names the model and where it computes.
        load: Loads it; what it raises is raised.
    """
    with _locks["loading"]:
        shared = _models.get(key)
        if shared is None:
            _models[key] = shared = SharedModel(load())
        return shared


def model_key(model: str, revision: str | None, device: str) -> Hashable:
    """Return what two embedders share a model by; another state of a folder is another model."""
    folder = Path(model)
    if not folder.is_dir():
        return model, revision, device
    changed = max((entry.stat().st_mtime_ns for entry in folder.iterdir()), default=0)
    return str(folder.resolve()), changed, device


_models: weakref.WeakValueDictionary[Hashable, SharedModel] = weakref.WeakValueDictionary()
_locks = {"loading": threading.RLock()}


def _after_fork() -> None:
    # The thread that held a lock is not in the child.
    _locks["loading"] = threading.RLock()
    for shared in list(_models.values()):
        shared.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _fingerprint(model: Any) -> str:
    parts = sorted(
        hashlib.sha256(parameter.detach().cpu().contiguous().numpy().tobytes()).digest()
        for parameter in model.parameters()
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def _pooling(model: Any) -> str:
    modes = [getattr(module, "pooling_mode", None) for module in model]
    return next((str(mode) for mode in modes if mode), "pooling?")
