"""``drpg memory``: care for the files that experiences are kept in."""

from __future__ import annotations

import click

from drpg_dspy.cli.app import Group, help_if_alone
from drpg_dspy.cli.memory_names import MEMORY, memory_file

__all__ = ["memory"]


@click.group(cls=Group)
@click.pass_context
def memory(ctx: click.Context) -> None:
    """Care for a memory: the file that holds everything a run or a learner did.

    \b
    Example:
      drpg memory reindex first --embedder minilm

    Next: drpg show NAME.
    """
    help_if_alone(ctx)


@memory.command()
@click.argument("name", type=MEMORY)
@click.option("--embedder", required=True, help="The embedding model from now on.")
def reindex(name: str, embedder: str) -> None:
    """Embed every stored text anew with another model.

    A memory is searched with the model that its vectors came from; another one is refused until
    the memory was reindexed. NAME is a run, a learner (its file is .drpg/NAME.sqlite), or a
    memory file.

    \b
    Example:
      drpg memory reindex first --embedder minilm
      drpg memory reindex sql-assistant --embedder hashing

    Next: drpg resume NAME, or construct the learner with the same embedder.
    """
    from drpg_dspy.cli import runs

    path = memory_file(name)
    count = runs.reindex(path, embedder)
    click.echo(f"{path}: {count} texts embedded with {embedder}")
