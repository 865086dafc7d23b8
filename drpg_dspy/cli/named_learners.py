"""The learner that a user names: a run's, or one of their own program's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import dspy

from drpg_dspy.cli.app import wrong
from drpg_dspy.cli.learners import open_learner
from drpg_dspy.cli.memory_names import memory_path, run_of
from drpg_dspy.cli.names import RUN, import_from_here
from drpg_dspy.cli.stored import opened, parts_of
from drpg_dspy.online import OnlinePolicyOptimizer

__all__ = ["learner_named"]


@contextmanager
def learner_named(name: str) -> Iterator[OnlinePolicyOptimizer]:
    """Open the learner meant, which may be running meanwhile in another process.

    Args:
        name: A run, or ``MODULE:ATTRIBUTE`` for an OnlinePolicyOptimizer or a function that
            returns one.

    Raises:
        click.BadParameter: It names neither, or a memory file, whose program is not known.
    """
    if ":" in name:
        found = import_from_here(name, "NAME")
        online = found() if _is_factory(found) else found
        if not isinstance(online, OnlinePolicyOptimizer):
            raise wrong("NAME", f"{name} is no OnlinePolicyOptimizer, it is {online!r}.")
        with online:
            yield online
        return
    if run_of(name) is None and memory_path(name) is not None:
        raise wrong(
            "NAME",
            f"{name!r} is a learner's memory, and from feedback its program learns: name the "
            "program as MODULE:ATTRIBUTE, e.g. shop_app:online.",
        )
    folder = opened(RUN.convert(name, None, None))
    # A running process follows the log itself and tells its tracker.
    with closing(parts_of(folder)) as stream:
        with open_learner(folder, stream, tracked=not folder.running) as online:
            yield online
            status = {"interrupted": "stopped: interrupted"}.get(folder.status, folder.status)
            online.close(status)


def _is_factory(found: Any) -> bool:
    return callable(found) and not isinstance(found, (dspy.Module, type))  # modules are called too
