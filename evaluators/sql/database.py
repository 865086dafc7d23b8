"""SQLite files: where they are, whether they can be judged on, and what a prompt says of them."""

from __future__ import annotations

import os
import re
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from drpg_dspy.exceptions import EvaluationFailed

__all__ = ["Databases", "Fingerprint", "check", "has_rows", "locate", "quoted", "schema_text"]

Databases = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Path]
"""Folder(s) of databases, or files by database name."""

Fingerprint = tuple[str, int, int]
"""Path, time of change in nanoseconds, and size of a file."""

_FORMS = ("{0}/{0}.sqlite", "{0}.sqlite", "{0}/{0}.db", "{0}.db", "{0}/{0}.sqlite3", "{0}.sqlite3")
_MAGIC = b"SQLite format 3\x00"
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def locate(databases: Databases, db_id: str) -> Path:
    """Return the file of a database.

    Raises:
        EvaluationFailed: There is none; the message says where it was looked for.
    """
    if isinstance(databases, Mapping):
        if db_id in databases:
            return Path(databases[db_id])
        raise EvaluationFailed(f"No database {db_id!r}; known: {', '.join(sorted(databases))}.")
    folders = [databases] if isinstance(databases, (str, os.PathLike)) else databases
    for folder in folders:
        for form in _FORMS:
            path = Path(folder, form.format(db_id))
            if path.is_file():
                return path
    places = ", ".join(str(Path(folder, _FORMS[0].format(db_id))) for folder in folders)
    raise EvaluationFailed(f"The database {db_id!r} is missing: there is no {places}.")


def check(path: Path) -> Fingerprint:
    """Return what identifies the contents of a database file.

    Raises:
        EvaluationFailed: The file cannot be read, is no SQLite database, or has changes that
            are not yet in it (they would be read only by writing to the folder).
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            status = os.fstat(file.fileno())
    except OSError as error:
        raise EvaluationFailed(
            f"The database {path.name} cannot be read: {error.strerror}."
        ) from error
    if not head:
        raise EvaluationFailed(f"The database {path.name} is an empty file.")
    if head != _MAGIC:
        raise EvaluationFailed(f"The file {path.name} is not a SQLite database.")
    if _starts_with(Path(f"{path}-wal"), b"") or _starts_with(
        Path(f"{path}-journal"), _JOURNAL_MAGIC
    ):
        raise EvaluationFailed(
            f"The database {path.name} has changes that are not in the file yet. Close the "
            "program that writes to it, or run PRAGMA wal_checkpoint(TRUNCATE) there."
        )
    return str(path.absolute()), status.st_mtime_ns, status.st_size


def schema_text(path: Path) -> str:
    """Describe a database's tables in a few tokens: one line a table.

    Names, declared types, primary and foreign keys, and views are kept; NOT NULL, defaults and
    indexes, which no query needs, are not::

        singer(Singer_ID INT PRIMARY KEY, Name TEXT)
        song(Song_ID INT, Singer_ID INT REFERENCES singer(Singer_ID))

    Raises:
        EvaluationFailed: The file is no readable SQLite database.
    """
    with _reading(path) as connection:
        return "\n".join(_table_line(connection, name, kind) for name, kind in _tables(connection))


def has_rows(path: Path) -> bool:
    """Tell whether any table of a database has a row: on an empty one every query agrees.

    Raises:
        EvaluationFailed: The file is no readable SQLite database.
    """
    with _reading(path) as connection:
        tables = [name for name, kind in _tables(connection) if kind == "table"]
        first = (f"SELECT 1 FROM {quoted(name)} LIMIT 1" for name in tables)
        return any(connection.execute(query).fetchone() for query in first)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    check(path)
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield connection
    except sqlite3.Error as error:
        raise EvaluationFailed(f"The database {path.name} cannot be read: {error}.") from error


def _tables(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    ).fetchall()


def table_line(
    table: str,
    columns: Iterable[tuple[str, str]],
    primary: Sequence[str],
    foreign: Mapping[str, str],
) -> str:
    """Write one table the way of :func:`schema_text`.

    Args:
        table: Its name.
        columns: Names and types.
        primary: Columns of the primary key.
        foreign: Column to ``table(column)`` that it refers to.

    >>> table_line("t", [("id", "INT"), ("home town", "TEXT")], ["id"], {"id": "u(id)"})
    't(id INT PRIMARY KEY REFERENCES u(id), "home town" TEXT)'
    """
    parts: list[str] = []
    for name, kind in columns:
        words = [quoted(name)]
        if kind:
            words.append(kind)
        if list(primary) == [name]:
            words.append("PRIMARY KEY")
        if name in foreign:
            words.append(f"REFERENCES {foreign[name]}")
        parts.append(" ".join(words))
    if len(primary) > 1:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, primary))})")
    return f"{quoted(table)}({', '.join(parts)})"


def quoted(name: str) -> str:
    """Return a name as it must stand in a query: in double quotes where it is no plain word.

    >>> quoted("age"), quoted("Home Town"), quoted("order")
    ('age', '"Home Town"', '"order"')
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


# The keywords that SQLite does not accept as a bare name.
_RESERVED = frozenset(
    "ADD ALL ALTER AND AS AUTOINCREMENT BETWEEN CASE CHECK COLLATE COMMIT CONSTRAINT CREATE "
    "DEFAULT DEFERRABLE DELETE DISTINCT DROP ELSE ESCAPE EXCEPT EXISTS FOREIGN FROM GROUP HAVING "
    "IN INDEX INSERT INTERSECT INTO IS ISNULL JOIN LIMIT NOT NOTHING NOTNULL NULL ON OR ORDER "
    "PRIMARY REFERENCES RETURNING SELECT SET TABLE THEN TO TRANSACTION UNION UNIQUE UPDATE USING "
    "VALUES WHEN WHERE".split()
)


def _table_line(connection: sqlite3.Connection, table: str, kind: str) -> str:
    columns = connection.execute(f"PRAGMA table_info({_string(table)})").fetchall()
    keyed = sorted((c for c in columns if c[5]), key=lambda c: int(c[5]))
    foreign: dict[str, str] = {}
    for key in connection.execute(f"PRAGMA foreign_key_list({_string(table)})").fetchall():
        target, source, to = key[2], key[3], key[4]
        foreign.setdefault(source, f"{quoted(target)}({quoted(to)})" if to else quoted(target))
    line = table_line(table, [(c[1], c[2]) for c in columns], [c[1] for c in keyed], foreign)
    return f"view {line}" if kind == "view" else line


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(max(len(magic), 1))
    except FileNotFoundError:
        return False
    return bool(head) and head.startswith(magic)
