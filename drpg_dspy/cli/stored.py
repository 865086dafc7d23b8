"""A run that exists, as it is to be gone on with: its settings of now, and its parts."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from drpg_dspy.cli.app import Stopped, wrong_if
from drpg_dspy.cli.learners import Stream, make_embedder, prepare
from drpg_dspy.exceptions import ModelNotFound, ResumeMismatch, StorageError
from drpg_dspy.memory import Embedder, SQLiteMemory
from drpg_dspy.retrieval.embedder import MINILM
from drpg_dspy.streaming import RunFolder
from drpg_dspy.streaming.settings import check_data, shorten

__all__ = ["EMBEDDER_KEY", "as_it_is", "check_data_of", "opened", "parts_of", "with_limit"]

EMBEDDER_KEY = "cli:embedder"
"""Setting of a memory under which a reindexed run keeps the spec of its embedder."""


def opened(name: str) -> RunFolder:
    """Open a run by its name; see :func:`as_it_is`."""
    return as_it_is(RunFolder.open(name))


def as_it_is(folder: RunFolder) -> RunFolder:
    """Return a run under the embedder that its vectors are from now, after a reindexing too."""
    if not folder.memory_path.exists():
        return folder
    try:
        with closing(SQLiteMemory(folder.memory_path, read_only=True)) as memory:
            spec = memory.get_meta(EMBEDDER_KEY) or folder.config.embedder
    except StorageError:
        return folder  # whoever reads its steps says that it is damaged
    return dataclasses.replace(folder, config=dataclasses.replace(folder.config, embedder=spec))


def parts_of(folder: RunFolder, *, data: Any = None, limit: int | None = None) -> Stream:
    """Build the parts of a run that exists: what its own settings name wrongly is no wrong usage.

    Args:
        folder: The run.
        data: Where its data is now; ``None`` = where it was.
        limit: Examples wanted at least; ``None`` = as many as the run has.
    """
    config = folder.config
    if data is not None:
        config = dataclasses.replace(config, data=str(Path(data).absolute()))
    if limit is not None and config.limit is not None:
        config = dataclasses.replace(config, limit=max(limit, config.limit))
    try:
        return prepare(config, _embedder_of(folder))
    except click.BadParameter as error:
        if data is not None and error.param_hint == ["--data"]:
            raise
        where = " ".join(error.param_hint or ())
        raise Stopped(
            f"Run {folder.name!r} was started with a setting that cannot be used here ({where}): "
            f"{error.message}"
        ) from error


def _embedder_of(folder: RunFolder) -> Embedder:
    spec = folder.config.embedder
    try:
        return make_embedder(spec)
    except (click.BadParameter, ModelNotFound) as error:
        said = error.message if isinstance(error, click.BadParameter) else error
        get = (
            f"drpg lm pull {MINILM}"
            if spec in {None, "default", "minilm", MINILM}
            else f"put {spec!r} where it was, or connect to the hub that has it"
        )
        raise Stopped(
            f"Run {folder.name!r} was made with the embedder {spec!r}, which cannot be loaded: "
            f"{said}\nGet it back: {get}.\nOr move the run to another one: "
            f"drpg memory reindex {folder.name} --embedder SPEC"
        ) from error


def check_data_of(folder: RunFolder, stream: Stream) -> None:
    """Refuse data that a run's stream was not made of.

    Raises:
        click.BadParameter: Its questions are others.
    """
    if folder.memory_path.exists():
        with closing(SQLiteMemory(folder.memory_path, read_only=True)) as memory:
            with wrong_if("--data", ResumeMismatch):
                check_data(memory, stream.examples)


def with_limit(folder: RunFolder, stream: Stream, limit: int) -> tuple[RunFolder, Stream]:
    """Write down where a run's stream ends from now on."""
    with folder.lock(), wrong_if("--limit", ValueError):
        if folder.memory_path.exists():
            with closing(SQLiteMemory(folder.memory_path)) as memory:
                shorten(memory, stream.examples, limit)
        folder = folder.with_limit(limit)
    return folder, dataclasses.replace(stream, examples=stream.examples[:limit])
