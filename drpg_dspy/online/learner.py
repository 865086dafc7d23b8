"""A program, an optimizer and a memory: a learner.

::

    online = OnlinePolicyOptimizer(program, DRPG(k=16), metric=metric, name="sql-assistant")
    pred = online(db_schema=schema, question=q)
    online.feedback(pred.rollout_id, score=0.0, text="joined orders twice")
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from drpg_dspy.exceptions import StorageError
from drpg_dspy.injection import attach, record_trace, use_guidance
from drpg_dspy.judging import judge, to_feedback
from drpg_dspy.memory import Memory
from drpg_dspy.online.baking import compile_online
from drpg_dspy.online.calling import Outcome, ProgramCall, describe, run_async
from drpg_dspy.online.defaults import check_kinds, default_memory, flat_params
from drpg_dspy.online.keeping import learner_folder, read_learner, write_learner
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.retrieval import default_key
from drpg_dspy.tracking import BackgroundWriter, RunInfo, Tracker
from drpg_dspy.types import Experience, Feedback, Guidance, Rollout
from drpg_dspy.usage import meter

__all__ = ["OnlinePolicyOptimizer"]

logger = logging.getLogger(__name__)

_MAX_COMMIT_TRIES = 8


class OnlinePolicyOptimizer(dspy.Module, Teleprompter):
    """Wrap a DSPy program so that it learns from feedback while it runs.

    The wrapper is called as the program is, sync or async, streamed, from many threads, in
    ``dspy.Evaluate`` or ``dspy.Parallel``; any other method of the program that is reached
    through it runs under the learned policy as well. The program is attached in place
    (:func:`drpg_dspy.injection.attach`).

    Args:
        program: The program to improve. It may carry a text ``task_description`` for policy
            writers; by default they are shown its signatures' instructions.
        optimizer: The method.
        memory: Where experiences are kept. By default a SQLite file named after the learner
            in ``.drpg/``, or a temporary one when the learner has no name.
        tracker: Who is told, e.g. ``MLflowTracker("sql-assistant")``.
        metric: Judges by itself whenever labels are given.
        name: The learner's name; by default the tracker's. Two programs must not share one.
        key: Gives the text to embed for a call's inputs; by default the question-like ones
            without the long context (:func:`drpg_dspy.retrieval.default_key`).
        threshold: Scores from here on count as correct, in (0, 1]. Only for the default memory;
            a memory that is passed in has its own.

    Raises:
        ValueError: The program has no predictors, or an argument is of the wrong kind.
    """

    def __init__(
        self,
        program: dspy.Module,
        optimizer: OnlineOptimizer,
        *,
        memory: Memory | None = None,
        tracker: Tracker | None = None,
        metric: Callable[..., Any] | None = None,
        name: str | None = None,
        key: Callable[[Mapping[str, Any]], str] | None = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__()
        check_kinds(program, optimizer, metric)
        if isinstance(program, OnlinePolicyOptimizer):
            raise ValueError("This program is wrapped already; pass its .program to wrap it anew.")
        self.program = program
        self.optimizer = optimizer
        self.tracker = tracker
        self.metric = metric
        self.name = name or (tracker.name if tracker is not None else "")
        self.key = key
        self.threshold = threshold
        self.card = describe(
            program, attach(program), self.name or type(program).__name__, key or default_key
        )
        optimizer.bind(self.card)
        self.memory = memory if memory is not None else default_memory(self, self.name, threshold)
        self._learning = threading.RLock()
        self._state_version = -1
        self._writer: BackgroundWriter | None = None
        self._last: contextvars.ContextVar[str] = contextvars.ContextVar("last_rollout", default="")
        self._last_anywhere = ""
        self.run_params: dict[str, Any] = {}

    # -- answering ------------------------------------------------------------------------

    def forward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer as the program does; the prediction carries ``rollout_id``.

        A policy writer that fails does not take the answer down: the call runs without a policy,
        and ``propose_failed`` is counted in its rollout.

        Args:
            *args, **kwargs: The program's own arguments.
            labels: What the metric compares with (a mapping or ``dspy.Example``). The call is
                then judged and learned from at once. Never shown to the program.
        """
        call = ProgramCall(self.program, args, kwargs)
        rollout, outcome = self._answer(call, self._propose_or_plain(call.inputs))
        return self._deliver(rollout, outcome, labels)

    async def aforward(self, *args: Any, labels: Any = None, **kwargs: Any) -> Any:
        """Answer asynchronously; see :meth:`forward`."""
        call = ProgramCall(self.program, args, kwargs)
        guidance = await asyncio.to_thread(self._propose_or_plain, call.inputs)
        with use_guidance(guidance, program=self.program), record_trace() as trace, meter() as usage:
            outcome = await run_async(call)
        key = self.card.key(call.inputs)
        rollout = call.rollout(outcome, guidance, trace, usage.total(), key)
        rollout = await asyncio.to_thread(self.record_one, rollout)
        self._last.set(rollout.id)  # the thread above had a context of its own
        # Judging and learning may call an LM; the event loop goes on meanwhile.
        return await asyncio.to_thread(self._deliver, rollout, outcome, labels)

    def predict_one(
        self, inputs: Mapping[str, Any], *, rollout_id: str | None = None, step: int = 0
    ) -> Rollout:
        """Answer one input and return the whole record instead of the prediction.

        Failures do not raise: the rollout says what happened (``rollout.error``), also when it
        was the policy writer that failed.

        Args:
            inputs: The program's arguments, without labels.
            rollout_id: A name for it; by default a new one.
            step: Its place in a stream, from 1; 0 = the number of the call.

        Raises:
            StorageError: An input or output cannot be recorded.
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
        call = ProgramCall(self.program, (), dict(inputs), rollout_id or "", step)
        failure = None
        with meter() as usage:
            try:
                guidance = guidance or self.propose(call.inputs)
            except Exception as error:  # noqa: BLE001 - one example may fail, the stream goes on
                failure = error
        if guidance is None:
            guidance = Guidance(counts={"propose_failed": 1}, usage=usage.total())
            key = self.card.key(call.inputs)
            return call.rollout(Outcome(error=failure), guidance, key=key), failure
        rollout, outcome = self._run(call, guidance)
        return rollout, outcome.error

    def record_one(self, rollout: Rollout) -> Rollout:
        """Write a rollout into memory and tell the tracker; see :meth:`attempt_one`."""
        rollout = self.memory.record(rollout)
        self._last.set(rollout.id)
        self._last_anywhere = rollout.id
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
            rollout, outcome = self._answer(call, self._propose_or_plain(call.inputs))
            return self._deliver(rollout, outcome, None)

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

    def _answer(self, call: ProgramCall, guidance: Guidance) -> tuple[Rollout, Outcome]:
        rollout, outcome = self._run(call, guidance)
        return self.record_one(rollout), outcome

    def _run(self, call: ProgramCall, guidance: Guidance) -> tuple[Rollout, Outcome]:
        with use_guidance(guidance, program=self.program), record_trace() as trace, meter() as usage:
            outcome = call.run()
        key = self.card.key(call.inputs)
        return call.rollout(outcome, guidance, trace, usage.total(), key), outcome

    def _deliver(self, rollout: Rollout, outcome: Outcome, labels: Any) -> Any:
        self._last.set(rollout.id)  # again: recording may have happened in another thread
        if outcome.error is not None:
            raise outcome.error
        if isinstance(outcome.result, dspy.Prediction):
            outcome.result.rollout_id = rollout.id
        if labels is not None:
            self.learn_one(rollout, self._judge(rollout, labels, outcome.result))
        return outcome.result

    # -- learning -------------------------------------------------------------------------

    def feedback(
        self,
        rollout_id: str,
        score: Any = None,
        text: str = "",
        *,
        labels: Any = None,
        id: str = "",
        author: str = "person",
    ) -> None:
        """Say how good an answer was, now or next week, from any thread or process.

        The last word stands: feedback for the same rollout again is a revision.

        Args:
            rollout_id: The prediction's ``rollout_id``.
            score: A bool or a number in [0, 1]; NaN = not judged.
            text: What was wrong or right, in words.
            labels: Instead of a score: what the learner's metric compares with.
            id: Names this piece of feedback; sent again with the same content it changes nothing.
            author: Who says so.

        Raises:
            UnknownRollout: No such rollout in this memory.
            ValueError: Neither or both of score and labels, or a score out of range.
        """
        if (score is None) == (labels is None):
            raise ValueError("Give either score= or labels=, and not both.")
        if labels is not None:
            rollout = self.memory.rollout(rollout_id)
            verdict = self._judge(rollout, labels, rollout.answer)
        else:
            verdict = Feedback(score, text=text, id=id, author=author)
        self.learn_one(rollout_id, verdict)

    def retract(self, rollout_id: str) -> None:
        """Take back the feedback of a rollout; what was learned from it leaves the memory.

        Raises:
            UnknownRollout: No such rollout in this memory.
        """
        with self._learning:
            self.memory.retract(rollout_id)
        self._notify()

    def learn_one(self, rollout: Rollout | str, feedback: Feedback | Any) -> None:
        """Learn from one verdict. Returns nothing; the learner's state changes.

        Feedback that does not teach (NaN, uninformative) and feedback on a failed rollout is
        recorded and counted, and nothing is learned from it. When the optimizer fails on it
        (a dead policy LM), the verdict is kept all the same and the failure stands beside it.

        Args:
            rollout: The rollout or its id.
            feedback: A :class:`~drpg_dspy.types.Feedback`, or anything that a metric returns.
        """
        verdict = to_feedback(feedback)
        with self._learning:
            record = self.memory.rollout(rollout if isinstance(rollout, str) else rollout.id)
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
        stateful = _is_stateful(self.optimizer)
        state = None
        if verdict.teaches and not rollout.failed:
            experience = Experience(rollout, verdict, self.memory.is_correct(verdict))
            with meter() as usage:
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
                    verdict = dataclasses.replace(verdict, error=f"{type(error).__name__}: {error}")
            verdict = dataclasses.replace(verdict, usage=verdict.usage + usage.total())
            state = self.optimizer.state_dict() if stateful else None
        written = self.memory.commit(
            rollout.id,
            verdict,
            state=state,
            if_state_version=self._state_version if state is not None else None,
        )
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
        example = dspy.Example(**{**rollout.inputs, **given}).with_inputs(*rollout.inputs)
        return judge(self.metric, example, prediction)

    def _refresh_state(self) -> None:
        if not _is_stateful(self.optimizer):
            return
        with self._learning:
            state, version = self.memory.state()
            if version != self._state_version:
                if version:
                    self.optimizer.load_state_dict(state)
                self._state_version = version

    # -- as a teleprompter ------------------------------------------------------------------

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: list[Any],
        valset: list[Any] | None = None,
        teacher: Any = None,
        **kwargs: Any,
    ) -> dspy.Module:
        """Make one prequential pass and return a plain program with what was learned.

        Each example is answered, judged by the metric and learned from, in order, by a learner
        of its own with a temporary memory. The result needs nothing of this package to save,
        load or run: its policy stands in the instructions and its examples in the demos.

        Args:
            student: The program; it is copied, never changed.
            trainset: Examples with inputs set and labels for the metric.
            valset: Where given, the learned program is returned only if it scores higher on it
                than the student; else a copy of the student.
            teacher: Not used by online methods; must be ``None``.

        Raises:
            ValueError: No metric, no examples, or a teacher.
        """
        if self.metric is None:
            raise ValueError("compile needs a metric: OnlinePolicyOptimizer(…, metric=…).")
        if not trainset:
            raise ValueError("compile needs at least one training example, got none.")
        if teacher is not None or kwargs:
            raise ValueError(
                f"compile takes no teacher and no {sorted(kwargs) or 'more'} arguments."
            )
        return compile_online(self, student, trainset, valset)

    # -- keeping ----------------------------------------------------------------------------

    def save(self, path: str | Path, **kwargs: Any) -> None:
        """Write the whole learner into a folder: program, optimizer state and memory.

        For the program alone use ``online.program.save(file)``.

        Args:
            path: A folder; created. An existing learner in it is replaced.
        """
        write_learner(learner_folder(path, kwargs), self.program, self.memory)

    def load(self, path: str | Path, **kwargs: Any) -> None:
        """Continue from what :meth:`save` wrote, for a learner constructed the same way.

        Raises:
            FileNotFoundError: The folder holds no learner.
        """
        with self._learning:
            read_learner(learner_folder(path, kwargs), self.program, self.memory)
            attach(self.program)
            self._state_version = -1

    def deepcopy(self) -> OnlinePolicyOptimizer:
        """Return a learner with a copy of the program, sharing optimizer and memory."""
        return OnlinePolicyOptimizer(
            self.program.deepcopy(), self.optimizer, memory=self.memory, metric=self.metric,
            name=self.name, key=self.key, threshold=self.threshold,
        )  # fmt: skip

    # -- being watched ------------------------------------------------------------------------

    def _notify(self) -> None:
        if self.tracker is None:
            return
        with self._learning:
            if self._writer is None:
                params = {**flat_params(self.optimizer), **self.run_params}
                run = RunInfo(self.name or self.card.name, params, tuple(self.card.route_names))
                self._writer = BackgroundWriter(self.memory, self.tracker, run)
        self._writer.notify()

    def close(self, status: str = "finished", timeout: float = 60.0) -> None:
        """Send what the tracker has not seen yet and close the memory's files."""
        if self._writer is not None:
            self._writer.close(timeout=timeout, status=status)
            self._writer = None
        self.memory.close()

    def __enter__(self) -> OnlinePolicyOptimizer:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close("finished" if error is None else f"failed: {type(error).__name__}")


def _same(new: Feedback, standing: Feedback | None) -> bool:
    """Tell whether feedback says what stands already; sent twice, it counts once."""
    if standing is None:
        return False
    bare = dataclasses.replace(standing, usage=new.usage, error=new.error)
    # repr, because NaN differs from itself.
    return repr(new) == repr(bare)


def _is_stateful(optimizer: OnlineOptimizer) -> bool:
    return type(optimizer).state_dict is not OnlineOptimizer.state_dict
