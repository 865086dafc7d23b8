"""A memory in one SQLite file."""

from __future__ import annotations

import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from drpg_dspy.arguments import checked_path, number
from drpg_dspy.exceptions import StorageError
from drpg_dspy.memory import reading, writing
from drpg_dspy.memory.base import Amendment, Claim, Embedder, Event, Hit, Memory, StepFigures
from drpg_dspy.memory.copying import copy_from, copy_to
from drpg_dspy.memory.embeddings import Embeddings, epoch, identity
from drpg_dspy.memory.figures import read_figures
from drpg_dspy.memory.ledger import Ledger
from drpg_dspy.memory.reindexing import reindex
from drpg_dspy.memory.rows import (
    ROLLOUT_NUMBER,
    VERDICT,
    decode_experience,
    decode_feedback,
    decode_rollout,
    encode_body,
    encode_feedback,
    encode_guidance,
)
from drpg_dspy.memory.store import Store, temporary_file
from drpg_dspy.plain import dumps
from drpg_dspy.types import Experience, Feedback, Policy, Rollout, Verdict

__all__ = ["SQLiteMemory"]

_POLICIES_KEPT = 256
_PAGE = 64
"""Rollouts read at a time when all of them are."""

_ATTEMPTS = 3
"""How often vectors found damaged are computed anew within one search."""


class SQLiteMemory(Memory):
    """Keeps a run in one SQLite file, with vectors indexed by FAISS.

    Threads and processes may share a file. What one commits, the others' next call sees. A
    forked child goes on with connections and an index of its own. A copy made by ``deepcopy``
    or sent to another process is the same memory, not a copy of its data.

    **Age.** Among hits of equal similarity the rollout recorded first comes first.
    :meth:`recent` goes by when something was last learned: feedback that revises an old
    rollout makes it the newest experience.

    **Vectors.** An experience is found by its rollout's ``key``; one with key ``""`` is kept
    and counted, but :meth:`search` does not find it, and ``search("")`` finds nothing. A query
    that the embedder maps to the zero vector finds nothing, with a warning; a vector with NaN
    in it is an error. The guidance of a hit's rollout is read when it is first looked into, so
    the memory must still be open then.

    Args:
        path: The file, created when it is missing; ``":memory:"`` is a temporary file that
            goes with this object.
        embedder: Makes vectors of key texts. Its identity and dimension are recorded with the
            first vector. ``None`` reads and writes history, but cannot search.
        threshold: The least score of a correct experience, in (0, 1]. Not stored: opening a
            file with another threshold relabels.
        read_only: Never create or write the file.
        timeout: Seconds to wait for another process's write lock.

    Raises:
        EmbedderMismatch: The file's vectors came from another embedder.
        StorageError: The file is damaged, newer than this library, or no memory.
        ValueError: An argument is of the wrong kind, or the threshold is not in (0, 1].

    >>> from drpg_dspy.retrieval.embedder import HashingEmbedder
    >>> memory = SQLiteMemory(":memory:", HashingEmbedder())
    >>> question = {"question": "How many singers are there?"}
    >>> rollout = Rollout("r1", 0, question, {"sql": "SELECT 1"}, key=question["question"])
    >>> memory.record(rollout).step
    1
    >>> memory.commit("r1", Feedback(score=1.0))
    True
    >>> [hit.experience.id for hit in memory.search("how many singers", k=3)]
    ['r1']
    >>> memory.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        embedder: Embedder | None = None,
        *,
        threshold: float = 0.5,
        read_only: bool = False,
        timeout: float = 30.0,
    ) -> None:
        if embedder is not None and not isinstance(embedder, Embedder):
            raise ValueError(
                f"embedder must have an identity and a dimension, got {embedder!r}; wrap a "
                "function: CallableEmbedder(function, 'its name')."
            )
        number("timeout", timeout, 0)
        self.threshold = number("threshold", threshold, 0, 1)
        given = checked_path("path", path)
        self.path = temporary_file(self) if str(given) == ":memory:" else given
        self._store = Store(self.path, read_only=read_only, timeout=timeout)
        self._embeddings = Embeddings(self._store, embedder)
        self._ledger = Ledger(self._embeddings, threshold)
        self._policies: OrderedDict[tuple[str, int], Policy] = OrderedDict()
        self._buffer = threading.local()

    # -- what the memory is

    @property
    def place(self) -> str:
        """The file."""
        return str(self._store.path.resolve())

    @property
    def embedder(self) -> Embedder | None:  # type: ignore[override]
        """The embedder in use."""
        return self._embeddings.embedder

    @property
    def embedded(self) -> int:
        """How many texts this object has sent to its embedder."""
        return self._embeddings.embedded

    @property
    def vectors(self) -> tuple[str, int] | None:
        """Identity and dimension of the embedder that made the file's vectors, if any."""
        with self._store.reading() as db:
            return identity(db)

    def __repr__(self) -> str:
        name = None if self.embedder is None else self.embedder.identity
        return f"SQLiteMemory({str(self.path)!r}, embedder={name!r}, threshold={self.threshold})"

    def __deepcopy__(self, memo: dict[int, Any]) -> SQLiteMemory:
        return self

    def __reduce__(self) -> tuple[Callable[..., SQLiteMemory], tuple[Any, ...]]:
        options = (self.threshold, self._store.read_only, self._store.timeout)
        return _reopen, (str(self.path), self.embedder, *options)

    # -- what optimizers see

    def search(self, text: str, k: int, verdict: Verdict | None = None) -> list[Hit]:
        _check_choice(k, verdict)
        if k == 0 or text == "":
            return []
        vector = self._embeddings.vector(text)
        if not vector.any():
            warnings.warn(
                f"The text {text[:80]!r} has a zero vector: nothing is similar to it.",
                RuntimeWarning,
                stacklevel=2,
            )
            return []
        for _ in range(_ATTEMPTS):
            with self._store.snapshot() as db:
                self._ledger.follow(db)
                missing = self._ledger.index(db)
                if not missing:
                    ranking = self._ledger.rank(db, vector, k, verdict)
                    missing = self._ledger.missing()
                if not missing:
                    return self._ledger.hits(db, ranking, self._guidance)
            self._embeddings.mend(missing)
        raise StorageError(
            f"{len(missing)} vector(s) in {self.path} stay damaged although they were computed "
            f"anew {_ATTEMPTS} times; something else writes to the file."
        )

    def recent(self, k: int, verdict: Verdict | None = None) -> list[Experience]:
        _check_choice(k, verdict)
        with self._store.snapshot() as db:
            rows = reading.recent_rows(db, k, verdict, self.threshold)
            return [self._experience(row) for row in reversed(rows)]

    def experience(self, id: str) -> Experience | None:
        with self._store.snapshot() as db:
            row = reading.experience_row(db, id)
            return None if row is None else self._experience(row)

    def count(self, verdict: Verdict | None = None) -> int:
        _check_choice(0, verdict)
        with self._store.snapshot() as db:
            self._ledger.follow(db)
            return self._ledger.count(verdict)

    def count_rollouts(self) -> int:
        with self._store.reading() as db:
            return reading.rollout_count(db)

    def recall(self, key: str) -> str | None:
        remembered = self._remembered()
        if key in remembered:
            return remembered[key]
        with self._store.reading() as db:
            return reading.memo(db, key)

    def remember(self, key: str, text: str) -> None:
        """Keep a text under ``key`` until this thread's next :meth:`commit` writes it."""
        self._remembered()[key] = text

    def discard(self) -> None:
        """Drop what this thread's :meth:`remember` was given since its last commit."""
        self._remembered().clear()

    # -- predictions

    def record(self, rollout: Rollout, *, claim: Claim | None = None) -> Rollout:
        if rollout.step < 0:
            raise ValueError(f"A rollout's step must be at least 0, got {rollout.step}.")
        body = (*encode_body(rollout), encode_guidance(rollout.guidance))
        embeds = rollout.key != "" and self.embedder is not None
        vector = self._embeddings.vector(rollout.key) if embeds else None
        with self._store.writing() as db:
            if claim is not None:
                writing.settle_claim(db, claim)
            text = self._embeddings.put(db, rollout.key, vector) if rollout.key else None
            stored = writing.add_rollout(db, rollout, text, body, self.path)
            current = epoch(db)
        if text is not None and vector is not None:
            self._embeddings.keep(text, vector, current)
        return stored

    def rollout(self, id: str) -> Rollout:
        with self._store.snapshot() as db:
            return decode_rollout(reading.rollout_row(db, id, self.path), self._guidance)

    def rollouts(self, *, after_step: int = 0) -> Iterator[tuple[Rollout, Feedback | None]]:
        """Yield rollouts with the feedback that stands for each, by step.

        A page at a time, so memory stays bounded and no lock is held in between: what is
        recorded during the iteration may or may not be seen.
        """
        place = (after_step, 2**62)
        while True:
            with self._store.snapshot() as db:
                rows = reading.page(db, place, _PAGE)
            for row in rows:
                feedback = None if row[VERDICT] is None else decode_feedback(row[VERDICT])
                rollout = decode_rollout(row, self._guidance)
                place = (rollout.step, row[ROLLOUT_NUMBER])
                yield rollout, feedback
            if len(rows) < _PAGE:
                return

    def figures(self) -> Iterator[StepFigures]:
        return read_figures(self._store)

    # -- feedback

    def commit(
        self,
        rollout_id: str,
        feedback: Feedback,
        *,
        state: Mapping[str, Any] | None = None,
        policies: Sequence[Policy] = (),
        if_state_version: int | None = None,
    ) -> bool:
        """Write feedback and what was learned from it in one transaction.

        See :meth:`.Memory.commit`. Feedback with an id that repeats the last verdict given
        under that id is a message delivered twice: neither it nor the state with it is
        written. Feedback on a failed rollout is kept, but a failure is no experience.
        """
        verdict = encode_feedback(feedback)
        encoded = None if state is None else dumps(dict(state), where="state")
        remembered = self._remembered()
        with self._store.writing() as db:
            head = writing.find(db, rollout_id, self.path)
            if if_state_version is not None and reading.state_version(db) != if_state_version:
                return False
            if not writing.said_already(db, head, feedback):
                for policy in policies:
                    writing.adopt(db, policy, head.step)
                writing.add_feedback(db, head, rollout_id, feedback, verdict)
                if encoded is not None:
                    writing.add_state(db, encoded)
                writing.add_memo(db, remembered)
        remembered.clear()
        return True

    def retract(self, rollout_id: str) -> None:
        with self._store.writing() as db:
            head = writing.find(db, rollout_id, self.path)
            if head.verdict is not None:
                writing.add_feedback(db, head, rollout_id, None, "")

    def feedback(self, rollout_id: str) -> Feedback | None:
        """Return the feedback that stands for a rollout.

        Raises:
            UnknownRollout: No such rollout.
        """
        with self._store.snapshot() as db:
            verdict = writing.find(db, rollout_id, self.path).verdict
        return None if verdict is None else decode_feedback(verdict)

    def feedback_history(self, rollout_id: str) -> list[tuple[float, Feedback | None]]:
        """Return every feedback a rollout ever had, ``(time, feedback)``; None = retracted.

        Raises:
            UnknownRollout: No such rollout.
        """
        with self._store.snapshot() as db:
            return reading.feedback_history(db, writing.find(db, rollout_id, self.path).seq)

    # -- what was learned

    def state(self) -> tuple[Mapping[str, Any], int]:
        with self._store.reading() as db:
            return reading.state(db)

    def policies(self, route: str | None = None) -> list[Policy]:
        with self._store.reading() as db:
            return reading.policies(db, route)

    def policy(self, route: str, version: int) -> Policy:
        with self._store.reading() as db:
            known = self._policies.get((route, version))
            if known is None:
                known = reading.policy(db, route, version)
                self._policies[route, version] = known
                if len(self._policies) > _POLICIES_KEPT:
                    self._policies.popitem(last=False)
            return known

    def in_force(self, route: str) -> Policy | None:
        with self._store.snapshot() as db:
            version = reading.version_in_force(db, route)
            return None if version is None else self.policy(route, version)

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        with self._store.reading() as db:
            return reading.events(db, after, limit)

    # -- settings and the file

    def get_meta(self, key: str) -> str | None:
        with self._store.reading() as db:
            return reading.meta(db, key)

    def set_meta(self, key: str, value: str) -> None:
        with self._store.writing() as db:
            writing.add_meta(db, key, value)

    def amend(self, key: str, amendment: Amendment) -> list[Policy]:
        with self._store.writing() as db:
            texts, policies = amendment(reading.memo(db, key))
            writing.add_memo(db, texts)
            return [writing.adopt(db, policy, policy.step) for policy in policies]

    def reindex(
        self,
        embedder: Embedder,
        *,
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Embed every stored text anew, and go on with that embedder.

        The old vectors stand until all new ones are there; then all change at once. An
        interrupted call is taken up where it stopped. Other processes with the old embedder
        get an :class:`~drpg_dspy.exceptions.EmbedderMismatch` from then on.

        Args:
            embedder: The new one. To use one that the file refuses, open the memory without.
            batch_size: Texts embedded and written at a time.
            progress: Called with how many texts are done, and how many there are.

        Returns:
            How many texts the memory has.
        """
        total = reindex(self._store, embedder, batch_size, progress)
        self._embeddings.adopt(embedder)
        return total

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of everything, while others use the memory.

        A memory that is at ``path`` already is replaced in one transaction.
        """
        copy_to(self._store, Path(path))

    def copy_from(self, path: Path) -> None:
        """Replace everything, in one transaction, with what :meth:`copy_to` wrote.

        Raises:
            EmbedderMismatch: The copy's vectors came from another embedder.
            StorageError: The copy is missing, damaged or no memory.
        """
        copy_from(self._store, self._embeddings, Path(path))
        with self._store.locked():
            self._policies.clear()

    def close(self) -> None:
        self._store.close()
        with self._store.locked():
            self._ledger.forget()

    # -- inside

    def _experience(self, row: tuple[Any, ...]) -> Experience:
        return decode_experience(row, self._guidance, self.threshold)

    def _guidance(self, seq: int) -> dict[str, Any]:
        with self._store.snapshot() as db:
            versions, parts = reading.guidance(db, seq)
            policies = {route: self.policy(route, number) for route, number in versions.items()}
            return {"policies": policies, **parts}

    def _remembered(self) -> dict[str, str]:
        if not hasattr(self._buffer, "memo"):
            self._buffer.memo = {}
        memo: dict[str, str] = self._buffer.memo
        return memo


def _check_choice(k: int, verdict: Verdict | None) -> None:
    if k < 0:
        raise ValueError(f"k must be at least 0, got {k}.")
    if verdict is not None and verdict not in get_args(Verdict):
        raise ValueError(f"verdict must be 'correct', 'wrong' or None, got {verdict!r}.")


def _reopen(
    path: str, embedder: Embedder | None, threshold: float, read_only: bool, timeout: float
) -> SQLiteMemory:
    return SQLiteMemory(path, embedder, threshold=threshold, read_only=read_only, timeout=timeout)
