"""How a learner learns: one verdict, one transaction, from any thread or process."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import Any

import dspy

from drpg_dspy.exceptions import StorageError
from drpg_dspy.judging import judge, to_feedback
from drpg_dspy.memory import Memory
from drpg_dspy.online.restoring import answer_of, inputs_of
from drpg_dspy.online.revising import written_by
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.types import Experience, Feedback, ProgramCard, Rollout
from drpg_dspy.usage import meter

__all__ = ["Learning"]

logger = logging.getLogger(__name__)

_MAX_COMMIT_TRIES = 8


class Learning:
    """The learning half of :class:`~drpg_dspy.online.learner.OnlinePolicyOptimizer`."""

    program: dspy.Module
    optimizer: OnlineOptimizer
    memory: Memory
    card: ProgramCard
    metric: Callable[..., Any] | None
    _learning: threading.RLock
    _state_version: int
    _counting: threading.Lock
    unlearned: int

    _notify: Callable[[], None]
    _check_owner: Callable[[], None]

    def feedback(
        self,
        rollout_id: str,
        score: Any = None,
        text: str | None = "",
        *,
        labels: Any = None,
        id: str | None = "",
        author: str = "person",
    ) -> None:
        """Say how good an answer was, now or next week, from any thread or process.

        The last word stands: feedback for the same rollout again is a revision.

        Args:
            rollout_id: The prediction's ``rollout_id``.
            score: A bool or a number in [0, 1], NumPy's included; NaN = not judged.
            text: What was wrong or right, in words; ``None`` is no text.
            labels: Instead of a score: what the learner's metric compares with.
            id: Names this piece of feedback; sent again with the same content it changes nothing.
            author: Who says so.

        Raises:
            ResumeMismatch: Another program filled the memory since this learner was opened.
            StorageError: The verdict cannot be written (the file was deleted, it is locked).
            UnknownRollout: No such rollout in this memory.
            ValueError: Neither or both of score and labels, or a score out of range.
        """
        if score is None and labels is None:
            raise ValueError(
                "feedback needs a verdict: score= (a bool, a number in [0, 1], NaN = not judged) "
                "or labels= for the learner's metric; got neither."
            )
        if score is not None and labels is not None:
            raise ValueError("feedback takes score= or labels=, got both.")
        if labels is not None:
            rollout = self.memory.rollout(rollout_name(rollout_id))
            verdict = self._judge(rollout, labels, answer_of(rollout, self.card))
        else:
            verdict = Feedback(score, text=text or "", id=id or "", author=author)
        self.learn_one(rollout_id, verdict)

    def retract(self, rollout_id: str) -> None:
        """Take back the feedback of a rollout; what was learned from it leaves the memory.

        Raises:
            UnknownRollout: No such rollout in this memory.
        """
        with self._learning:
            self.memory.retract(rollout_name(rollout_id))
        self._notify()

    def learn_one(self, rollout: Rollout | str, feedback: Feedback | Any) -> None:
        """Learn from one verdict. Returns nothing; the learner's state changes.

        Feedback that does not teach (NaN, uninformative) is recorded, and nothing is learned from
        it. So is feedback on a rollout that failed, unless the optimizer learns from replies that
        could not be read and this is one. When the optimizer fails on it (a dead policy LM), the
        verdict is kept all the same and the failure stands beside it. What teaches and was not
        learned from is counted in ``unlearned``.

        Args:
            rollout: The rollout or its id.
            feedback: A :class:`~drpg_dspy.types.Feedback`, or anything that a metric returns.
        """
        verdict = to_feedback(feedback)
        with self._learning:
            self._check_owner()
            record = self.memory.rollout(rollout_name(rollout))
            if _same(verdict, self.memory.feedback(record.id)):
                return
            for _ in range(_MAX_COMMIT_TRIES):
                if self._learn(record, verdict):
                    break
            else:
                raise StorageError(
                    f"Another process kept changing the optimizer's state while rollout "
                    f"{record.id!r} was learned from ({_MAX_COMMIT_TRIES} tries); "
                    "the feedback is not recorded, send it again."
                )
        self._notify()

    def _learn(self, rollout: Rollout, verdict: Feedback) -> bool:
        self._refresh_state()
        stateful = self.optimizer.keeps_state
        state = None
        useful = not rollout.failed or (
            rollout.unreadable and self.optimizer.learns_from_unreadable
        )
        lost = verdict.teaches and not useful
        if verdict.teaches and useful:
            experience = Experience(rollout, verdict, self.memory.is_correct(verdict))
            with meter() as usage, written_by(self.optimizer, self.program):
                try:
                    self.optimizer.update(experience, self.memory)
                except Exception as error:  # noqa: BLE001 - the verdict must not be lost
                    logger.warning(
                        "The verdict on %s is kept, but nothing was written from it: %s: %s",
                        rollout.id,
                        type(error).__name__,
                        error,
                    )
                    self.memory.discard()
                    lost = True
                    verdict = dataclasses.replace(verdict, error=f"{type(error).__name__}: {error}")
            verdict = dataclasses.replace(verdict, usage=verdict.usage + usage.total())
            state = self.optimizer.state_dict() if stateful else None
        written = self.memory.commit(
            rollout.id,
            verdict,
            state=state,
            if_state_version=self._state_version if state is not None else None,
        )
        if written and lost:
            with self._counting:
                self.unlearned += 1
        if written and state is not None:
            self._state_version += 1
        elif not written:
            self.memory.discard()
            self._state_version = -1
        return written

    def _judge(self, rollout: Rollout, labels: Any, prediction: Any) -> Feedback:
        if self.metric is None:
            raise ValueError(
                "labels were given but this learner has no metric; construct it with metric=, "
                "or call feedback(rollout_id, score=…)."
            )
        given = dict(labels.items()) if hasattr(labels, "items") else {"label": labels}
        inputs = inputs_of(rollout, self.card)
        example = dspy.Example(**{**inputs, **given}).with_inputs(*inputs)
        return judge(self.metric, example, prediction)

    def _refresh_state(self) -> None:
        if not self.optimizer.keeps_state:
            return
        with self._learning:
            state, version = self.memory.state()
            if version != self._state_version:
                if version:
                    self.optimizer.load_state_dict(state)
                self._state_version = version


def rollout_name(rollout: Any) -> str:
    """Return the id of a rollout, given the id, the rollout or the prediction that carries it."""
    if isinstance(rollout, Rollout):
        return rollout.id
    name = getattr(rollout, "rollout_id", rollout)
    if not isinstance(name, str):
        raise ValueError(
            f"A rollout is named by its id, as in prediction.rollout_id; got {rollout!r}."
        )
    return name


def _same(new: Feedback, standing: Feedback | None) -> bool:
    """Tell whether feedback says what stands already; sent twice, it counts once."""
    if standing is None:
        return False
    bare = dataclasses.replace(standing, usage=new.usage, error=new.error)
    # repr, because NaN differs from itself.
    return repr(new) == repr(bare)
