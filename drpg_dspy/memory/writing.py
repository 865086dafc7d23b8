"""What a write transaction does to the tables, statement by statement.

Every function takes a connection inside a transaction and leaves committing to its caller.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from drpg_dspy.exceptions import UnknownRollout
from drpg_dspy.memory import reading
from drpg_dspy.memory.base import Claim, EventKind
from drpg_dspy.memory.rows import (
    BODY_COLUMNS,
    POLICY_COLUMNS,
    Row,
    decode_feedback,
    decode_policy,
    encode_feedback,
    encode_policy,
    encode_text,
)
from drpg_dspy.plain import dumps
from drpg_dspy.types import Feedback, Policy, Rollout

__all__ = [
    "Head",
    "add_event",
    "add_feedback",
    "add_memo",
    "add_meta",
    "add_rollout",
    "add_state",
    "adopt",
    "find",
    "said_already",
    "settle_claim",
]


@dataclass(frozen=True, slots=True)
class Head:
    """A rollout's place in the tables: its number, step, and the feedback that stands."""

    seq: int
    step: int
    failed: bool
    verdict: str | None


def find(db: sqlite3.Connection, rollout_id: str, path: Any) -> Head:
    """Return a rollout's head.

    Raises:
        UnknownRollout: No such rollout.
    """
    row = db.execute(
        "SELECT seq, step, failed, verdict FROM rollouts WHERE id = ?", (encode_text(rollout_id),)
    ).fetchone()
    if row is None:
        raise UnknownRollout(
            f"No rollout {rollout_id!r} was ever recorded in {path}. Feedback needs the "
            "rollout_id of a prediction that this memory recorded."
        )
    return Head(*row)


def add_rollout(
    db: sqlite3.Connection, rollout: Rollout, text: int | None, body: Row, path: Any
) -> Rollout:
    """Write a prediction with its policies, memo and event; return it as stored.

    Args:
        db: The transaction.
        rollout: The prediction; a step of 0 becomes its number.
        text: The number of its key text.
        body: Its :data:`.BODY_COLUMNS`, then its guidance.
        path: The file's name, for the error.

    Raises:
        ValueError: The id exists already.
    """
    id, guidance = encode_text(rollout.id), rollout.guidance
    try:
        seq = db.execute(
            "INSERT INTO rollouts (id, step, failed, text) VALUES (?, ?, ?, ?)",
            (id, rollout.step, rollout.failed, text),
        ).lastrowid
    except sqlite3.IntegrityError as error:
        raise ValueError(
            f"A rollout with the id {rollout.id!r} is already in {path}; ids must be unique."
        ) from error
    step = rollout.step or int(seq or 0)
    if step != rollout.step:
        db.execute("UPDATE rollouts SET step = ? WHERE seq = ?", (step, seq))
    policies = {
        route: adopt(db, policy if policy.route == route else replace(policy, route=route), step)
        for route, policy in guidance.policies.items()
    }
    versions = dumps({route: policy.version for route, policy in policies.items()})
    db.execute(
        f"INSERT INTO bodies (seq, {BODY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (seq, *body[:-1]),
    )
    db.execute("INSERT INTO guidances VALUES (?, ?, ?)", (seq, versions, body[-1]))
    add_memo(db, guidance.memo)
    add_event(db, "rollout", rollout.id, seq)
    return replace(rollout, step=step, guidance=replace(guidance, policies=policies))


def add_state(db: sqlite3.Connection, value: str) -> None:
    """Write the optimizer's state under the next version."""
    db.execute(
        "INSERT INTO state VALUES (1, 1, ?) ON CONFLICT (id) "
        "DO UPDATE SET version = version + 1, value = excluded.value",
        (value,),
    )


def add_event(db: sqlite3.Connection, kind: EventKind, ref: str, rollout: int | None = None) -> int:
    """Append to the log; return the event's number."""
    row = db.execute(
        "INSERT INTO events (kind, ref, rollout, at) VALUES (?, ?, ?, ?)",
        (kind, encode_text(ref), rollout, time.time()),
    )
    return int(row.lastrowid or 0)


def adopt(db: sqlite3.Connection, policy: Policy, step: int) -> Policy:
    """Put a policy into force; return it as stored.

    A text that its route had before, for the same category, keeps its number and provenance. A
    new one is stored, with the version in force there so far as its parent, and an event.

    Args:
        db: The transaction.
        policy: With or without a version number, which is not looked at.
        step: Its step where it names none.
    """
    route, place = encode_text(policy.route), encode_text(policy.place)
    digest, text, rules = encode_policy(policy)
    row = db.execute(
        f"SELECT {POLICY_COLUMNS} FROM policies WHERE route = ? AND digest = ?", (route, digest)
    ).fetchone()
    before, last = db.execute(
        "SELECT (SELECT version FROM in_force WHERE route = ?), "
        "(SELECT max(version) FROM policies WHERE route = ?)",
        (place, route),
    ).fetchone()
    if row is None:
        stored = replace(
            policy,
            version=(last or 0) + 1,
            parent=before or 0,
            step=policy.step or step,
        )
        db.execute(
            "INSERT INTO policies (route, version, digest, text, rules, parent, author, step, "
            "message, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                route,
                stored.version,
                digest,
                text,
                rules,
                stored.parent,
                encode_text(stored.author),
                stored.step,
                encode_text(stored.message),
                time.time(),
            ),
        )
        add_event(db, "policy", f"{policy.route}@{stored.version}")
    else:
        stored = decode_policy(row)
    if before != stored.version:
        db.execute("INSERT OR REPLACE INTO in_force VALUES (?, ?)", (place, stored.version))
    return stored


def add_memo(db: sqlite3.Connection, memo: Mapping[str, str]) -> None:
    """Keep texts under their keys; a later text replaces an earlier one."""
    for key, text in memo.items():
        row = (encode_text(key), encode_text(text))
        db.execute("INSERT OR REPLACE INTO memo VALUES (?, ?)", row)


def add_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    """Keep a setting; a later value replaces an earlier one."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (encode_text(key), encode_text(value)))


def settle_claim(db: sqlite3.Connection, claim: Claim) -> None:
    """Let a claim decide on its setting; what it raises undoes the transaction."""
    key, decide = claim
    stood = reading.meta(db, key)
    stands = decide(stood)
    if stands != stood:
        add_meta(db, key, stands)


def said_already(db: sqlite3.Connection, head: Head, feedback: Feedback) -> bool:
    """Tell whether this very feedback was given before, and so changes nothing.

    Without an id, it repeats what stands. With one, it repeats the last thing said under this
    id since the last retraction: a message delivered twice does not undo what came between.
    """
    last = head.verdict
    if last is None:
        return False
    if feedback.id:
        row = db.execute(
            "SELECT verdict FROM feedback WHERE rollout = ? AND id = ? AND seq > "
            "(SELECT coalesce(max(seq), 0) FROM feedback WHERE rollout = ? AND verdict IS NULL) "
            "ORDER BY seq DESC LIMIT 1",
            (head.seq, encode_text(feedback.id), head.seq),
        ).fetchone()
        if row is None:
            return False
        last = row[0]
    # What judging and learning cost, and whether learning failed, is not part of what was said.
    before = replace(decode_feedback(last), usage=feedback.usage, error=feedback.error)
    return encode_feedback(before) == encode_feedback(feedback)


def add_feedback(
    db: sqlite3.Connection, head: Head, rollout_id: str, feedback: Feedback | None, verdict: str
) -> None:
    """Let a feedback stand for a rollout, or none, with its event.

    A failed rollout is no answer: it keeps its feedback, and never becomes an experience.

    Args:
        db: The transaction.
        head: The rollout.
        rollout_id: Its id.
        feedback: ``None`` is a retraction.
        verdict: The feedback as one text.
    """
    text = None if feedback is None else verdict
    id = "" if feedback is None else encode_text(feedback.id)
    db.execute(
        "INSERT INTO feedback (rollout, at, id, verdict) VALUES (?, ?, ?, ?)",
        (head.seq, time.time(), id, text),
    )
    event = add_event(db, "retraction" if feedback is None else "feedback", rollout_id, head.seq)
    score = learned = None
    if feedback is not None and feedback.teaches and not head.failed:
        score, learned = feedback.score, event
    db.execute(
        "UPDATE rollouts SET verdict = ?, score = ?, learned = ? WHERE seq = ?",
        (text, score, learned, head.seq),
    )
