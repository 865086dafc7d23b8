"""From runs to the files of an audit: what changed between before and after, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from drpg_dspy.analysis.audit_epochs import read_epochs
from drpg_dspy.analysis.audit_reading import (
    AuditedItem,
    Kinds,
    read_addressed,
    read_decisions,
    read_epoch_items,
    read_instructions,
    read_stream_items,
)
from drpg_dspy.arguments import checked_path
from drpg_dspy.memory import SQLiteMemory
from drpg_dspy.report.audit_tables import AUDIT_TABLES, RunAudit, audit_tables
from drpg_dspy.report.audit_views import InstructionView, instruction_view
from drpg_dspy.report.page import render
from drpg_dspy.report.tables import Table
from drpg_dspy.report.writing import ReportFiles, write_files
from drpg_dspy.streaming import RunFolder

__all__ = ["AuditPage", "write_audit"]

_FIRST = ("pairs", "categories", "routes", "addressed", "tried")
"""Tables that stand before the instructions."""

KnownItems = Callable[[RunFolder], Mapping[str, tuple[str, Kinds]]]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Everything on the page.

    Attributes:
        title: Its heading.
        about: What was run, a line for each run.
        notes: What a reader must know first.
        tables: In order.
        before: Names of those that stand before the instructions.
        instructions: Those that were accepted.
        version: Of this library.
    """

    title: str
    about: tuple[str, ...]
    notes: tuple[str, ...]
    tables: tuple[Table, ...]
    before: tuple[str, ...]
    instructions: tuple[InstructionView, ...]
    version: str


def write_audit(
    folders: Sequence[RunFolder],
    out: str | Path,
    *,
    before: RunFolder | None = None,
    known: KnownItems | None = None,
    title: str = "Audit",
) -> ReportFiles:
    """Compare answers to the same items before and after, and write the audit.

    Args:
        folders: Runs of epochs, each with its own before and after; or streams, each of which
            is set against ``before``.
        out: A folder, made when it is missing; an earlier audit in it is replaced.
        before: The run to set streams against; ``None`` = the runs are runs of epochs.
        known: Gives ids and kinds of a stream's items, by
            :func:`~drpg_dspy.analysis.audit_reading.input_name`.
        title: Heading of the page.

    Raises:
        ValueError: A run has no finished epoch, was not asked what ``before`` was asked, or was
            judged otherwise.
        StorageError: A run is damaged.
        ImportError: The extra ``report`` is not installed.
    """
    folder = checked_path("out", out)
    audits, views, notes = _read(folders, before, known)
    tables = audit_tables(audits)
    page = AuditPage(
        title=title,
        about=tuple(f"{audit.name}: {audit.about}." for audit in audits),
        notes=tuple(notes),
        tables=tuple(tables),
        before=_FIRST,
        instructions=tuple(views),
        version=metadata.version("drpg-dspy"),
    )
    return write_files(folder, render(page, "audit.html"), tables, tuple(notes), AUDIT_TABLES)


def _read(
    folders: Sequence[RunFolder], before: RunFolder | None, known: KnownItems | None
) -> tuple[list[RunAudit], list[InstructionView], list[str]]:
    """Return what is audited of each run, its accepted instructions, and what to say first."""
    distinct = list({one.path.resolve(): one for one in folders}.values())
    with ExitStack() as stack:
        earlier = None if before is None else stack.enter_context(closing(_open(before)))
        audits: list[RunAudit] = []
        views: list[InstructionView] = []
        notes: list[str] = []
        for one in distinct:
            memory = stack.enter_context(closing(_open(one)))
            if before is None or earlier is None:
                audit, said = _of_epochs(one, memory)
            else:
                audit, said = _of_streams(one, memory, before, earlier, known)
            audits.append(audit)
            notes += said
            for instruction in audit.instructions:
                view = instruction_view(
                    audit.name,
                    len(views) + 1,
                    instruction,
                    memory,
                    audit.measured,
                    audit.scorings[0],
                    earlier,
                )
                views.append(view)
    return audits, views, notes


def _of_epochs(folder: RunFolder, memory: SQLiteMemory) -> tuple[RunAudit, list[str]]:
    epochs = read_epochs(memory)
    finished = [epoch for epoch in epochs if epoch.finished]
    if "epochs" not in folder.config.extra:
        raise ValueError(
            f"The run {folder.name!r} is a stream: it answered each question once. Give the run "
            "to set it against: --before RUN. Runs of epochs have both: drpg epochs --help"
        )
    if not finished:
        raise ValueError(
            f"The first epoch of {folder.name!r} is not finished, so there is no after yet. Go on "
            f"with it: drpg resume {folder.name}"
        )
    notes = []
    if len(finished) < len(epochs):
        notes.append(f"{folder.name}: epoch {len(epochs)} is under way and left out.")
    parts = {part: read_epoch_items(memory, part) for part in ("test", "selection")}
    items = {part: found for part, found in parts.items() if found}
    if "test" not in items:
        notes.append(f"{folder.name} has no test items: its gain is not measured.")
    return _audit(folder, memory, folder.name, items, finished), notes


def _of_streams(
    folder: RunFolder,
    memory: SQLiteMemory,
    before: RunFolder,
    earlier: SQLiteMemory,
    known: KnownItems | None,
) -> tuple[RunAudit, list[str]]:
    for setting in ("benchmark", "compare"):
        was, now = getattr(before.config, setting), getattr(folder.config, setting)
        if was != now:
            raise ValueError(
                f"{before.name} and {folder.name} cannot be paired: their {setting} is {was!r} "
                f"and {now!r}."
            )
    items = read_stream_items(earlier, memory, known(folder) if known else None)
    if not items:
        raise ValueError(f"{before.name} and {folder.name} were asked nothing in common.")
    notes = []
    if len(items) < (met := memory.count_rollouts()):
        notes.append(f"{folder.name}: {len(items)} of its {met} answers have one in {before.name}.")
    if not any(one.kinds for one in items):
        notes.append(f"{folder.name}: the categories of its items are not known here.")
    name = f"{folder.name} against {before.name}"
    return _audit(folder, memory, name, {"stream": items}, ()), notes


def _audit(
    folder: RunFolder,
    memory: SQLiteMemory,
    name: str,
    items: Mapping[str, Sequence[AuditedItem]],
    epochs: Sequence[object],
) -> RunAudit:
    config = folder.config
    about = f"{config.optimizer} on {config.benchmark} with {config.lm}"
    if plan := config.extra.get("epochs"):
        sizes = ", ".join(f"{plan[part]} {part}" for part in ("construction", "selection", "test"))
        about += f"; {sizes} items, {len(epochs)} epoch{'s' if len(epochs) != 1 else ''}"
    return RunAudit(
        name=name,
        about=about,
        compare=config.compare,
        items=items,
        epochs=[epoch for epoch in read_epochs(memory) if epoch.finished],
        instructions=read_instructions(memory),
        decisions=read_decisions(memory),
        addressed=read_addressed(memory),
    )


def _open(folder: RunFolder) -> SQLiteMemory:
    if not folder.memory_path.exists():
        raise ValueError(f"The run {folder.name!r} has no answers yet: drpg resume {folder.name}")
    return SQLiteMemory(folder.memory_path, read_only=True, threshold=folder.config.threshold)
