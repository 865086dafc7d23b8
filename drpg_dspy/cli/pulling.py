"""What ``drpg feedback pull`` does."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import click

from drpg_dspy.cli.app import wrong_if
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.named_learners import learner_named
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
    with learner_named(name) as learner:
        with wrong_if("--experiment", ValueError):
            pulled = pull_feedback(
                learner,
                wanted.experiment or None,
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
