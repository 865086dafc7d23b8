"""How a learner answers: under one snapshot of a policy, with everything put on record."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.exceptions import DRPGError, StorageError
from drpg_dspy.injection import record_trace, use_guidance
from drpg_dspy.memory import Memory
from drpg_dspy.online.calling import Outcome, ProgramCall, run_async
from drpg_dspy.online.identity import claim_memory
from drpg_dspy.online.revising import answered_by, revise
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.tracking import Tracker
from drpg_dspy.types import Call, Guidance, ProgramCard, Rollout, Usage
from drpg_dspy.usage import meter

__all__ = ["Answering"]

logger = logging.getLogger(__name__)

_REVISE_FAILED = "revise_failed"


class Answering:
    """The answering half of :class:`~drpg_dspy.online.learner.OnlinePolicyOptimizer`."""

    program: dspy.Module
    optimizer: OnlineOptimizer
    memory: Memory
    card: ProgramCard
    tracker: Tracker | None
    unrecorded: int
    unlearned: int
    metric: Callable[..., Any] | None
    _claimed: bool
    _last: contextvars.ContextVar[str]
    _last_anywhere: str

    _notify: Callable[[], None]
    _refresh_state: Callable[[], None]
    learn_from_labels: Callable[[Rollout, Any, Any], None]

    def forward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer as the program does; the prediction carries ``rollout_id``.

        Nothing of the learner's takes an answer down. When the policy writer fails, the call runs
        without a policy and ``propose_failed`` is counted in its rollout; when the optimizer
        fails to revise the answer, it is given as the program gave it and ``revise_failed`` is
        counted; when the call cannot be recorded (a value without a plain form, a locked file),
        the answer is given without a ``rollout_id`` and counted in ``unrecorded``; when it cannot
        be learned from (the metric returned no score), it is given and counted in ``unlearned``.

        Args:
            *args, **kwargs: The program's own arguments.
            labels: What the metric compares with (a mapping or ``dspy.Example``). The call is
                then judged and learned from at once. Never shown to the program.

        Raises:
            ValueError: There are labels, and the learner has no metric; or the optimizer chooses
                who answers, and every predictor has an LM of its own. Nothing was called.
        """
        self._check_labels(labels)
        call = ProgramCall(self.program, args, kwargs)
        return self._serve(call, labels)

    async def aforward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer asynchronously; see :meth:`forward`."""
        self._check_labels(labels)
        call = ProgramCall(self.program, args, kwargs)
        guidance = await asyncio.to_thread(self._propose_or_plain, call.inputs)
        with (
            answered_by(self.optimizer, guidance, self.program),
            record_trace() as trace,
            meter() as usage,
        ):
            with use_guidance(guidance, program=self.program):
                made = _Made(call, guidance, await run_async(call))
            if self.optimizer.revises:  # may call an LM; the event loop goes on meanwhile
                made = await asyncio.to_thread(self._revised, made)
        made = dataclasses.replace(made, trace=trace, usage=usage.total())
        rollout = await asyncio.to_thread(self._record_served, made)
        # Judging and learning may call an LM; the event loop goes on meanwhile.
        result = await asyncio.to_thread(self._deliver, rollout, made.outcome, labels)
        self._last.set(rollout.id if rollout else "")  # the threads had contexts of their own
        return result

    def predict_one(
        self, inputs: Mapping[str, Any], *, rollout_id: str | None = None, step: int = 0
    ) -> Rollout:
        """Answer one input and return the whole record instead of the prediction.

        Failures do not raise: the rollout says what happened (``rollout.error``), also when it
        was the optimizer that failed, in writing a policy or in revising the answer.

        Args:
            inputs: The program's arguments, without labels.
            rollout_id: A name for it; by default a new one.
            step: Its place in a stream, from 1; 0 = the number of the call.

        Raises:
            StorageError: An input or output cannot be recorded.
            ValueError: The inputs are no mapping of names to values.
        """
        return self.record_one(self.attempt_one(inputs, rollout_id=rollout_id, step=step)[0])

    def attempt_one(
        self,
        inputs: Mapping[str, Any],
        *,
        rollout_id: str | None = None,
        step: int = 0,
        guidance: Guidance | None = None,
    ) -> tuple[Rollout, Exception | None]:
        """Answer one input as :meth:`predict_one` does, and record nothing.

        Lets a runner look at a failure and try again before :meth:`record_one`.

        Args:
            inputs, rollout_id, step: As for :meth:`predict_one`.
            guidance: A policy and examples at hand; ``None`` = propose them.

        Returns:
            The rollout, and what was raised where it failed.
        """
        if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
            raise ValueError(f"inputs must be a mapping of names to values, got {inputs!r}.")
        call = ProgramCall(self.program, (), dict(inputs), rollout_id or "", step)
        failure = None
        if guidance is not None:  # of an attempt before, whose failure is not this one's
            counts = {name: n for name, n in guidance.counts.items() if name != _REVISE_FAILED}
            guidance = dataclasses.replace(guidance, counts=counts)
        with meter() as usage:
            try:
                guidance = guidance or self.propose(call.inputs)
            except Exception as error:  # noqa: BLE001 - one example may fail, the stream goes on
                failure = error
        if guidance is None:
            guidance = Guidance(counts={"propose_failed": 1}, usage=usage.total())
            key = self.card.key(call.inputs)
            return call.rollout(Outcome(error=failure), guidance, key=key), failure
        made = self._run(call, guidance)
        if made.failure is not None:  # no figure is made of steps that silently were others
            made = dataclasses.replace(made, outcome=Outcome(error=made.failure))
        return self._rollout(made), made.outcome.error

    def record_one(self, rollout: Rollout) -> Rollout:
        """Write a rollout into memory and tell the tracker; see :meth:`attempt_one`."""
        if not self._claimed:
            claim_memory(self.memory, self.card)
            self._claimed = True
        rollout = self.memory.record(rollout)
        self._last.set(rollout.id)
        self._last_anywhere = rollout.id
        if self.tracker is not None:
            self.tracker.on_rollout(rollout)  # while the call's own trace is still open
        self._notify()
        return rollout

    def propose(self, inputs: Mapping[str, Any]) -> Guidance:
        """Return the policy and examples that a call with these inputs would get now."""
        self._refresh_state()
        return self.optimizer.propose(inputs, self.memory)

    @property
    def last_rollout_id(self) -> str:
        """Id of the rollout made last in this thread or task; else of the last one anywhere.

        For programs that return something other than a ``dspy.Prediction``.
        """
        return self._last.get() or self._last_anywhere

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "program" not in self.__dict__:
            raise AttributeError(name)
        value = getattr(self.__dict__["program"], name)
        return self._lend(value) if inspect.ismethod(value) else value

    def _lend(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Run another method of the program under a policy, as a rollout of its own."""

        @functools.wraps(method)
        def lent(*args: Any, **kwargs: Any) -> Any:
            call = ProgramCall(method, args, kwargs)
            return self._serve(call, None)

        return lent

    def _propose_or_plain(self, inputs: Mapping[str, Any]) -> Guidance:
        try:
            return self.propose(inputs)
        except Exception as error:  # noqa: BLE001 - an answer without a policy beats no answer
            logger.warning(
                "No policy for this call, it runs as the plain program: %s: %s",
                type(error).__name__,
                error,
            )
            return Guidance(counts={"propose_failed": 1})

    def _serve(self, call: ProgramCall, labels: Any) -> Any:
        made = self._run(call, self._propose_or_plain(call.inputs))
        return self._deliver(self._record_served(made), made.outcome, labels)

    def _run(self, call: ProgramCall, guidance: Guidance) -> _Made:
        with (
            answered_by(self.optimizer, guidance, self.program),
            record_trace() as trace,
            meter() as usage,
        ):
            with use_guidance(guidance, program=self.program):
                made = _Made(call, guidance, call.run())
            made = self._revised(made)
        return dataclasses.replace(made, trace=trace, usage=usage.total())

    def _revised(self, made: _Made) -> _Made:
        """Let the optimizer revise an answer; one of another method only if it is a prediction."""
        call, outcome, guidance = made.call, made.outcome, made.guidance
        own = call.function is self.program or isinstance(outcome.result, dspy.Prediction)
        if not self.optimizer.revises or outcome.error is not None or not own:
            return made
        answer = outcome.result
        try:
            revision = revise(
                self.optimizer, self.program, call.inputs, answer, guidance, self.memory
            )
            counted = guidance.counting(revision.counts)
        except Exception as error:  # noqa: BLE001 - the answer was paid for, it is given
            logger.warning(
                "The answer is given as it is, revising it failed: %s: %s",
                type(error).__name__,
                error,
            )
            guidance = guidance.counting({_REVISE_FAILED: 1})
            return dataclasses.replace(made, guidance=guidance, failure=error)
        if revision.answer is not answer:
            outcome = Outcome(revision.answer, revised=True, first=answer)
        return dataclasses.replace(made, guidance=counted, outcome=outcome)

    def _rollout(self, made: _Made) -> Rollout:
        key = self.card.key(made.call.inputs)
        return made.call.rollout(made.outcome, made.guidance, made.trace, made.usage, key)

    def _record_served(self, made: _Made) -> Rollout | None:
        """Record a served call. An answer that cannot be recorded is given all the same."""
        try:
            return self.record_one(self._rollout(made))
        except StorageError as error:
            self.unrecorded += 1
            logger.warning(
                "An answer could not be recorded: it is given, but takes no feedback. %s", error
            )
            return None

    def _deliver(self, rollout: Rollout | None, outcome: Outcome, labels: Any) -> Any:
        self._last.set(rollout.id if rollout else "")
        if outcome.error is not None:
            raise outcome.error
        if rollout is not None and isinstance(outcome.result, dspy.Prediction):
            if "rollout_id" in outcome.result and outcome.result.rollout_id != rollout.id:
                logger.warning(
                    "The program returned a rollout_id of its own, which is left as it is; this "
                    "call's is online.last_rollout_id."
                )
            else:
                outcome.result.rollout_id = rollout.id
        if rollout is not None and labels is not None:
            self._learn_served(rollout, labels, outcome.result)
        return outcome.result

    def _learn_served(self, rollout: Rollout, labels: Any, result: Any) -> None:
        """Learn from a served call's labels. The answer was paid for, it is given all the same."""
        try:
            self.learn_from_labels(rollout, labels, result)
        except (ValueError, DRPGError) as error:
            self.unlearned += 1
            logger.warning("The answer %s is not learned from: %s", rollout.id, error)

    def _check_labels(self, labels: Any) -> None:
        if labels is not None and self.metric is None:
            raise ValueError(
                "labels were given but this learner has no metric; construct it with metric=, "
                "or call feedback(rollout_id, score=…)."
            )


@dataclass(frozen=True, slots=True)
class _Made:
    """A call that was made, with everything its record needs.

    ``failure`` is what revising the answer raised; the outcome is then the program's own.
    """

    call: ProgramCall
    guidance: Guidance
    outcome: Outcome
    trace: Sequence[Call] = ()
    usage: Usage = Usage()
    failure: Exception | None = None
