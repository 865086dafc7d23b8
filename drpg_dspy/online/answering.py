"""How a learner answers: under one snapshot of a policy, with everything put on record."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import dspy

from drpg_dspy.exceptions import DRPGError, ResumeMismatch, StorageError
from drpg_dspy.governance import Applier
from drpg_dspy.injection import record_trace, use_guidance
from drpg_dspy.memory import Memory
from drpg_dspy.online.calling import Made, Outcome, ProgramCall, run_async
from drpg_dspy.online.front import Learner
from drpg_dspy.online.identity import is_owner, program_claim
from drpg_dspy.online.revising import answered_by, revise, written_by
from drpg_dspy.optimizers.base import OnlineOptimizer, Revision
from drpg_dspy.tracking import Tracker, tag_current_trace, traced_as
from drpg_dspy.types import Feedback, Guidance, ProgramCard, Rollout
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
    _owned: bool
    _claimed: bool
    _counting: threading.Lock
    _last: contextvars.ContextVar[str | None]
    _last_anywhere: str

    _applier: Applier

    _notify: Callable[[], None]
    _follow: Callable[[], None]
    _refresh_state: Callable[[], None]
    _where: Callable[[], str]
    _judge: Callable[[Rollout, Any, Any], Feedback]
    learn_one: Callable[[Rollout | str, Feedback | Any], None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer as the program does; see :meth:`forward`."""
        return Learner(self)(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Answer asynchronously; see :meth:`forward`."""
        return await Learner(self).acall(*args, **kwargs)

    def forward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer as the program does; the prediction carries ``rollout_id``.

        Nothing of the learner's takes an answer down. When the policy writer fails, the call runs
        without a policy, with its examples where these can be had, and ``propose_failed`` is
        counted in its rollout; when the optimizer fails to revise the answer, it is given as the
        program gave it and ``revise_failed`` is counted; when the call cannot be recorded (a
        value without a plain form, a locked or deleted file, another program's memory, another
        embedder's vectors), the answer is given with ``rollout_id=None`` and counted in
        ``unrecorded``; when it cannot be learned from (the metric raised, returned no score or
        judged nothing), it is given and counted in ``unlearned``.

        Args:
            *args, **kwargs: The program's own arguments. What steers the call (``lm=``,
                ``config=``, ``demos=``) is passed on, is not recorded, and an LM given here also
                writes the policy where the optimizer has none of its own.
            labels: What the metric compares with (a mapping or ``dspy.Example``). The call is
                then judged and learned from at once. Never shown to the program.

        Raises:
            ValueError: There are labels, and the learner has no metric; or the optimizer chooses
                who answers, and every predictor has an LM of its own or the call brings one.
                Nothing was called.
        """
        self._check_labels(labels)
        call = ProgramCall(self.program, args, kwargs)
        return self._serve(call, labels)

    async def aforward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer asynchronously; see :meth:`forward`."""
        self._check_labels(labels)
        call = ProgramCall(self.program, args, kwargs)
        guidance = await asyncio.to_thread(self._propose_or_plain, call)
        with (
            answered_by(self.optimizer, guidance, self.program, call.lm),
            record_trace() as trace,
            meter() as usage,
        ):
            with use_guidance(guidance, program=self.program):
                made = Made(call, guidance, await run_async(call))
            if self.optimizer.revises:  # may call an LM; the event loop goes on meanwhile
                made = await asyncio.to_thread(self._revised, made)
        made = dataclasses.replace(made, trace=trace, usage=usage.total())
        rollout = await asyncio.to_thread(self._record_served, made)
        if labels is None:
            return self._deliver(rollout, made.outcome, None)
        # Judging and learning may call an LM; the event loop goes on meanwhile.
        result = await asyncio.to_thread(self._deliver, rollout, made.outcome, labels)
        self._last.set(rollout.id if rollout else "")  # the threads have contexts of their own
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
            EmbedderMismatch: The memory's vectors are another embedder's.
            ResumeMismatch: Another program filled the memory since this learner was opened.
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
                guidance = guidance or self._propose(call)
            except Exception as error:  # noqa: BLE001 - one example may fail, the stream goes on
                failure = error
        if guidance is None:
            guidance = Guidance(counts={"propose_failed": 1}, usage=usage.total())
            key = self.card.key(call.inputs)
            return call.rollout(Outcome(error=failure), guidance, key=key), failure
        with traced_as(call.rollout_id, self.card.name):
            made = self._run(call, guidance)
        if made.failure is not None:  # no figure is made of steps that silently were others
            made = dataclasses.replace(made, outcome=Outcome(error=made.failure))
        return self._rollout(made), made.outcome.error

    def _rerun(self, inputs: Mapping[str, Any], guidance: Guidance) -> Rollout:
        """Answer for a trial of the optimizer's; see :data:`~drpg_dspy.optimizers.base.Rerun`."""
        return self.attempt_one(inputs, guidance=guidance)[0]

    def record_one(self, rollout: Rollout) -> Rollout:
        """Write a rollout into memory and tell the tracker; see :meth:`attempt_one`."""
        claim = None if self._claimed else program_claim(self.card, self._where())
        rollout = self.memory.record(rollout, claim=claim)
        self._claimed = self._owned = True
        self._last.set(rollout.id)
        self._last_anywhere = rollout.id
        tag_current_trace(rollout, learner=self.card.name)
        self._tell_trace(rollout)
        self._notify()
        return rollout

    def propose(self, inputs: Mapping[str, Any]) -> Guidance:
        """Return the policy and examples that a call with these inputs would get now."""
        self._check_owner()
        self._refresh_state()
        self._follow()
        routes = self.card.route_names
        # Where people hold every route, no policy would be used: none is written.
        state = self._applier.state()
        if self._applier.holds(routes, state):
            # Under the same reading: a thaw in between must not leave the call without a policy.
            plain = self.optimizer.propose_plain(inputs, self.memory)
            return self._applier.apply(plain, routes, state)
        return self._applier.apply(self.optimizer.propose(inputs, self.memory), routes)

    @property
    def last_rollout_id(self) -> str:
        """Id of the rollout made last in this thread or task; else of the last one anywhere.

        For programs that return something other than a ``dspy.Prediction``. Empty when the last
        call here could not be recorded.
        """
        last = self._last.get()
        return self._last_anywhere if last is None else last

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

    def _propose(self, call: ProgramCall) -> Guidance:
        with written_by(self.optimizer, self.program, call.lm):
            return self.propose(call.inputs)

    def _propose_or_plain(self, call: ProgramCall) -> Guidance:
        with meter() as usage:
            try:
                return self._propose(call)
            except Exception as error:  # noqa: BLE001 - an answer without a policy beats no answer
                failure = error
        guidance = self._examples_alone(call, failure)
        logger.warning(
            "No policy for this call, it runs %s: %s: %s",
            "with its examples alone" if guidance.shots else "as the plain program",
            type(failure).__name__,
            failure,
        )
        return dataclasses.replace(guidance.counting({"propose_failed": 1}), usage=usage.total())

    def _examples_alone(self, call: ProgramCall, failure: Exception) -> Guidance:
        """Return what a call gets whose policy could not be written."""
        optimizer = self.optimizer
        costs_lm_calls = type(optimizer).propose_plain is OnlineOptimizer.propose_plain
        if isinstance(failure, (StorageError, ResumeMismatch)):
            return Guidance()  # it would fail in the same way, after as long a wait
        try:
            plain = Guidance()
            if not costs_lm_calls:
                plain = optimizer.propose_plain(call.inputs, self.memory)
            return self._applier.apply(plain, self.card.route_names)
        except Exception as error:  # noqa: BLE001 - an answer without examples beats no answer
            logger.warning("No examples either: %s: %s", type(error).__name__, error)
            return Guidance()

    def _check_owner(self) -> None:
        """Refuse a memory that another program has filled since this learner was opened."""
        if not self._owned:
            self._owned = is_owner(self.memory, self.card, self._where())

    def _tell_trace(self, rollout: Rollout) -> None:
        """Let the tracker see a rollout while the call's own trace is still open."""
        if self.tracker is None:
            return
        try:
            self.tracker.on_rollout(rollout)
        except Exception as error:  # noqa: BLE001 - a tracker is foreign code; the rollout stands
            logger.warning(
                "%s did not tag the trace of rollout %s: %s: %s",
                self.tracker.destination,
                rollout.id,
                type(error).__name__,
                error,
            )

    def _serve(self, call: ProgramCall, labels: Any) -> Any:
        made = self._run(call, self._propose_or_plain(call))
        return self._deliver(self._record_served(made), made.outcome, labels)

    def _run(self, call: ProgramCall, guidance: Guidance) -> Made:
        with (
            answered_by(self.optimizer, guidance, self.program, call.lm),
            record_trace() as trace,
            meter() as usage,
        ):
            with use_guidance(guidance, program=self.program):
                made = Made(call, guidance, call.run())
            made = self._revised(made)
        return dataclasses.replace(made, trace=trace, usage=usage.total())

    def _revised(self, made: Made) -> Made:
        """Let the optimizer revise an answer; one of another method only if it is a prediction."""
        call, outcome, guidance = made.call, made.outcome, made.guidance
        own = call.function is self.program or isinstance(outcome.result, dspy.Prediction)
        if not self.optimizer.revises or outcome.error is not None or not own:
            return made
        answer = outcome.result
        try:
            revision = revise(
                self.optimizer, self.program, call.inputs, answer, guidance, self.memory, call.lm
            )
            counted = guidance.counting(revision.counts)
        except Exception as error:  # noqa: BLE001 - the answer was paid for, it is given
            revision, counted = Revision(answer, failure=error), guidance
        failure = revision.failure
        if failure is not None:
            logger.warning(
                "The answer is given as far as it was revised, which failed: %s: %s",
                type(failure).__name__,
                failure,
            )
            counted = counted.counting({_REVISE_FAILED: 1})
        if revision.answer is not answer:
            outcome = Outcome(revision.answer, revised=True, first=answer)
        return dataclasses.replace(made, guidance=counted, outcome=outcome, failure=failure)

    def _rollout(self, made: Made) -> Rollout:
        key = self.card.key(made.call.inputs)
        return made.call.rollout(made.outcome, made.guidance, made.trace, made.usage, key)

    def _record_served(self, made: Made) -> Rollout | None:
        """Record a served call. An answer that cannot be recorded is given all the same."""
        try:
            return self.record_one(self._rollout(made))
        except Exception as error:  # noqa: BLE001 - the answer was paid for, it is given
            with self._counting:
                self.unrecorded += 1
            logger.warning(
                "An answer could not be recorded: it is given, but takes no feedback. %s",
                _said(error),
            )
            return None

    def _deliver(self, rollout: Rollout | None, outcome: Outcome, labels: Any) -> Any:
        self._last.set(rollout.id if rollout else "")
        if outcome.error is not None:
            raise outcome.error
        if isinstance(outcome.result, dspy.Prediction):
            given = rollout.id if rollout is not None else None
            if "rollout_id" in outcome.result and outcome.result.rollout_id not in (None, given):
                logger.warning(
                    "The program returned a rollout_id of its own, which is left as it is; this "
                    "call's is online.last_rollout_id."
                )
            else:
                outcome.result.rollout_id = given
        if rollout is not None and labels is not None:
            self._learn_served(rollout, labels, outcome.result)
        return outcome.result

    def _learn_served(self, rollout: Rollout, labels: Any, result: Any) -> None:
        """Learn from a served call's labels. The answer was paid for, it is given all the same."""
        try:
            verdict = self._judge(rollout, labels, result)
            self.learn_one(rollout, verdict)
            reason = "" if verdict.judged else verdict.text or "the metric judged nothing (NaN)"
        except Exception as error:  # noqa: BLE001 - the answer was paid for, it is given
            reason = _said(error)
        if reason:
            with self._counting:
                self.unlearned += 1
            logger.warning("The answer %s is not learned from: %s", rollout.id, reason)

    def _check_labels(self, labels: Any) -> None:
        if labels is not None and self.metric is None:
            raise ValueError(
                "labels were given but this learner has no metric; construct it with metric=, "
                "or call feedback(rollout_id, score=…)."
            )


def _said(error: Exception) -> str:
    """Return an error in words; one that is not ours brings its class."""
    return str(error) if isinstance(error, DRPGError) else f"{type(error).__name__}: {error}"
