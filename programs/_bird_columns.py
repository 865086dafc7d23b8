"""What BIRD's CSV files say of a database's columns."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from evaluators.sql.database import quoted

__all__ = ["described_columns"]

_COLUMN_CHARS = 300


def described_columns(folder: Path) -> list[str]:
    """Return one line for each column that the CSV files of a folder say something of.

    Raises:
        ValueError: A file has no column ``original_column_name``.
    """
    lines = []
    for path in sorted(folder.glob("*.csv")):
        reader = csv.DictReader(_decoded(path).splitlines(keepends=True))
        if "original_column_name" not in (reader.fieldnames or ()):
            raise ValueError(f"{path}: there is no column 'original_column_name'.")
        for row in reader:
            name = _words(row["original_column_name"])
            said = dict.fromkeys(
                _words(row.get(field))
                for field in ("column_name", "column_description", "value_description")
            )
            said.pop("", None)
            said.pop(name, None)
            if name and said:
                line = f"{quoted(path.stem)}.{quoted(name)}: {'; '.join(said)}"
                lines.append(_cut(line))
    return lines


def _decoded(path: Path) -> str:
    # Some of the published files are UTF-8, with or without a mark, others Windows-1252.
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _words(text: str | None) -> str:
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text or "").split())


def _cut(line: str) -> str:
    return line if len(line) <= _COLUMN_CHARS else f"{line[: _COLUMN_CHARS - 1]}…"
