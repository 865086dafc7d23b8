"""One table in three forms: in the page, as CSV, as Markdown. The numbers are the same text."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "MISSING",
    "UNFINISHED",
    "Cell",
    "Table",
    "amount",
    "chance",
    "count",
    "percent",
    "points",
    "readable",
]

MISSING = "–"
"""Stands where there is no number; an empty cell in CSV."""

UNFINISHED = "†"
"""Marks the figures of a run that did not meet its whole stream."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table.

    Attributes:
        text: What it says.
        best: Printed in bold.
        mark: A sign after the text, see :data:`UNFINISHED`.
        tint: Position of its colour between -1 and 1; ``None`` = no colour.
    """

    text: str
    best: bool = False
    mark: str = ""
    tint: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report.

    Attributes:
        name: Of its files.
        title: Its heading.
        columns: Headings of the columns.
        rows: One cell for each column.
        notes: What is to be known to read it, one sentence or more each.
        heads: Number of leading columns that say what a row is about.
        group: Rows alike in so many leading columns belong together.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    heads: int = 1
    group: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell | str]],
        *,
        notes: Sequence[str] = (),
        heads: int = 1,
        group: int = 0,
    ) -> Table:
        """Make a table whose plain cells are given as texts."""
        cells = tuple(
            tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows
        )
        return cls(name, title, tuple(columns), cells, tuple(notes), heads, group)

    def begins_group(self, row: int) -> bool:
        """Tell whether a row, by its number, belongs no more to the one before."""
        if row == 0 or not self.group:
            return False
        before, now = self.rows[row - 1][: self.group], self.rows[row][: self.group]
        return before != now

    def as_csv(self) -> str:
        """Return the table as CSV with a header, in UTF-8 without a mark, lines ended by LF."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([readable(name) for name in self.columns])
        for row in self.rows:
            writer.writerow(
                ["" if cell.text == MISSING else readable(cell.text) + cell.mark for cell in row]
            )
        return out.getvalue()

    def as_markdown(self) -> str:
        """Return the table with its title and notes as Markdown."""
        rule = ["---" if i < self.heads else "--:" for i in range(len(self.columns))]
        lines = [_line(map(_escaped, self.columns)), _line(rule)]
        for row in self.rows:
            lines.append(_line(_markdown(cell) for cell in row))
        notes = [_escaped(note) for note in self.notes]
        return "\n\n".join([f"## {_escaped(self.title)}", "\n".join(lines), *notes]) + "\n"


def readable(text: str) -> str:
    r"""Return text that every page can show: control characters and stray surrogates escaped.

    >>> readable("a\x00b\ud800")
    'a\\x00b\\ud800'
    """
    return "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"}
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.605), percent(float("nan"))
    ('60.5', '–')
    """
    return MISSING if math.isnan(share) else f"{100 * share:.1f}"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    >>> points(0.0421), points(-0.0004)
    ('+4.2', '0.0')
    """
    if math.isnan(difference):
        return MISSING
    text = f"{100 * difference:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def chance(p: float) -> str:
    """Return a p-value.

    >>> chance(0.0312), chance(0.00002), chance(float("nan"))
    ('0.0312', '<0.0001', '–')
    """
    if math.isnan(p):
        return MISSING
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def amount(value: float, digits: int = 0) -> str:
    """Return an amount; without thousands separators, so that spreadsheets read it."""
    return MISSING if math.isnan(value) else f"{value:.{digits}f}"


def count(value: int) -> str:
    """Return a whole number."""
    return str(int(value))


def _markdown(cell: Cell) -> str:
    text = _escaped(cell.text)
    return (f"**{text}**" if cell.best else text) + cell.mark


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Keep a text from being read as Markdown or HTML, or from ending its cell."""
    flat = " ".join(readable(text).split())
    for char in "\\`*_[]<>|#&":
        flat = flat.replace(char, f"\\{char}")
    return flat
