"""What the text-to-SQL benchmarks share: rows, schema texts, the judge, files of predictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.exceptions import BenchmarkDataMissing, EvaluationFailed
from evaluators.sql import ExecutionAccuracy, rejoined, schema_text, table_line
from evaluators.sql.database import locate, quoted
from programs._files import answers_by_id, lines_in_order, read_json, read_text

__all__ = [
    "Row",
    "Schemas",
    "check_limit",
    "check_split",
    "chosen",
    "flag",
    "judge",
    "numbered_id",
    "read_queries",
    "rows_of",
    "text_field",
]

Row = Mapping[str, Any]


# -- options of a loader --------------------------------------------------------------------


def check_split(title: str, split: Any, splits: Iterable[str]) -> None:
    """Raise ``ValueError`` unless the benchmark has that split."""
    known = list(splits)
    if split not in known:
        raise ValueError(f"{title} has the splits {', '.join(known)}; got {split!r}.")


def check_limit(limit: Any) -> None:
    """Raise ``ValueError`` unless the limit is None or a whole number of at least 0."""
    if limit is None:
        return
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise ValueError(f"limit must be a whole number, 0 or more, got {limit!r}.")


def flag(name: str, value: Any) -> bool:
    """Return a switch; ``ValueError`` unless it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return value


# -- rows -----------------------------------------------------------------------------------


def rows_of(path: Path) -> list[Row]:
    """Return the objects of a JSON list.

    Raises:
        ValueError: It is no list of objects; the message names the file and the row.
    """
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} must hold a list of rows, got {type(rows).__name__}.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {number}: expected an object, got {row!r:.80}.")
    return rows


def text_field(row: Row, name: str, where: str, *, empty: bool = False) -> str:
    """Return a text of a row.

    Args:
        row: The row.
        name: The field.
        where: File and row, for the message.
        empty: The text may be missing, null or blank; it is ``""`` then.

    Raises:
        ValueError: It is missing, no text, or blank.
    """
    value = row.get(name)
    if empty and (value is None or (isinstance(value, str) and not value.strip())):
        return ""
    if name not in row:
        raise ValueError(f"{where}: the field {name!r} is missing; there are {', '.join(row)}.")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: {name!r} must be a text that is not blank, got {value!r:.80}.")
    return value


def chosen(
    db_ids: Sequence[str], split: str, exclude_db: Iterable[str], limit: int | None = None
) -> list[int]:
    """Return the positions of the rows that stay, from 0.

    Args:
        db_ids: The database of each row of the split.
        split: Its name, for the message.
        exclude_db: Databases whose rows are left out; a single name will do.
        limit: Keep the first so many of the rest.

    Raises:
        ValueError: The split has no row on a database to exclude.
    """
    excluded = {exclude_db} if isinstance(exclude_db, str) else set(exclude_db)
    known = set(db_ids)
    if unknown := excluded - known:
        raise ValueError(
            f"exclude_db names {', '.join(sorted(map(str, unknown)))}, of which the {split} split "
            f"has no questions; its databases are {', '.join(sorted(known))}."
        )
    return [i for i, db_id in enumerate(db_ids) if db_id not in excluded][:limit]


def numbered_id(split: str, line: int) -> str:
    """Return the id of a row, such as ``"dev-0017"``: its split and its number there, from 1."""
    return f"{split}-{line:04d}"


# -- schemas --------------------------------------------------------------------------------


class Schemas(dict[str, str]):
    """Schema text by database, from the database itself or, without it, from a tables file.

    Args:
        databases: Folders of databases.
        tables: Files in the form of Spider's ``tables.json``; those that are not there are
            passed over.
        get_it: The sentence that says how to get the data.

    Raises:
        BenchmarkDataMissing: When asked for a database that neither holds.
        ValueError: A tables file or its entry cannot be read.
    """

    def __init__(self, databases: Sequence[Path], tables: Sequence[Path], get_it: str) -> None:
        super().__init__()
        self.databases = databases
        self.tables = tables
        self.get_it = get_it
        self._entries: dict[Path, dict[str, Row]] = {}

    def __missing__(self, db_id: str) -> str:
        try:
            self[db_id] = schema_text(locate(self.databases, db_id))
        except EvaluationFailed as error:
            path = next((p for p in self.tables if db_id in self._described_by(p)), None)
            if path is None:
                names = ", ".join(dict.fromkeys(p.name for p in self.tables))
                raise BenchmarkDataMissing(
                    f"No schema for {db_id}: {error} None of {names} describes it either. "
                    f"{self.get_it}"
                ) from error
            self[db_id] = _described(self._described_by(path)[db_id], f"{path}, {db_id}")
        return self[db_id]

    def _described_by(self, path: Path) -> dict[str, Row]:
        if path not in self._entries:
            rows = enumerate(rows_of(path), 1) if path.is_file() else ()
            self._entries[path] = {
                text_field(row, "db_id", f"{path}, row {number}"): row for number, row in rows
            }
        return self._entries[path]


def _described(entry: Row, where: str) -> str:
    """Write an entry of a tables file the way of ``schema_text``."""
    try:
        names: Sequence[str] = entry["table_names_original"]
        columns: Sequence[tuple[int, str]] = entry["column_names_original"]
        # A composite key is a list in newer releases, and several numbers in older ones.
        primary = {n for k in entry["primary_keys"] for n in (k if isinstance(k, list) else [k])}
        foreign: dict[int, str] = {}
        for source, target in entry["foreign_keys"]:
            table, column = columns[target]
            foreign.setdefault(source, f"{quoted(names[table])}({quoted(column)})")
        lines = []
        for index, table_name in enumerate(names):
            own = [(n, c) for n, (table, c) in enumerate(columns) if table == index]
            lines.append(
                table_line(
                    table_name,
                    [(column, str(entry["column_types"][n]).upper()) for n, column in own],
                    [column for n, column in own if n in primary],
                    {column: foreign[n] for n, column in own if n in foreign},
                )
            )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: not an entry of a tables file ({type(error).__name__}: {error})."
        ) from error
    return "\n".join(lines)


# -- judging --------------------------------------------------------------------------------


def judge(
    databases: Sequence[Path], compare: str, options: Mapping[str, Any], missing: str
) -> ExecutionAccuracy:
    """Return the judge for the folders of databases that exist.

    Raises:
        BenchmarkDataMissing: None does; ``missing`` is the message.
    """
    there = [folder for folder in databases if folder.is_dir()]
    if not there:
        raise BenchmarkDataMissing(missing)
    return ExecutionAccuracy(there, compare=compare, **options)


def read_queries(
    path: str | os.PathLike[str],
    examples: Sequence[dspy.Example],
    *,
    blocks: bool = False,
    tokenised: bool = False,
) -> list[dspy.Prediction]:
    """Read predicted queries in either of two forms.

    * one query a line, in the order of the whole split; a tab and the database's name after
      a query, as in gold files, are left off;
    * JSON lines ``{"id": …, "prediction": …}`` in any order. A query that is missing is wrong.

    Lines of examples that were left out when loading are left out as well.

    Args:
        path: The file.
        examples: What :func:`load` of the benchmark returned, with ``id``, ``db_id``,
            ``line`` and ``lines``.
        blocks: Empty lines may set groups of queries apart.
        tokenised: Operators may have come apart; they are joined, see
            :func:`evaluators.sql.rejoined`.

    Raises:
        ValueError: The file cannot be read, has another number of lines than the split, or an
            id that is unknown or comes twice.
    """
    if not examples:
        return []
    total = examples[0].lines
    if read_text(path).lstrip().startswith("{"):
        split = examples[0].id.rpartition("-")[0]
        known = [numbered_id(split, line) for line in range(1, total + 1)]
        given = answers_by_id(path, known)
        queries = [_query(given[example.id]) for example in examples]
    else:
        lines = lines_in_order(path, total, blocks=blocks)
        queries = [_without_db(lines[example.line - 1], example.db_id) for example in examples]
    return [dspy.Prediction(sql=rejoined(sql) if tokenised else sql) for sql in queries]


def _without_db(line: str, db_id: str) -> str:
    query, tab, name = line.rpartition("\t")
    return query if tab and name.strip() == db_id else line


def _query(answer: Any) -> str:
    return "" if answer is None else str(answer)
