"""``drpg show``: a run or a learner, or one step of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drpg_dspy.cli.app import Command, wrong_if
from drpg_dspy.cli.layout import emit_json
from drpg_dspy.cli.memory_names import MEMORY
from drpg_dspy.cli.names import OUTPUT_FILE

if TYPE_CHECKING:
    from drpg_dspy.memory.base import Memory

__all__ = ["show"]


@click.command(cls=Command)
@click.argument("name", type=MEMORY)
@click.option("--step", type=click.IntRange(1), help="Show this step in full.")
@click.option("--full", is_flag=True, help="Do not cut long values.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option(
    "--html",
    type=OUTPUT_FILE,
    help="Write the step inspector, one self-contained page, to this file.",
)
def show(name: str, step: int | None, full: bool, as_json: bool, html: Path | None) -> None:
    """Show NAME: its figures and a table of its steps, or one step in full.

    NAME is a run, a learner (its file is .drpg/NAME.sqlite), or a memory file.

    A step in full: the examples that were retrieved (R_t), the right and wrong cases that the
    policy writer saw (R'_t), the policy (P_t), the answer, the verdict with its feedback, and
    what each cost. Only the file is read, also while the run is going on.

    \b
    Example:
      drpg show first
      drpg show first --step 41
      drpg show first --html first.html

    Next: drpg policy log NAME for how the policy changed.
    """
    from drpg_dspy.cli import runs, steps

    with runs.reading(name) as memory:
        if html is not None:
            _write_html(name, memory, html)
            click.echo(f"Wrote {html}", err=as_json)
        if step is not None:
            with wrong_if("--step", ValueError):
                rollout, feedback = steps.find_step(memory, step)
            if as_json:
                emit_json(steps.step_as_plain(memory, rollout, feedback))
            else:
                click.echo(steps.step_as_text(memory, rollout, feedback, full))
        elif as_json:
            emit_json(runs.summary_as_plain(name, memory))
        elif html is None:
            click.echo_via_pager(runs.summary_as_text(name, memory))


def _write_html(name: str, memory: Memory, path: Path) -> None:
    from drpg_dspy.tracking.inspector import render

    path.write_text(render(memory, name, threshold=memory.threshold), encoding="utf-8")
