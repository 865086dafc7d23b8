"""``drpg memory``: care for the files that experiences are kept in."""

from __future__ import annotations

import click

from drpg_dspy.cli.app import Group, help_if_alone

__all__ = ["memory"]


@click.group(cls=Group)
@click.pass_context
def memory(ctx: click.Context) -> None:
    """Care for a run's memory: the file that holds everything it did.

    \b
    Example:
      drpg memory reindex first --embedder minilm

    Next: drpg show RUN.
    """
    help_if_alone(ctx)


@memory.command()
@click.argument("name_or_file")
@click.option("--embedder", required=True, help="The embedding model from now on.")
def reindex(name_or_file: str, embedder: str) -> None:
    """Embed every stored text anew with another model.

    A memory is searched with the model that its vectors came from; another one is refused until
    the memory was reindexed. NAME_OR_FILE is a run, or the file of a learner of your own.

    \b
    Example:
      drpg memory reindex first --embedder minilm
      drpg memory reindex .drpg/sql-assistant.sqlite --embedder hashing

    Next: drpg resume NAME, or construct the learner with the same embedder.
    """
    from drpg_dspy.cli import runs

    path = runs.memory_file(name_or_file)
    count = runs.reindex(path, embedder)
    click.echo(f"{path}: {count} texts embedded with {embedder}")
