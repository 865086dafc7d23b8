"""What is read from the tables, one question a function.

Every function takes a connection and leaves locking to its caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from drpg_dspy.exceptions import UnknownRollout
from drpg_dspy.memory.base import Event
from drpg_dspy.memory.rows import (
    POLICY_COLUMNS,
    ROLLOUT_COLUMNS,
    Row,
    decode_feedback,
    decode_guidance,
    decode_policy,
    decode_text,
    encode_text,
)
from drpg_dspy.plain import loads
from drpg_dspy.types import Feedback, Policy, Verdict

__all__ = [
    "EXPERIENCES",
    "events",
    "experience_row",
    "feedback_history",
    "figures_page",
    "guidance",
    "memo",
    "meta",
    "page",
    "policies",
    "policy",
    "recent_rows",
    "rollout_count",
    "rollout_row",
    "state",
    "state_version",
    "version_in_force",
]

_FROM = f"SELECT {ROLLOUT_COLUMNS} FROM rollouts h JOIN bodies b ON b.seq = h.seq"

EXPERIENCES = f"{_FROM} WHERE h.learned IS NOT NULL"
"""Columns for :func:`.decode_experience`; more conditions may follow."""


def rollout_row(db: sqlite3.Connection, id: str, path: Any) -> Row:
    """Return a rollout's columns.

    Raises:
        UnknownRollout: No such rollout.
    """
    row = db.execute(f"{_FROM} WHERE h.id = ?", (encode_text(id),)).fetchone()
    if row is None:
        raise UnknownRollout(f"No rollout {id!r} was ever recorded in {path}.")
    return tuple(row)


def rollout_count(db: sqlite3.Connection) -> int:
    """Return how many rollouts there are: they are numbered from 1 and never deleted."""
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM rollouts").fetchone()[0])


def page(db: sqlite3.Connection, after: tuple[int, int], size: int) -> list[Row]:
    """Return the next rollouts by step and number."""
    query = f"{_FROM} WHERE (h.step, h.seq) > (?, ?) ORDER BY h.step, h.seq LIMIT ?"
    return db.execute(query, (*after, size)).fetchall()


def figures_page(db: sqlite3.Connection, after: tuple[int, int], size: int) -> list[Row]:
    """Return the next rollouts by step and number, with the columns of :class:`.StepFigures`."""
    query = (
        "SELECT h.seq, h.id, h.step, h.failed, h.verdict, b.seconds, b.usage, g.policies "
        "FROM rollouts h JOIN bodies b ON b.seq = h.seq JOIN guidances g ON g.seq = h.seq "
        "WHERE (h.step, h.seq) > (?, ?) ORDER BY h.step, h.seq LIMIT ?"
    )
    return db.execute(query, (*after, size)).fetchall()


def experience_row(db: sqlite3.Connection, id: str) -> Row | None:
    """Return an experience's columns, if something was learned from that rollout."""
    row: Row | None = db.execute(f"{EXPERIENCES} AND h.id = ?", (encode_text(id),)).fetchone()
    return row


def recent_rows(
    db: sqlite3.Connection, k: int, verdict: Verdict | None, threshold: float
) -> list[Row]:
    """Return the columns of the experiences learned last, the newest first."""
    wanted = {None: "", "correct": "AND h.score >= ?", "wrong": "AND h.score < ?"}[verdict]
    arguments = (k,) if verdict is None else (threshold, k)
    query = f"{EXPERIENCES} {wanted} ORDER BY h.learned DESC LIMIT ?"
    return db.execute(query, arguments).fetchall()


def guidance(db: sqlite3.Connection, seq: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the policy versions by route, and the other parts of a rollout's guidance."""
    row = db.execute("SELECT policies, parts FROM guidances WHERE seq = ?", (seq,)).fetchone()
    return loads(row[0]), decode_guidance(row[1])


def feedback_history(db: sqlite3.Connection, rollout: int) -> list[tuple[float, Feedback | None]]:
    """Return all feedback of a rollout, the oldest first."""
    query = "SELECT at, verdict FROM feedback WHERE rollout = ? ORDER BY seq"
    return [
        (at, None if verdict is None else decode_feedback(verdict))
        for at, verdict in db.execute(query, (rollout,)).fetchall()
    ]


def state(db: sqlite3.Connection) -> tuple[Mapping[str, Any], int]:
    """Return the optimizer's state and its version."""
    row = db.execute("SELECT value, version FROM state").fetchone()
    return ({}, 0) if row is None else (loads(row[0]), int(row[1]))


def state_version(db: sqlite3.Connection) -> int:
    """Return the version of the optimizer's state."""
    row = db.execute("SELECT version FROM state").fetchone()
    return 0 if row is None else int(row[0])


def policies(db: sqlite3.Connection, route: str | None) -> list[Policy]:
    """Return the policy versions of one route or of all, the oldest first."""
    query = f"SELECT {POLICY_COLUMNS} FROM policies"
    if route is None:
        rows = db.execute(f"{query} ORDER BY seq").fetchall()
    else:
        rows = db.execute(f"{query} WHERE route = ? ORDER BY seq", (encode_text(route),)).fetchall()
    return [decode_policy(row) for row in rows]


def policy(db: sqlite3.Connection, route: str, version: int) -> Policy:
    """Return one version.

    Raises:
        ValueError: There is none; the message names those that exist.
    """
    query = f"SELECT {POLICY_COLUMNS} FROM policies WHERE route = ? AND version = ?"
    row = db.execute(query, (encode_text(route), version)).fetchone()
    if row is None:
        raise ValueError(f"Route {route!r} has no policy version {version!r}; {_known(db, route)}.")
    return decode_policy(row)


def version_in_force(db: sqlite3.Connection, route: str) -> int | None:
    """Return the version that a route used last, if it had any."""
    row = db.execute("SELECT version FROM in_force WHERE route = ?", (encode_text(route),))
    found = row.fetchone()
    return None if found is None else int(found[0])


def events(db: sqlite3.Connection, after: int, limit: int) -> list[Event]:
    """Return entries of the log."""
    rows = db.execute(
        "SELECT seq, kind, ref, at FROM events WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit)
    ).fetchall()
    return [Event(seq, kind, decode_text(ref), at) for seq, kind, ref, at in rows]


def memo(db: sqlite3.Connection, key: str) -> str | None:
    """Return the text kept under a key."""
    row = db.execute("SELECT text FROM memo WHERE key = ?", (encode_text(key),)).fetchone()
    return None if row is None else decode_text(row[0])


def meta(db: sqlite3.Connection, key: str) -> str | None:
    """Return a setting."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (encode_text(key),)).fetchone()
    return None if row is None else decode_text(row[0])


def _known(db: sqlite3.Connection, route: str) -> str:
    last = db.execute(
        "SELECT max(version) FROM policies WHERE route = ?", (encode_text(route),)
    ).fetchone()[0]
    if last is not None:
        return "it has version 1" if last == 1 else f"it has versions 1 to {last}"
    routes = [decode_text(row[0]) for row in db.execute("SELECT DISTINCT route FROM policies")]
    return f"routes with policies are {routes}" if routes else "no policy was stored yet"
