"""A comparison: its columns, its tests, and the files that show them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drpg_dspy.comparing.columns import BASELINE
from drpg_dspy.comparing.results import (
    ColumnResult,
    Summary,
    Versus,
    summarise_column,
    versus,
)
from drpg_dspy.plain import to_plain

__all__ = ["Comparison"]

_HEADER = (
    "method",
    "held-out score",
    "95 % interval",
    "against baseline",
    "95 % interval of it",
    "McNemar p",
    "prequential",
    "learning: LM calls",
    "learning: tokens",
    "learning: $",
    "test: LM calls/question",
    "test: tokens/question",
    "minutes",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        results: By column, one for each seed; columns that could not be finished are missing.
        failed: Why a column is missing, by its name.
        settings: What all columns shared, as plain values.
        threshold: Scores from here on are right.
        title: Shown on the page.
        folder: Where it is kept; ``None`` = nowhere.
        versions: Of the packages that matter.
    """

    results: Mapping[str, Sequence[ColumnResult]]
    failed: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    threshold: float = 0.5
    title: str = "Comparison"
    folder: Path | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[Summary]:
        """Every finished column, in the order in which they were given."""
        return [summarise_column(found, self.threshold) for found in self.results.values()]

    @property
    def baseline(self) -> str:
        """The column that the others are measured against: zero-shot, else the first."""
        return BASELINE if BASELINE in self.results else next(iter(self.results), "")

    @property
    def tests(self) -> list[Versus]:
        """Every pair of columns; those against the baseline come first."""
        names = list(self.results)
        others = [name for name in names if name != self.baseline]
        pairs = [(name, self.baseline) for name in others]
        pairs += [(later, earlier) for earlier, later in itertools.combinations(others, 2)]
        return [
            versus(self.results[first], self.results[second], self.threshold)
            for first, second in pairs
        ]

    def column(self, name: str) -> Summary:
        """Return one column.

        Raises:
            ValueError: There is none of that name that was finished.
        """
        if name not in self.results:
            raise ValueError(
                f"There is no finished column {name!r}; there are {', '.join(self.results)}."
            )
        return summarise_column(self.results[name], self.threshold)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's rows as text, a header first."""
        against = {test.first: test for test in self.tests if test.second == self.baseline}
        return [_HEADER, *(_row(summary, against.get(summary.name)) for summary in self.columns)]

    def markdown(self) -> str:
        """Return the table as Markdown, with the notes below it."""
        header, *rows = self.rows()
        lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes())])

    def notes(self) -> list[str]:
        """Return what a reader must know first: what was cut short, missing or not judged."""
        notes = []
        for summary in self.columns:
            notes += [f"{summary.name}: {note}" for note in summary.notes]
            if summary.not_judged:
                notes.append(
                    f"{summary.name}: {summary.not_judged} of {summary.n * summary.seeds} held-out "
                    "answers could not be judged; they add nothing to the score and are left out "
                    "of the tests"
                )
            if summary.failed:
                notes.append(f"{summary.name}: the program raised on {summary.failed} questions")
        notes += [f"{name} is missing: {reason}" for name, reason in self.failed.items()]
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the single answers, as plain JSON; NaN is ``None``."""
        plain = {
            "title": self.title,
            "baseline": self.baseline,
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            "columns": self.columns,
            "tests": self.tests,
            "failed": dict(self.failed),
        }
        found: dict[str, Any] = _without_nan(to_plain(plain))
        return found

    def __str__(self) -> str:
        header, *rows = self.rows()
        table = [header, *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        return "\n".join([*lines, *self.notes()])

    def csv(self) -> str:
        """Return the table as CSV."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.rows())
        return text.getvalue()

    def write(self, folder: str | Path) -> list[Path]:
        """Write the page, the table and the figures.

        Returns:
            ``index.html``, which needs nothing else, ``table.md``, ``table.csv`` and
            ``comparison.json``.
        """
        from drpg_dspy.comparing.page import render

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        texts = {
            "index.html": render(self),
            "table.md": self.markdown() + "\n",
            "table.csv": self.csv(),
            "comparison.json": json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n",
        }
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        return [place / name for name in texts]


def _row(summary: Summary, against: Versus | None) -> tuple[str, ...]:
    n = summary.n
    spread = "" if math.isnan(summary.spread) else f" (sd {100 * summary.spread:.1f})"
    return (
        summary.name,
        f"{_share(summary.score)}{spread}",
        _interval(summary.interval),
        _points(against.difference) if against else "–",
        _interval(against.interval, sign=True) if against else "–",
        f"{against.sign.two_sided:.3f}" if against else "–",
        _share(summary.prequential),
        f"{summary.learning.calls:,}",
        f"{summary.learning.tokens:,}",
        f"{summary.learning.cost:.4f}" if summary.learning.cost else "–",
        f"{summary.testing.calls / n:.2f}",
        f"{summary.testing.tokens / n:,.0f}",
        f"{summary.seconds / 60:.1f}",
    )


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _points(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:+.1f}"


def _interval(ends: tuple[float, float], *, sign: bool = False) -> str:
    if math.isnan(ends[0]):
        return "–"
    form = "+.1f" if sign else ".1f"
    return f"{100 * ends[0]:{form}} to {100 * ends[1]:{form}}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$float"}:
            return None
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list) else value
