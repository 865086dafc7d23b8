"""Names of a sweep's runs that older runs with other settings have already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpg_dspy.cli.app import wrong
from drpg_dspy.streaming import RunConfig, RunFolder

__all__ = ["Claim", "check_names"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that is there, and what a sweep wants under its name.

    Attributes:
        config: The file of settings.
        wanted: What a new run would be started with.
        folder: The run that has the name.
    """

    config: Path
    wanted: RunConfig
    folder: RunFolder


def check_names(claims: Iterable[Claim]) -> None:
    """Refuse a sweep that would take runs for its own that are not.

    Raises:
        click.BadParameter: Names all such runs, what differs, and what can be done.
    """
    said: list[str] = []
    for claim in claims:
        if differing := _differing(claim):
            said += _said(claim, differing)
    if said:
        raise wrong("FILES", "\n".join([*said, _REMEDIES]))


_REMEDIES = (
    "Or give the runs of this sweep names of their own (--prefix WORD), keep them in another "
    "folder (DRPG_RUNS=FOLDER drpg sweep …), or remove the old ones."
)

_FREE = {"data", "budget", "versions", "embedder", "threshold", "options", "extra"}
_ELSEWHERE = {"mlflow", "experiment", "tracking_uri", "stop_after_failures"}
_SINCE = {"category"}
"""An argument that is filled in where none is given, and was not in earlier versions."""


def _differing(claim: Claim) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which a run differs from its file: as it is, and as wanted."""
    stored, wanted = _compared(claim.folder.config), _compared(claim.wanted)
    return {
        name: (stored.get(name), wanted.get(name))
        for name in sorted({*stored, *wanted} - _SINCE)
        if stored.get(name) != wanted.get(name)
    }


def _compared(config: RunConfig) -> dict[str, Any]:
    """Return the settings in which a run must not differ from the file it is named after."""
    plain = config.as_dict()
    own = {name: value for name, value in plain.items() if name not in _FREE}
    extra = {name: value for name, value in plain["extra"].items() if name not in _ELSEWHERE}
    return {**plain["options"], **own, **extra}


def _said(claim: Claim, differing: dict[str, tuple[Any, Any]]) -> list[str]:
    name = claim.folder.name
    shown = "; ".join(f"{k}: {was!r}, now {now!r}" for k, (was, now) in differing.items())
    lines = [
        f"{claim.config} would be the run {name!r}, which was started with other settings "
        f"({shown}); it is in {claim.folder.path}."
    ]
    limit = claim.wanted.limit
    if set(differing) == {"limit"} and limit is not None:
        lines.append(f"To let it end after {limit} questions: drpg resume {name} --limit {limit}")
    return lines
