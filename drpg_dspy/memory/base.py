"""What every memory promises.

**The file is the truth.** Rollouts, feedback, policies and optimizer state live in one store;
indexes are caches that are rebuilt from it.

**Atomic.** :meth:`Memory.record` and :meth:`Memory.commit` each happen whole or not at all. A
process killed between them leaves a rollout that waits for its feedback.

**Shared.** Several threads and processes may use one memory. What another process committed is
seen by the next call that reads.

**Ordered.** Every change has a place in one event log, numbered from 1 without reuse; trackers
and other processes follow it from where they left off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from drpg_dspy.types import Experience, Feedback, Policy, Rollout, Usage, Verdict

__all__ = [
    "Amendment",
    "Claim",
    "Embedder",
    "Event",
    "EventKind",
    "Hit",
    "Memory",
    "MemoryView",
    "StepFigures",
]

EventKind = Literal["rollout", "feedback", "retraction", "policy"]
"""What an entry of a memory's log tells of."""

Claim = tuple[str, Callable[[str | None], str]]
"""A setting, and what decides on it: called with what stands there (``None`` = nothing), it
returns what is to stand, or raises to refuse."""

Amendment = Callable[[str | None], tuple[Mapping[str, str], Sequence[Policy]]]
"""What decides on a text: called with what stands there (``None`` = nothing), it returns the
texts that are to stand, by key, and the policies that are in force from now on, or raises to
refuse. A route's policy without rules says that it has none any more."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes:
        identity: Names the model, its revision, pooling and normalisation; two embedders with
            one identity give one vector for one text.
        dimension: Length of a vector.
    """

    identity: str
    dimension: int

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 of shape ``(len(texts), dimension)``."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved experience and its cosine similarity to the query, in [-1, 1]."""

    experience: Experience
    similarity: float


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log.

    Attributes:
        seq: Its number, from 1, never reused.
        kind: ``"rollout"``: ``ref`` is the rollout's id. ``"feedback"`` and ``"retraction"``:
            the rollout's id. ``"policy"``: ``ref`` is ``"ROUTE@VERSION"``.
        ref: What it is about.
        at: Seconds since the epoch.
    """

    seq: int
    kind: EventKind
    ref: str
    at: float


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One rollout in figures, without its texts.

    Attributes:
        id: The rollout's id.
        step: Its step.
        failed: The program raised.
        seconds: Wall time of the call, policy writing included.
        answering, writing: What answering cost, and what writing the guidance cost.
        versions: By route: the version of the policy it was given.
        feedback: The verdict that stands; ``None`` = it waits for one.
    """

    id: str
    step: int
    failed: bool
    seconds: float
    answering: Usage
    writing: Usage
    versions: Mapping[str, int]
    feedback: Feedback | None


class MemoryView(ABC):
    """The part of a memory that optimizers see."""

    @abstractmethod
    def search(self, text: str, k: int, verdict: Verdict | None = None) -> list[Hit]:
        """Return the ``k`` experiences whose keys are most similar to ``text``.

        Exact inner product of unit vectors. The verdict filters *before* the search: k hits of
        the wanted kind whenever k exist. Most similar first; equal similarity, older first.

        Args:
            text: The query; embedded once, then its vector is kept.
            k: How many, at least 0. More than exist gives all that exist.
            verdict: ``"correct"``, ``"wrong"`` or ``None`` for both.
        """

    @abstractmethod
    def recent(self, k: int, verdict: Verdict | None = None) -> list[Experience]:
        """Return the ``k`` experiences learned last, oldest of them first."""

    @abstractmethod
    def experience(self, id: str) -> Experience | None:
        """Return one experience, or ``None`` if nothing was learned from that rollout."""

    @abstractmethod
    def count(self, verdict: Verdict | None = None) -> int:
        """Return how many experiences there are."""

    @abstractmethod
    def count_rollouts(self) -> int:
        """Return how many rollouts were recorded, judged or not, failed ones included."""

    @abstractmethod
    def recall(self, key: str) -> str | None:
        """Return the text kept under ``key`` by :meth:`remember` or a rollout's memo."""

    @abstractmethod
    def remember(self, key: str, text: str) -> None:
        """Keep a text under ``key``; written with the learning step under way, or not at all.

        Only for use inside :meth:`~drpg_dspy.optimizers.base.OnlineOptimizer.update`.
        """

    def __len__(self) -> int:
        return self.count()


class Memory(MemoryView):
    """Keeps rollouts, feedback, policies and optimizer state.

    The part that learners, runners and trackers use beside :class:`MemoryView`.

    Attributes:
        threshold: Scores from here on are correct, in (0, 1].
        embedder: Turns keys into vectors; ``None`` = history can be read, not searched.
    """

    threshold: float
    embedder: Embedder | None

    @property
    def place(self) -> str:
        """Where the data is: the same for any two objects that share it. By default the object."""
        return f"{type(self).__name__} {id(self):#x}"

    def is_correct(self, feedback: Feedback) -> bool:
        """Tell whether a judged score reaches the threshold."""
        return feedback.judged and feedback.score >= self.threshold

    @abstractmethod
    def record(self, rollout: Rollout, *, claim: Claim | None = None) -> Rollout:
        """Write a prediction in one transaction.

        Policies in its guidance get their version numbers: a text that its route had before
        keeps its number, a new one is stored with its provenance. A ``step`` of 0 becomes the
        number of the rollout.

        Args:
            rollout: The prediction.
            claim: A setting that is decided on in the same transaction. Of several processes
                that claim at once each sees what the one before it left; where it refuses,
                nothing is written and what it raised is raised.

        Returns:
            The rollout as stored.

        Raises:
            EmbedderMismatch: The vectors are another embedder's; nothing is written.
            StorageError: A value in it has no plain form, or the data cannot be written (it was
                deleted, it is locked); nothing is written.
            ValueError: The id exists already.
        """

    @abstractmethod
    def rollout(self, id: str) -> Rollout:
        """Return a stored rollout.

        Raises:
            UnknownRollout: It was never recorded here.
        """

    @abstractmethod
    def rollouts(self, *, after_step: int = 0) -> Iterator[tuple[Rollout, Feedback | None]]:
        """Yield rollouts with the feedback that stands for each, by step."""

    def figures(self) -> Iterator[StepFigures]:
        """Yield the figures of all rollouts, by step: what a report of long runs reads."""
        for rollout, feedback in self.rollouts():
            guidance = rollout.guidance
            yield StepFigures(
                id=rollout.id,
                step=rollout.step,
                failed=rollout.failed,
                seconds=rollout.seconds,
                answering=rollout.usage,
                writing=guidance.usage,
                versions={route: policy.version for route, policy in guidance.policies.items()},
                feedback=feedback,
            )

    @abstractmethod
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

        Feedback that arrives again for a rollout replaces what stood (the history is kept); an
        identical one with the same feedback id changes nothing. Feedback that does not teach
        (NaN, uninformative) is kept and counted, and takes the experience out of memory.

        Args:
            rollout_id: What the feedback is about.
            feedback: The verdict.
            state: The optimizer's state after learning; ``None`` leaves it.
            policies: Policies that are now in force and were not part of a rollout.
            if_state_version: Write only if the stored state still has this version.

        Returns:
            False, with nothing written, when ``if_state_version`` no longer holds; else True.

        Raises:
            StorageError: The data cannot be written (it was deleted, it is locked).
            UnknownRollout: No such rollout.
        """

    @abstractmethod
    def retract(self, rollout_id: str) -> None:
        """Take back the feedback of a rollout: it waits for feedback again.

        Raises:
            UnknownRollout: No such rollout.
        """

    @abstractmethod
    def feedback(self, rollout_id: str) -> Feedback | None:
        """Return the feedback that stands for a rollout."""

    @abstractmethod
    def feedback_history(self, rollout_id: str) -> list[tuple[float, Feedback | None]]:
        """Return every feedback a rollout ever had, ``(time, feedback)``; None = retracted."""

    @abstractmethod
    def state(self) -> tuple[Mapping[str, Any], int]:
        """Return the optimizer's state and its version (``({}, 0)`` when never written)."""

    @abstractmethod
    def policies(self, route: str | None = None) -> list[Policy]:
        """Return the stored policy versions, of one route or of all, oldest first."""

    @abstractmethod
    def policy(self, route: str, version: int) -> Policy:
        """Return one version.

        Raises:
            ValueError: There is none; the message names those that exist.
        """

    @abstractmethod
    def in_force(self, route: str) -> Policy | None:
        """Return the policy that a route, outside of categories, used last.

        A version may come into force again, so this need not be the newest. One without rules
        says that the route has no policy any more; ``None`` = it never had one.
        """

    @abstractmethod
    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return entries of the log with ``seq > after``, in order."""

    @abstractmethod
    def get_meta(self, key: str) -> str | None:
        """Return a setting stored beside the data (a tracker's cursor, a run's config)."""

    @abstractmethod
    def set_meta(self, key: str, value: str) -> None:
        """Store a setting beside the data, in a transaction of its own."""

    @abstractmethod
    def amend(self, key: str, amendment: Amendment) -> list[Policy]:
        """Change a text that :meth:`recall` gives, in a transaction of its own.

        For what people change while a program runs: no rollout, no feedback. Every process sees
        the change with its next call. Of several processes that change the same text at once
        each sees what the one before it left.

        Args:
            key: Of the text.
            amendment: Decides, inside the transaction; it must be quick and use no memory. What
                it raises undoes everything.

        Returns:
            The policies that it put into force, as stored.

        Raises:
            StorageError: The data cannot be written.
        """

    @abstractmethod
    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of everything to a new file, while others use the memory."""

    @abstractmethod
    def copy_from(self, path: Path) -> None:
        """Replace everything with what :meth:`copy_to` wrote."""

    @abstractmethod
    def discard(self) -> None:
        """Drop what :meth:`remember` was given since the last commit."""

    @abstractmethod
    def close(self) -> None:
        """Close files and free the index. Closing twice is harmless."""
