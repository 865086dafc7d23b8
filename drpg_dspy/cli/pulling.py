"""What ``drpg feedback pull`` does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import click
import dspy

from drpg_dspy.cli.app import wrong, wrong_if
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.learners import open_learner
from drpg_dspy.cli.memory_names import memory_path, run_of
from drpg_dspy.cli.names import RUN, import_from_here
from drpg_dspy.cli.stored import opened, parts_of
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.tracking import Pulled, pull_feedback

__all__ = ["Wanted", "pull_and_report"]

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of the command; what is empty is as :func:`pull_feedback` has it."""

    experiment: tuple[str, ...]
    assessment: tuple[str, ...]
    source: tuple[str, ...]
    days: float | None
    tracking_uri: str | None


def pull_and_report(name: str, wanted: Wanted, *, as_json: bool) -> None:
    """Pull into a run's learner or one of the user's own, and say what came of it."""
    with _learner(name, wanted) as (learner, experiments):
        with wrong_if("--experiment", ValueError):
            pulled = pull_feedback(
                learner,
                experiments or None,
                names=wanted.assessment or None,
                sources=[source.upper() for source in wanted.source] or ["HUMAN"],
                since=None if wanted.days is None else time.time() - wanted.days * _DAY,
                tracking_uri=wanted.tracking_uri,
            )
    if as_json:
        emit_json(dataclasses.asdict(pulled))
    else:
        click.echo(f"{name}: {_in_words(pulled)}")
    for reason in () if as_json else pulled.unreadable:
        click.echo(f"Note: {reason}", err=True)


@contextmanager
def _learner(name: str, wanted: Wanted) -> Iterator[tuple[OnlinePolicyOptimizer, tuple[str, ...]]]:
    """Open the learner meant, and say which experiments hold its traces."""
    if ":" in name:
        found = import_from_here(name, "NAME")
        online = found() if _is_factory(found) else found
        if not isinstance(online, OnlinePolicyOptimizer):
            raise wrong("NAME", f"{name} is no OnlinePolicyOptimizer, it is {online!r}.")
        with online:
            yield online, wanted.experiment
        return
    if run_of(name) is None and memory_path(name) is not None:
        raise wrong(
            "NAME",
            f"{name!r} is a learner's memory, and what is pulled is learned by its program: name "
            "the program as MODULE:ATTRIBUTE, e.g. shop_app:online.",
        )
    folder = opened(RUN.convert(name, None, None))
    with closing(parts_of(folder)) as stream:
        with open_learner(folder, stream, tracked=not folder.running) as online:
            yield online, wanted.experiment
            status = {"interrupted": "stopped: interrupted"}.get(folder.status, folder.status)
            online.close(status)


def _is_factory(found: Any) -> bool:
    return callable(found) and not isinstance(found, (dspy.Module, type))  # modules are called too


def _in_words(pulled: Pulled) -> str:
    parts = [
        f"{pulled.learned} verdicts taken over",
        f"{pulled.retracted} taken back",
        f"{pulled.unchanged} as before",
    ]
    if pulled.unreadable:
        parts.append(f"{len(pulled.unreadable)} are no verdict")
    if pulled.unknown:
        parts.append(f"{pulled.unknown} of answers that this memory does not hold")
    return f"{', '.join(parts)}; {pulled.traces} traces looked at"
