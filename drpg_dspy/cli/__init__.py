"""The command line ``drpg``: one file for each group of commands.

Command files declare arguments and help and stay light; what they call is imported when a
command runs, so that ``drpg --help`` and shell completion need no language-model library.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 nobody reads the output. Results
go to stdout; progress, notes and errors go to stderr.
"""

from __future__ import annotations

import warnings
from typing import Any

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.audit import audit
from drpg_dspy.cli.compare import compare
from drpg_dspy.cli.constraints import constraints
from drpg_dspy.cli.demo import demo
from drpg_dspy.cli.epochs import epochs
from drpg_dspy.cli.feedback import feedback
from drpg_dspy.cli.listing import list_command
from drpg_dspy.cli.lm import lm
from drpg_dspy.cli.memory import memory
from drpg_dspy.cli.policy import policy
from drpg_dspy.cli.recap import recap, recap_judge, recap_report
from drpg_dspy.cli.report import report
from drpg_dspy.cli.run import resume, run
from drpg_dspy.cli.score import score
from drpg_dspy.cli.show import show
from drpg_dspy.cli.sweep import sweep

__all__ = ["cli", "main"]


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="drpg-dspy", prog_name="drpg")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A running DSPy program improves its own policy from feedback.

    \b
    Example:
      drpg demo                                      see it work, without any key
      drpg run house_rules --lm openai/gpt-4.1-mini --limit 50 --name first
      drpg show first --step 41
      drpg policy log first

    Next: drpg COMMAND --help explains each command with an example.
    """
    help_if_alone(ctx)


for _command in (
    demo, run, epochs, resume, sweep, compare, show, report, audit, policy, score, feedback,
    list_command, lm, memory, constraints, recap, recap_report, recap_judge,
):  # fmt: skip
    cli.add_command(_command)


def _plainly(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, (UserWarning, RuntimeWarning)):  # meant for users; others are not
        click.echo(f"Note: {message}", err=True)


def main() -> None:
    """Run the command line with the arguments of this process."""
    warnings.showwarning = _plainly
    cli(prog_name="drpg")
