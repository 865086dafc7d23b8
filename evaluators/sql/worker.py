"""The process that runs queries: reads one JSON request a line, answers with one line.

Started by file path, apart from any package, so that it loads nothing but the standard library
(about 20 ms). What it promises to its parent:

* the database is opened read-only and immutable (no lock, no ``-wal``, ``-shm`` or journal file
  appears), and an authorizer lets nothing pass but reading: no ATTACH, PRAGMA, write,
  transaction or extension;
* the process cannot write to any file (``RLIMIT_FSIZE`` 0), sorts in memory, and its memory is
  bounded by SQLite's heap limit and by ``RLIMIT_AS``;
* a query stops after its CPU seconds: by SQLite's progress handler, or, inside one long C
  function, by ``RLIMIT_CPU``, which ends the process;
* text that is not UTF-8 keeps its bytes (``surrogateescape``), so different strings stay
  different.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import signal
import sqlite3
import sys
import time
import urllib.parse
from typing import Any

if sys.platform != "win32":  # there, SQLite's own limits and the parent's clock remain
    import resource

MAX_VALUE = 10_000_000  # bytes of one string or blob
MAX_SQL = 1_000_000  # bytes of one statement

_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_ACTIONS = {
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_ATTACH: "ATTACH or VACUUM",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_FUNCTION: "load_extension",
}
_SCHEMA_TABLES = ("sqlite_master", "sqlite_temp_master")
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_BUSY")


class _Guard:
    """Watches one query: what it does, and how long it takes."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.process_time() + seconds
        self.late = False
        self.refused = ""
        self.tables: set[str] = set()
        self.functions: set[str] = set()

    def authorize(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_READ and first:
            self.tables.add(first)
        elif action == sqlite3.SQLITE_FUNCTION and second:
            self.functions.add(second.lower())
            if second.lower() == "load_extension":
                self.refused = self.refused or "load_extension"
                return sqlite3.SQLITE_DENY
        if action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # What a table-valued function (json_each) does when it is declared. A written
            # UPDATE of that table never comes here: SQLite refuses it first.
            return sqlite3.SQLITE_OK
        named = None if first in _SCHEMA_TABLES else _ACTIONS.get(action)
        self.refused = self.refused or named or "a change of the schema"
        return sqlite3.SQLITE_DENY

    def out_of_time(self) -> bool:
        self.late = self.late or time.process_time() > self.deadline
        return self.late


def main() -> None:
    """Answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    memory = int(sys.argv[1])
    _limit_process(memory)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit_cpu(request["seconds"])
        try:
            reply = json.dumps(answer(request, memory))
        except MemoryError:
            message = f"needs more than {memory >> 20} MB of memory"
            reply = json.dumps({"error": "memory", "message": message})
        sys.stdout.buffer.write(reply.encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


def answer(request: dict[str, Any], memory: int) -> dict[str, Any]:
    """Run one query; return its result, or what kept it from one."""
    guard = _Guard(request["seconds"])
    connection = None
    try:
        connection = _open(request["database"], guard, memory)
        return _fetch(connection, request, guard)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return _failure(error, guard, request)
    finally:
        if connection is not None:
            connection.close()


def _open(path: str, guard: _Guard, memory: int) -> sqlite3.Connection:
    uri = f"file:{urllib.parse.quote(path)}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA hard_heap_limit = {memory}")
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_SQL)
    connection.set_authorizer(guard.authorize)
    connection.set_progress_handler(guard.out_of_time, 10_000)
    return connection


def _fetch(
    connection: sqlite3.Connection, request: dict[str, Any], guard: _Guard
) -> dict[str, Any]:
    cursor = connection.execute(request["sql"])
    if cursor.description is None:
        return {"error": "no result", "message": "the statement is not a query"}
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        rows.append([_plain(value) for value in row])
        size += sum(len(v) if isinstance(v, (str, bytes)) else 8 for v in row) + 16
        if len(rows) > request["rows"]:
            return {"error": "rows", "message": f"more than {request['rows']} rows"}
        if size > request["bytes"]:
            return {"error": "rows", "message": f"more than {request['bytes']} bytes of rows"}
    return {
        "columns": [str(column[0]) for column in cursor.description],
        "rows": rows,
        "size": size,
        "tables": sorted(guard.tables),
        "functions": sorted(guard.functions),
    }


def _failure(error: Exception, guard: _Guard, request: dict[str, Any]) -> dict[str, Any]:
    name = getattr(error, "sqlite_errorname", None) or ""
    if guard.late:
        seconds = f"{request['seconds']:g}"
        return {"error": "timeout", "message": f"still running after {seconds} s of CPU time"}
    if guard.refused:
        return {"error": "forbidden", "message": guard.refused}
    if name.startswith(_DAMAGED):
        return {"error": "database", "message": f"{error} ({name})"}
    return {"error": "sql", "message": str(error)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"blob": base64.b64encode(value).decode("ascii")}
    return value


def _limit_process(memory: int) -> None:
    if sys.platform != "win32":
        _set_limit(resource.RLIMIT_FSIZE, 0)
        _set_limit(resource.RLIMIT_CORE, 0)
        # Above SQLite's heap: the interpreter, and the rows as Python values and as JSON.
        _set_limit(resource.RLIMIT_AS, 2 * memory + (1 << 30))


def _limit_cpu(seconds: float) -> None:
    if sys.platform != "win32":
        _set_limit(resource.RLIMIT_CPU, math.floor(time.process_time() + seconds) + 1)


def _set_limit(which: int, value: int) -> None:
    if sys.platform != "win32":
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        # macOS refuses RLIMIT_AS; SQLite's heap limit still holds there.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, hard))


if __name__ == "__main__":
    main()
