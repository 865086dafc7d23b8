"""The databases of Brinewood Coffee, an invented roaster with a web shop and eight cafés.

Three small SQLite files, the same rows on every machine: the draws use nothing but
``random.Random(seed).random()``, the one method whose sequence Python guarantees. The files are
built where they are asked for, each one complete before it gets its name, so two processes may
build at once; a file whose content is not the expected one is built anew.

The column names are honest and say nothing of how the company keeps its books:

* money is in cents;
* a day is the text ``YYYYMMDD``; the fiscal year starts on 1 April and is named after the year
  in which it starts;
* orders, deliveries and bookings with the status ``X`` were cancelled;
* a row with a ``deleted_at`` is kept for the auditors only.

Prices are multiples of 50 cents, so that every sum in euros is exact in binary, however a query
orders its arithmetic.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from drpg_dspy.exceptions import StorageError

__all__ = ["DATABASES", "SEED", "VERSION", "build_all", "content_digest", "schema_text"]

VERSION = 1
SEED = 20230401

SCHEMAS: dict[str, dict[str, str]] = {
    "webshop": {
        "customer": "id INTEGER, first_name TEXT, last_name TEXT, city TEXT, deleted_at TEXT",
        "product": "id INTEGER, name TEXT, origin TEXT, roast TEXT, price INTEGER, deleted_at TEXT",
        "orders": "id INTEGER, customer_id INTEGER, product_id INTEGER, day TEXT, status TEXT, "
        "bags INTEGER, amount INTEGER",
        "review": "id INTEGER, product_id INTEGER, day TEXT, stars INTEGER",
    },
    "roastery": {
        "supplier": "id INTEGER, name TEXT, country TEXT, deleted_at TEXT",
        "delivery": "id INTEGER, supplier_id INTEGER, day TEXT, status TEXT, kilos INTEGER, "
        "cost INTEGER",
        "batch": "id INTEGER, day TEXT, roast TEXT, roaster TEXT, minutes INTEGER, kilos INTEGER",
    },
    "cafes": {
        "cafe": "id INTEGER, name TEXT, city TEXT, seats INTEGER, rent INTEGER",
        "staff": "id INTEGER, cafe_id INTEGER, first_name TEXT, last_name TEXT, role TEXT, "
        "wage INTEGER, deleted_at TEXT",
        "booking": "id INTEGER, cafe_id INTEGER, day TEXT, status TEXT, guests INTEGER, "
        "fee INTEGER",
    },
}
"""Columns by database and table, in the order in which they are created."""

DATABASES: dict[str, str] = {
    "webshop": "18b75b08c6c32aab68ce01bc5026f7f914f6d1fd7771d3a3157133e2982c9204",
    "roastery": "0ee9a644131ff41a7d41be0c6c66cc4326cf9ef13d4abbf03c31d553b1551839",
    "cafes": "43791038f492d94c0ce610dbb26958253cc1d8c3ed3ab7ef530dd31fc4fdcce1",
}
"""Database name to the digest of its content (:func:`content_digest`)."""

_FIRST = (
    "Ada Anouk Bram Carla Dario Edith Emil Farah Finn Greta Hugo Ilse Ivo Jonas Kaja Lars Leonie "
    "Mabel Marek Mira Nils Noor Olga Oskar Paula Pieter Rosa Ruben Selma Stefan Tilda Viktor Wanda"
).split()
_LAST = (
    "Aalto Bakker Castel Dvorak Engel Ferrari Gruber Holm Ivanova Jansen Keller Lindqvist Moreau "
    "Novak Oliveira Peeters Quist Rossi Schmid Toth Urban Vasquez Weiss Ylonen Zeman"
).split()
_CITIES = "Ghent Porto Turku Graz Cork Lyon".split()
_PRODUCTS = (
    ("Morning Tide", "Ethiopia", "light"),
    ("Night Ferry", "Brazil", "dark"),
    ("Lantern", "Kenya", "medium"),
    ("Salt Path", "Peru", "medium"),
    ("Old Harbour", "Brazil", "dark"),
    ("Driftwood", "Guatemala", "medium"),
    ("Sandbar", "Colombia", "light"),
    ("Foghorn", "Brazil", "dark"),
    ("Blue Heron", "Ethiopia", "light"),
    ("Keel", "Colombia", "medium"),
    ("Low Water", "Peru", "dark"),
    ("Samphire", "Kenya", "light"),
    ("Tall Ship", "Guatemala", "dark"),
    ("Oyster Bed", "Colombia", "medium"),
    ("Gull", "Ethiopia", "medium"),
    ("Breakwater", "Peru", "light"),
    ("Spring Ebb", "Kenya", "light"),
    ("Anchor", "Brazil", "medium"),
)
_SUPPLIERS = (
    ("Alto Verde", "Peru"),
    ("Bela Vista", "Brazil"),
    ("Chania Estate", "Kenya"),
    ("Duromina", "Ethiopia"),
    ("El Cedro", "Guatemala"),
    ("Fazenda Lua", "Brazil"),
    ("Gichathaini", "Kenya"),
    ("Hacienda Rey", "Colombia"),
    ("Inti Wasi", "Peru"),
    ("Jimma Union", "Ethiopia"),
    ("Kayanza Hill", "Ethiopia"),
    ("La Sombra", "Colombia"),
    ("Monte Claro", "Brazil"),
    ("Nevado", "Colombia"),
    ("Ojo de Agua", "Guatemala"),
    ("Puno Coop", "Peru"),
    ("Quebrada", "Colombia"),
    ("Rio Doce", "Brazil"),
)
_CAFES = (
    ("Quayside", "Ghent", 42),
    ("Mill Lane", "Cork", 28),
    ("Tram Stop", "Lyon", 36),
    ("Riverhouse", "Turku", 50),
    ("Old Mint", "Ghent", 24),
    ("Arcade", "Porto", 31),
    ("Signal Box", "Graz", 18),
    ("Boathouse", "Porto", 56),
)
_ROLES = "barista baker manager cleaner".split()
_ROASTERS = "Ilse Marek Noor Pieter".split()
_ROASTS = "light medium dark".split()
_FIRST_DAY = dt.date(2023, 1, 9)
_N_DAYS = 960  # to August 2025: fiscal 2023 and 2024 are complete

T = TypeVar("T")
Row = tuple[Any, ...]


class _Dice:
    """Draws that depend on nothing but ``Random.random``."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(f"{SEED}/{name}").random

    def below(self, n: int) -> int:
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, share: float) -> bool:
        return self._random() < share

    def day(self) -> str:
        return (_FIRST_DAY + dt.timedelta(days=self.below(_N_DAYS))).strftime("%Y%m%d")

    def days(self, n: int) -> list[str]:
        return sorted(self.day() for _ in range(n))

    def names(self, n: int) -> list[tuple[str, str]]:
        """``n`` different full names."""
        found: dict[tuple[str, str], None] = {}
        while len(found) < n:
            found[(self.pick(_FIRST), self.pick(_LAST))] = None
        return list(found)


def _webshop(dice: _Dice) -> dict[str, list[Row]]:
    customers: list[Row] = []
    for number, (first, last) in enumerate(dice.names(90), 1):
        gone = dice.day() if dice.chance(0.25) else None
        customers.append((number, first, last, dice.pick(_CITIES), gone))
    products: list[Row] = []
    for number, (name, origin, roast) in enumerate(_PRODUCTS, 1):
        gone = dice.day() if number % 4 == 3 else None
        products.append((number, name, origin, roast, 50 * dice.between(15, 35), gone))
    orders: list[Row] = []
    for number, day in enumerate(dice.days(320), 1):
        product = dice.pick(products)
        bags = dice.between(1, 8)
        status = "X" if dice.chance(0.18) else dice.pick("PSS")
        customer = dice.between(1, len(customers))
        orders.append((number, customer, product[0], day, status, bags, bags * product[4]))
    reviews: list[Row] = [
        (number, dice.between(1, len(products)), day, 5 - min(dice.below(5), dice.below(5)))
        for number, day in enumerate(dice.days(110), 1)
    ]
    return {"customer": customers, "product": products, "orders": orders, "review": reviews}


def _roastery(dice: _Dice) -> dict[str, list[Row]]:
    suppliers: list[Row] = []
    for number, (name, country) in enumerate(_SUPPLIERS, 1):
        gone = dice.day() if number in (3, 6, 11, 14, 16) else None
        suppliers.append((number, name, country, gone))
    deliveries: list[Row] = []
    for number, day in enumerate(dice.days(220), 1):
        kilos = dice.between(20, 120)
        cost = 50 * kilos * dice.between(9, 15)
        status = "X" if dice.chance(0.17) else dice.pick("ORRR")
        supplier = dice.between(1, len(suppliers))
        deliveries.append((number, supplier, day, status, kilos, cost))
    batches: list[Row] = []
    for number, day in enumerate(dice.days(180), 1):
        who, minutes = dice.pick(_ROASTERS), dice.between(9, 17)
        batches.append((number, day, dice.pick(_ROASTS), who, minutes, dice.between(5, 15)))
    return {"supplier": suppliers, "delivery": deliveries, "batch": batches}


def _cafes(dice: _Dice) -> dict[str, list[Row]]:
    cafes: list[Row] = [
        (number, name, city, seats, 5000 * dice.between(24, 80))
        for number, (name, city, seats) in enumerate(_CAFES, 1)
    ]
    staff: list[Row] = []
    for number, (first, last) in enumerate(dice.names(72), 1):
        gone = dice.day() if dice.chance(0.28) else None
        wage = 50 * dice.between(25, 44)
        cafe, role = dice.between(1, len(cafes)), dice.pick(_ROLES)
        staff.append((number, cafe, first, last, role, wage, gone))
    bookings: list[Row] = []
    for number, day in enumerate(dice.days(240), 1):
        guests = dice.between(4, 30)
        status = "X" if dice.chance(0.2) else dice.pick("CDD")
        fee = 50 * dice.between(60, 140) + 350 * guests
        bookings.append((number, dice.between(1, len(cafes)), day, status, guests, fee))
    return {"cafe": cafes, "staff": staff, "booking": bookings}


_ROWS = {"webshop": _webshop, "roastery": _roastery, "cafes": _cafes}


def schema_text(db_id: str) -> str:
    """Return a database's tables, one a line, as they stand in the prompt.

    Raises:
        ValueError: There is no such database.
    """
    if db_id not in SCHEMAS:
        raise ValueError(f"Unknown database {db_id!r}; there are {', '.join(SCHEMAS)}.")
    return "\n".join(f"{table}({columns})" for table, columns in SCHEMAS[db_id].items())


def content_digest(path: Path) -> str:
    """Return the SHA-256 of a database's tables and rows, whatever wrote the file.

    The bytes of an SQLite file depend on the SQLite version that wrote it; its content does not.

    Raises:
        sqlite3.Error: The file is missing or is no database.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        content = [
            [name, sql, connection.execute(f'SELECT * FROM "{name}" ORDER BY id').fetchall()]
            for name, sql in tables
        ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode()).hexdigest()


def build_all(folder: Path) -> dict[str, Path]:
    """Make sure that the databases stand in ``folder`` and return their paths by name.

    Files that are there with the right content are left alone. Safe when several processes
    call it at once.

    Raises:
        StorageError: The folder cannot be written, or this machine draws other rows than the
            ones the questions were written for.
    """
    paths = {db_id: folder / f"{db_id}.sqlite" for db_id in DATABASES}
    for db_id, path in paths.items():
        if not _intact(path, DATABASES[db_id]):
            _build(db_id, path)
    return paths


def _intact(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    try:
        return content_digest(path) == digest
    except (sqlite3.Error, UnicodeError):
        return False  # damaged, or another program's file: built anew


def _build(db_id: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{db_id}-", suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise StorageError(
            f"The databases of house_rules cannot be written to {path.parent}: {error}. "
            "Set DRPG_HOME to a folder that can be written."
        ) from error
    os.close(handle)
    draft = Path(name)
    try:
        _write(db_id, draft)
        if content_digest(draft) != DATABASES[db_id]:
            raise StorageError(
                f"The database {db_id!r} of house_rules came out with the digest "
                f"{content_digest(draft)} instead of {DATABASES[db_id]}; its gold answers would "
                "not hold. Please report your Python version."
            )
        draft.chmod(0o644)
        os.replace(draft, path)  # the only step that others can see
    finally:
        draft.unlink(missing_ok=True)


def _write(db_id: str, path: Path) -> None:
    rows = _ROWS[db_id](_Dice(db_id))
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in SCHEMAS[db_id].items():
            keyed = columns.replace("INTEGER", "INTEGER PRIMARY KEY", 1)
            connection.execute(f"CREATE TABLE {table} ({keyed})")
            marks = ", ".join("?" * len(rows[table][0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows[table])
