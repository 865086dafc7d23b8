"""Who is told what happened.

A tracker is fed from the memory's event log by one background thread
(:class:`~drpg_dspy.tracking.writer.BackgroundWriter`), in order, each event at least once. It
may be behind and is never in the way: a tracker that fails does not stop a stream, and what it
missed is sent when the run is resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drpg_dspy.memory.base import EventKind
from drpg_dspy.types import Feedback, Policy, Rollout

if TYPE_CHECKING:
    from drpg_dspy.tracking.handmade import RegistryReader

__all__ = ["RunInfo", "StepRecord", "Tracker"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a tracker is told at the start.

    Attributes:
        name: The run's or learner's name.
        params: Settings, flat, as text, numbers or bools.
        routes: Names of the program's routes.
        resume_token: What the tracker returned from ``start`` when the run began; ``""`` when
            it begins now. An MLflow tracker returns its run id.
        threshold: Score from which a rollout counts as correct, in (0, 1]; the memory's.
        history: Replays every record of the run from the first, also those that an earlier
            process sent, for trackers that attach the whole history at the end.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    routes: tuple[str, ...] = ()
    resume_token: str = ""
    threshold: float = 1.0
    history: Callable[[], Iterable[StepRecord]] = tuple


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One change in the run, ready to be shown.

    Attributes:
        seq: Number of the event in the log; grows, never repeats.
        rollout: The prediction.
        feedback: ``None`` while it waits for a verdict, or after a retraction.
        policies: Policy versions stored for the first time by this event.
        metrics: Running figures after this event, by name
            (:class:`~drpg_dspy.tracking.metrics.RunningMetrics`): ``score``,
            ``rolling_score``, ``prequential_score``, ``judged``, ``not_judged``, ``failed``,
            ``prompt_tokens``, ``completion_tokens``, ``lm_calls``, ``cost``, ``seconds``,
            ``policy_chars``, ``memory_size``, ``steps``, ``learning_failed``, each of the
            guidance's counts, and what this one step took: ``step_tokens``,
            ``step_lm_calls``, ``step_seconds``.
        at: When the event happened, seconds since the epoch.
        kind: What happened: ``"rollout"``, ``"feedback"``, ``"retraction"``, or ``"policy"``
            for policies that came with none of these.
    """

    seq: int
    rollout: Rollout
    feedback: Feedback | None
    policies: Sequence[Policy] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    at: float = 0.0
    kind: EventKind = "rollout"


class Tracker(ABC):
    """Receives a run's records.

    ``start``, ``write`` and ``finish`` are called from the writer's thread alone. A raised
    exception is logged and counted by the writer, and the records are offered again later.

    Attributes:
        name: A short label for people; the learner's name where it is given none.
    """

    name: str = ""

    @property
    def destination(self) -> str:
        """Where the records go, e.g. ``"jsonl:/runs/first.jsonl"``.

        How far a run was told is remembered under this text: two destinations must not share
        one, and it must hold no secret.
        """
        return f"{type(self).__name__}:{self.name}"

    @abstractmethod
    def start(self, run: RunInfo) -> str:
        """Open or reopen the run; return a token that finds it again.

        A token other than ``run.resume_token`` means that what was told before is gone (a
        deleted file or run): everything is then offered again from the first event.
        """

    @abstractmethod
    def write(self, records: Sequence[StepRecord]) -> None:
        """Take records, in order of ``seq``. May see a record again after a crash or failure."""

    def on_rollout(self, rollout: Rollout) -> None:
        """See a stored rollout on the caller's own thread, while its call is still open.

        The one method that runs inside the user's call: it must be cheap, must not touch a
        network or disk, and must not raise. Does nothing unless a tracker has a use for it.
        """

    follow_every: float | None = None
    """Seconds between looks into the registry below; ``None`` = it is not looked into."""

    def registry(self, name: str, routes: Sequence[str]) -> RegistryReader | None:
        """Return what reads the changes that people made by hand where records go, if any can.

        Args:
            name: The run's or learner's.
            routes: The program's.
        """
        return None

    def reachable(self) -> bool:
        """Tell, within a few seconds, whether a delivery has a chance now.

        Asked on the closing thread while the writer's own is busy: an address that answers
        nobody is not waited for. By default, and where it cannot be told, ``True``.
        """
        return True

    @abstractmethod
    def finish(self, status: str) -> None:
        """End the run: ``"finished"``, ``"stopped: …"`` or ``"failed: …"``."""
