"""Other packages' words, kept off the terminal."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["OPTIMIZERS", "quiet"]

_NOISY = ("alembic", "mlflow", "LiteLLM", "httpx", "sentence_transformers", "faiss", "optuna")
OPTIMIZERS = {"dspy": logging.WARNING, "gepa": logging.WARNING}
"""DSPy's own optimizers: they report each candidate."""


@contextmanager
def quiet(more: dict[str, int] | None = None) -> Iterator[None]:
    """Let only warnings and errors of other packages through.

    Args:
        more: Further loggers and the least level that shows.
    """
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # it resets its loggers on import
    levels = {**dict.fromkeys(_NOISY, logging.WARNING), **(more or {})}
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
