"""The epoch-wise form of NLPG: construct, select, test, on items that have nothing in common.

Online, a correction is tried on the calls that happen to come. Where a set of judged items is at
hand, the same items can be asked twice instead, without and with it, and only the answers that
flip count. The optimizer is the same object with the same code; only who decides differs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.analysis.audit import Paired
from drpg_dspy.analysis.audit_epochs import Epoch, Tried, read_epochs
from drpg_dspy.analysis.summary import STATUS_KEY
from drpg_dspy.arguments import whole
from drpg_dspy.judging import check_metric
from drpg_dspy.memory import Memory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import NLPG
from drpg_dspy.streaming.attempts import Retry
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.streaming.epoch_pass import EpochPass, EpochProgress, Parts, Progress
from drpg_dspy.streaming.interrupts import Interrupts
from drpg_dspy.streaming.lock import lock_for
from drpg_dspy.streaming.schedule import checked_examples
from drpg_dspy.streaming.settings import settle
from drpg_dspy.streaming.spending import BudgetSpent, Spending
from drpg_dspy.streaming.splits import PARTS, Group, check_disjoint

__all__ = ["Epoch", "EpochProgress", "Paired", "Tried", "run_epoch", "run_epochs"]


def run_epochs(
    learner: OnlinePolicyOptimizer,
    construction: Sequence[dspy.Example],
    selection: Sequence[dspy.Example],
    test: Sequence[dspy.Example] = (),
    *,
    epochs: int = 1,
    metric: Callable[..., Any] | None = None,
    group: Group = "id",
    retries: int | Retry = 2,
    budget: Budget | None = None,
    progress: Progress | None = None,
    threads: int = 1,
) -> list[Epoch]:
    """Make a run of epochs over the same items, or go on with one where it stopped.

    Each epoch begins with the policies that the one before left; what its items were answered
    under these policies is not asked again. How the run stands is kept beside it
    (``RunFolder.status``).

    Args:
        learner, construction, selection, test, metric, group, retries, threads: As for
            :func:`run_epoch`.
        epochs: How many there are to be in all, at least 1; those made before count.
        budget: What the whole run may spend, earlier calls included. When it is spent the run
            ends as it stands.
        progress: Called after each answer.

    Returns:
        All epochs, those of earlier calls included; the last one is not finished where the
        budget did not reach.

    Raises:
        CompileFailed, ValueError: As :func:`run_epoch`.
        ResumeMismatch: The memory's epochs were begun under other settings or items.
        KeyboardInterrupt: Ctrl-C was pressed; everything up to then is kept.
    """
    whole("epochs", epochs, 1)
    whole("threads", threads, 1)
    parts = _checked(learner, metric, (construction, selection, test), group)
    judged_by = metric if metric is not None else learner.metric
    retry = retries if isinstance(retries, Retry) else Retry(retries)
    memory = learner.memory
    with _locked(learner), Interrupts():
        settle(memory, learner, [one for part in parts.values() for one in part], judged_by, 0)
        spending = Spending(memory, budget or Budget(), _seconds(memory))
        with _status(memory, learner.name, spending, threads):
            while sum(epoch.finished for epoch in read_epochs(memory)) < epochs:
                EpochPass(learner, judged_by, retry, spending, progress, threads).run(parts)
    return read_epochs(memory)


def run_epoch(
    learner: OnlinePolicyOptimizer,
    construction: Sequence[dspy.Example],
    selection: Sequence[dspy.Example],
    test: Sequence[dspy.Example] = (),
    *,
    metric: Callable[..., Any] | None = None,
    group: Group = "id",
    retries: int | Retry = 2,
    threads: int = 1,
) -> Epoch:
    """Write corrections from some items, choose among them on others, and measure on the rest.

    1. The selection and test items are answered under the policies in force (M_t).
    2. The construction items are answered under them and judged; failures are diagnosed, and
       each window's corrections are put up.
    3. Each correction is decided on the selection items, answered without it and with it: it is
       accepted when more of them were fixed than broken and the one-sided exact McNemar test is
       at most the gate's ``level``. What was accepted before stands in both answers. Items of
       another category have the same prompt and are not asked again.
    4. The test items are answered under the policies that the epoch leaves (M_{t+1}).

    Every answer is recorded in the learner's memory under a name made of its item and policies:
    an epoch that was interrupted goes on where it stopped, and the same question under the same
    policies is paid for once. Verdicts on selection and test items are kept and never learned
    from. The next epoch is another call.

    Args:
        learner: A learner whose optimizer is an :class:`~drpg_dspy.optimizers.NLPG`. Without a
            gate corrections are adopted as they come, and nothing is selected.
        construction, selection, test: Examples whose inputs are marked.
        metric: Judges; ``None`` = the learner's own.
        group: What items of two splits must not have in common: a field's name, or a function
            of an example (a conversation and its user, a claim). Where examples have no such
            field, their own ids or inputs.
        retries: Further attempts at an answer whose failure may pass, or a :class:`Retry`. After
            five such failures in a row the epoch stops; when it is continued, those items are
            asked again.
        threads: Items answered and judged side by side, at least 1. What is learned is learned
            in the order of the items, whichever is answered first; without a gate, where each
            correction is in force for the next item, construction items are answered in turn.

    Raises:
        CompileFailed: The program failed on the first five items, or the language model refuses
            every request or is out of reach. The epoch can be continued.
        ValueError: Splits overlap (the message names the groups), there is no metric, or the
            learner's optimizer is another one.
    """
    parts = _checked(learner, metric, (construction, selection, test), group)
    whole("threads", threads, 1)
    with _locked(learner):
        judged_by = metric if metric is not None else learner.metric
        retry = retries if isinstance(retries, Retry) else Retry(retries)
        spending = Spending(learner.memory, Budget())
        return EpochPass(learner, judged_by, retry, spending, threads=threads).run(parts)


def _checked(
    learner: OnlinePolicyOptimizer, metric: Any, given: Sequence[Sequence[Any]], group: Group
) -> Parts:
    if not isinstance(learner, OnlinePolicyOptimizer) or not isinstance(learner.optimizer, NLPG):
        raise ValueError(f"An epoch needs a learner whose optimizer is an NLPG, got {learner!r}.")
    metric = metric if metric is not None else learner.metric
    if metric is None:
        raise ValueError("An epoch needs a metric, here or in the learner; got None.")
    check_metric(metric)
    parts = {
        name: checked_examples(examples) if examples or name != PARTS[2] else []
        for name, examples in zip(PARTS, given, strict=True)
    }
    check_disjoint(parts, group)
    return parts


def _locked(learner: OnlinePolicyOptimizer) -> contextlib.AbstractContextManager[None]:
    path = getattr(learner.memory, "path", None)
    return lock_for(Path(path)) if path else contextlib.nullcontext()


def _seconds(memory: Memory) -> float:
    return float(json.loads(memory.get_meta(STATUS_KEY) or "{}").get("seconds", 0.0))


@contextlib.contextmanager
def _status(memory: Memory, name: str, spending: Spending, threads: int) -> Iterator[None]:
    """Keep how the run stands, and for how long it went; a spent budget ends the block."""

    def note(state: str, reason: str = "") -> None:
        kept = {
            "state": state,
            "reason": reason,
            "seconds": spending.seconds,
            "threads": threads,
        }
        memory.set_meta(STATUS_KEY, json.dumps(kept))

    note("running", "still running, or killed")
    try:
        yield
    except BudgetSpent as spent:
        note("stopped", str(spent))
    except KeyboardInterrupt:
        note("interrupted", "interrupted by Ctrl-C")
        again = f"drpg resume {name}" if name else "call run_epochs again"
        raise KeyboardInterrupt(f"Interrupted; to go on: {again}") from None
    except BaseException as error:
        note("failed", f"{type(error).__name__}: {error}")
        raise
    else:
        note("finished")
