"""A program, an optimizer and a memory: a learner.

::

    online = OnlinePolicyOptimizer(program, DRPG(k=16), metric=metric, name="sql-assistant")
    pred = online(db_schema=schema, question=q)
    online.feedback(pred.rollout_id, score=0.0, text="joined orders twice")
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from drpg_dspy.governance import Applier, Governance, RegistryFollower
from drpg_dspy.injection import attach, detach
from drpg_dspy.memory import Memory
from drpg_dspy.online.answering import Answering
from drpg_dspy.online.baking import check_examples, compile_online
from drpg_dspy.online.calling import describe
from drpg_dspy.online.defaults import check_kinds, check_names, default_memory, flat_params
from drpg_dspy.online.identity import check_program
from drpg_dspy.online.keeping import (
    hold,
    learner_folder,
    let_go,
    read_learner,
    write_learner,
)
from drpg_dspy.online.learning import Learning
from drpg_dspy.optimizers.base import OnlineOptimizer
from drpg_dspy.retrieval import default_key
from drpg_dspy.tracking import BackgroundWriter, RunInfo, Tracker

__all__ = ["OnlinePolicyOptimizer"]


class OnlinePolicyOptimizer(Answering, Learning, dspy.Module, Teleprompter):
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

    Attributes:
        governance: What people decide on the policies; see
            :class:`~drpg_dspy.governance.governing.Governance`.
        unrecorded: Answers of this process that were given but could not be recorded.
        unlearned: Verdicts of this process from which nothing was learned: of answers that were
            given with labels, because the metric raised, returned no score or judged nothing
            (NaN), or the memory could not be written; of any, because the optimizer failed (a
            dead policy LM) or the program had given no answer.

    Raises:
        ResumeMismatch: The memory was filled by another program.
        ValueError: The program has no predictors, an argument is of the wrong kind, the
            program's own call uses a name that the learner needs (``labels``, ``rollout_id``),
            one of its fields is called ``policy`` (the message says what to do), or the
            optimizer keeps state of another memory, or the tracker tells of another one.
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
        check_kinds(
            program, optimizer, memory=memory, metric=metric, tracker=tracker, name=name, key=key
        )
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
        check_names(program, self.card)
        optimizer.bind(self.card)
        self.memory = memory if memory is not None else default_memory(self.name, threshold)
        try:
            check_program(self.memory, self.card, self._where())
            optimizer.learn_into(self.memory.place)
            optimizer.bind_memory(self.memory)
            optimizer.equip(self._rerun)
            hold(self.memory, self)
        except BaseException:
            if memory is None:
                self.memory.close()
            raise
        self._learning = threading.RLock()
        self._state_version = -1
        self._writer: BackgroundWriter | None = None
        self._follower: RegistryFollower | None = None
        self.governance = Governance(self.memory, self.card.route_names)
        self._applier = Applier(self.memory)
        self._closed = False
        self._last: contextvars.ContextVar[str | None] = contextvars.ContextVar(
            "last_rollout", default=None
        )
        self._last_anywhere = ""
        self.unrecorded = 0
        self.unlearned = 0
        self._counting = threading.Lock()
        self._owned = self._claimed = False
        self.run_params: dict[str, Any] = {}

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
            CompileFailed: The program answered none of the examples, or none could be judged.
            ValueError: No metric, no student, no examples with inputs set, or a teacher.
        """
        if self.metric is None:
            raise ValueError("compile needs a metric: OnlinePolicyOptimizer(…, metric=…).")
        if not isinstance(student, dspy.Module):
            raise ValueError(f"student must be a dspy.Module, got {student!r}.")
        if teacher is not None or kwargs:
            raise ValueError(
                f"compile takes no teacher and no {sorted(kwargs) or 'more'} arguments."
            )
        examples = check_examples("trainset", trainset)
        if not examples:
            raise ValueError("compile needs at least one training example, got none.")
        held_out = None if valset is None else check_examples("valset", valset)
        student = student.program if isinstance(student, OnlinePolicyOptimizer) else student
        return compile_online(self, student, examples, held_out)

    # -- keeping ----------------------------------------------------------------------------

    def save(self, path: str | Path, **kwargs: Any) -> None:
        """Write the whole learner into a folder: program, optimizer state and memory.

        For the program alone use ``online.program.save(file)``.

        Args:
            path: A folder; created. An existing learner in it is replaced.
        """
        write_learner(learner_folder(path, kwargs), self.program, self.memory)

    def load(self, path: str | Path, *, overwrite: bool = False, **kwargs: Any) -> None:
        """Continue from what :meth:`save` wrote, for a learner constructed the same way.

        Args:
            path: The folder.
            overwrite: Replace what this learner's memory holds already.

        Raises:
            FileNotFoundError: The folder holds no learner.
            ResumeMismatch: It holds a learner of another program; nothing was changed.
            StorageError: One of its files is damaged; nothing was changed.
            ValueError: The memory is not empty, and ``overwrite`` was not given.
        """
        folder = learner_folder(path, kwargs)
        with self._learning:
            if not overwrite and self.memory.events(limit=1):
                raise ValueError(
                    f"This learner's memory is not empty and {str(path)!r} would replace it, for "
                    "every process that shares it; pass overwrite=True, or load into a new name."
                )
            read_learner(folder, self.program, self.memory, self.card)
            attach(self.program)
            self._state_version = -1

    def deepcopy(self) -> OnlinePolicyOptimizer:
        """Return a learner with a copy of the program, sharing optimizer and memory.

        The memory is closed when the last of them is closed or forgotten.
        """
        return self._twin(self.program.deepcopy())

    def _twin(self, program: dspy.Module) -> OnlinePolicyOptimizer:
        twin = OnlinePolicyOptimizer(
            program, self.optimizer, memory=self.memory, metric=self.metric, key=self.key,
            threshold=self.threshold,
        )  # fmt: skip
        twin.name = self.name
        twin._learning = self._learning  # the optimizer's state is one
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> OnlinePolicyOptimizer:
        return self.deepcopy()

    def __copy__(self) -> OnlinePolicyOptimizer:
        return self._twin(self.program)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "A learner is not pickled: it holds an open memory, locks and a thread. Use "
            "online.save(folder), and in the other process load(folder) of a learner constructed "
            "the same way; or construct it there with the same name= or memory file, which both "
            "then share. The program alone: online.program.save(file)."
        )

    def _where(self) -> str:
        return f"The memory of {self.name!r}" if self.name else "This memory"

    # -- being watched ------------------------------------------------------------------------

    @property
    def registry_failures(self) -> int:
        """Looks into the tracker's registry that failed in this process; no call suffered."""
        return 0 if self._follower is None else self._follower.failures

    def _follow(self) -> None:
        """Begin to look for what people change where the tracker writes to."""
        every = self.tracker.follow_every if self.tracker is not None else None
        if self.tracker is None or every is None or self._follower is not None or self._closed:
            return
        reader = self.tracker.registry(self.name or self.card.name, self.card.route_names)
        with self._counting:  # not the lock of learning, which may take as long as an LM
            if reader is not None and self._follower is None:
                self._follower = RegistryFollower(self.governance, reader.read, every)
                self._follower.start()

    def _notify(self) -> None:
        if self.tracker is None:
            return
        with self._learning:
            if self._writer is None:
                params = {**flat_params(self.optimizer), **self.run_params}
                run = RunInfo(self.name or self.card.name, params, tuple(self.card.route_names))
                self._writer = BackgroundWriter(self.memory, self.tracker, run)
        self._writer.notify()

    def tell_tracker(self, timeout: float = 60.0) -> bool:
        """Wait until the tracker knows what stands in the memory now; learning goes on.

        Calls never wait for a tracker, so it may be some seconds behind. Somebody who wants to
        look at it now, in a notebook say, need not close the learner for that.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether it knows everything; what it does not is sent later, as ever. True without a
            tracker.

        Raises:
            ValueError: The learner is closed: :meth:`close` has told the tracker.
        """
        if self._closed:
            raise ValueError("This learner is closed; closing it has told the tracker.")
        self._notify()
        return self._writer is None or self._writer.catch_up(timeout)

    def close(self, status: str = "finished", timeout: float = 60.0) -> None:
        """Send what the tracker has not seen yet and close the memory's files.

        A tracker that cannot be reached is not waited for: a warning says what it was not told,
        and a learner that is opened with it later, on the same memory, sends that. A memory that
        other learners of this process use as well (a copy of this one) stays open for them.

        Args:
            status: ``"finished"``, ``"stopped: …"`` or ``"failed: …"``.
            timeout: Seconds to wait for the tracker at most.
        """
        if self.tracker is not None and not self._closed and self.memory.events(limit=1):
            self._notify()  # also what an earlier process could not send
        self._closed = True
        if self._follower is not None:
            self._follower.close()
        if self._writer is not None:
            self._writer.close(timeout=timeout, status=status)
            self._writer = None
        let_go(self.memory, self)

    def unwrap(self) -> dspy.Module:
        """Close the learner and give its program back as it was before it was wrapped.

        Its predictors are of their own classes again, its prompts and its saved state those of
        the plain program, byte for byte. What was learned stays in the memory; :meth:`compile`
        makes a plain program that keeps it.
        """
        self.close()
        detach(self.program)
        return self.program

    def __enter__(self) -> OnlinePolicyOptimizer:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close("finished" if error is None else f"failed: {type(error).__name__}")
