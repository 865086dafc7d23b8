"""One column under one seed: it learns within its budget, then answers the held-out questions."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.analysis.summary import summarise
from drpg_dspy.comparing.columns import Column
from drpg_dspy.comparing.experiment import tracker_for
from drpg_dspy.comparing.heldout import answer_held_out
from drpg_dspy.comparing.results import ColumnResult
from drpg_dspy.comparing.task import Task
from drpg_dspy.comparing.teleprompters import OfflineTask
from drpg_dspy.exceptions import BudgetSpent, CompileFailed
from drpg_dspy.injection import routes
from drpg_dspy.memory import Memory, SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import ZeroShot
from drpg_dspy.streaming import run_stream
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.tracking import Tracker
from drpg_dspy.types import Usage
from drpg_dspy.usage import Purse, paid_from

__all__ = ["run_column", "write_whole"]

_PROGRAM, _OFFLINE, _STREAM, _MEMORY = (
    "program.json",
    "offline.json",
    "stream.json",
    "memory.sqlite",
)
_ANSWERS = "heldout.jsonl"


@dataclass(frozen=True, slots=True)
class _Part:
    """What one half of learning took and reached; kept, so that it is not paid twice."""

    usage: Usage = Usage()
    seconds: float = 0.0
    stopped: str = ""
    reached: str = ""
    prequential: float = math.nan
    steps: int = 0


def run_column(task: Task, column: Column, seed: int, folder: Path) -> ColumnResult:
    """Let a column learn and be measured, or go on with it where its folder says it stopped.

    The offline half of learning begins anew when it was interrupted; a stream goes on after its
    last question, and so does the held-out part.

    Args:
        task: What all columns share.
        column: Which.
        seed: Under which.
        folder: The column's own.

    Raises:
        CompileFailed: No language model could be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with dspy.context(lm=task.lm):
        program, offline = _learn_offline(task, column, seed, folder)
        streamed, run_id = _Part(), ""
        if column.online is not None:
            streamed, run_id = _learn_online(task, column, seed, folder, program, offline)
        with _learner(task, column, folder, program) as learner:
            begun = time.monotonic()
            answers, testing, before = answer_held_out(
                learner, task.testset, task.metric, folder / _ANSWERS, task.say
            )
            seconds = before + time.monotonic() - begun
            kept = _kept(learner)
    said = [part for part in (offline.reached, streamed.reached) if part]
    return ColumnResult(
        name=column.name,
        seed=seed,
        answers=tuple(answers),
        learning=offline.usage + streamed.usage,
        testing=testing,
        learning_seconds=offline.seconds + streamed.seconds,
        testing_seconds=seconds,
        stopped="; ".join(part for part in (offline.stopped, streamed.stopped) if part),
        reached=", then ".join(said),
        prequential=streamed.prequential,
        steps=streamed.steps,
        kept=kept,
        settings=column.settings,
        run_id=run_id,
    )


def _learn_offline(
    task: Task, column: Column, seed: int, folder: Path
) -> tuple[dspy.Module, _Part]:
    """Return the compiled program; where an online method follows, for half of the budget."""
    program = task.program.deepcopy()
    if column.offline is None:
        return program, _Part()
    if (part := _read(folder / _OFFLINE)) is not None:
        program.load(folder / _PROGRAM)
        return program, part
    budget = _half(task.budget) if column.seeded else task.budget
    given = OfflineTask(
        metric=task.metric,
        lm=task.lm,
        prompt_lm=task.prompt_lm,
        budget=budget,
        examples=len(task.trainset),
        calls=task.calls,
        threads=task.threads,
        seed=seed,
        threshold=task.threshold,
    )
    optimizer = column.offline(given)
    task.say(f"{column.name}: learning from {len(task.trainset)} examples")
    learned = optimizer.learn(program, task.examples(seed), purse=Purse(budget.exceeded))
    learned.program.save(folder / _PROGRAM)
    reached = str(learned.tried) if learned.tried.program is not None or learned.stopped else ""
    part = _Part(learned.usage, learned.seconds, learned.stopped, reached)
    _write(folder / _OFFLINE, part)
    return learned.program, part


def _learn_online(
    task: Task, column: Column, seed: int, folder: Path, program: dspy.Module, offline: _Part
) -> tuple[_Part, str]:
    """Let the method meet the training examples as a stream, on what is left of the budget."""
    if (part := _read(folder / _STREAM)) is not None:
        return part, json.loads((folder / _STREAM).read_text()).get("run_id", "")
    tracker = tracker_for(task.experiment, task.tracking_uri, f"{column.name}-{seed}")
    examples = task.examples(seed)
    task.say(f"{column.name}: meeting {len(examples)} examples as a stream")
    with _learner(task, column, folder, program, tracker) as learner:
        learner.run_params = {"comparison.column": column.name, "comparison.seed": seed}
        before = summarise(learner.memory).usage
        purse = Purse(task.budget.exceeded, offline.usage + before)
        try:
            with paid_from(purse):
                summary = run_stream(learner, examples, task.metric)
        except BudgetSpent:
            summary = summarise(learner.memory)
        if summary.stopped and not purse.why:
            raise CompileFailed(f"{column.name} could not go on: {summary.stopped}")
    reached = f"{summary.n} of {len(examples)} questions met" if purse.why else ""
    part = _Part(
        # What a call cost that was cut off with its step stands in no memory.
        usage=_minus(purse.total(), offline.usage),
        seconds=summary.seconds,
        stopped=purse.why,
        reached=reached,
        prequential=summary.score,
        steps=summary.n,
    )
    run_id = str(getattr(tracker, "run_id", ""))
    _write(folder / _STREAM, part, run_id=run_id)
    return part, run_id


@contextmanager
def _learner(
    task: Task,
    column: Column,
    folder: Path,
    program: dspy.Module,
    tracker: Tracker | None = None,
) -> Iterator[OnlinePolicyOptimizer]:
    """Open the column's learner; of a frozen column it is the plain program's."""
    optimizer = column.online() if column.online is not None else ZeroShot()
    memory = SQLiteMemory(folder / _MEMORY, task.embedder, threshold=task.threshold)
    learner = OnlinePolicyOptimizer(
        program,
        optimizer,
        memory=memory,
        tracker=tracker,
        metric=task.metric,
        name=column.name.replace("+", "-"),
        key=task.key,
    )
    status = "failed: the comparison was interrupted"
    try:
        yield learner
        status = "finished"
    finally:
        learner.close(status)


def _kept(learner: OnlinePolicyOptimizer) -> str:
    """Say in words what the held-out questions were answered with."""
    parts = []
    for name, predictor in routes(learner.program).items():
        demos = len(predictor.demos)
        parts.append(f"{name}: {demos} demos; instructions:\n{predictor.signature.instructions}")
    if n := learner.memory.count():
        parts.append(f"memory: {n} experiences, {learner.memory.count('correct')} of them right")
    parts.extend(_policies(learner.memory))
    return "\n\n".join(parts)


def _policies(memory: Memory) -> list[str]:
    newest = {policy.route: policy for policy in memory.policies()}
    return [
        f"policy of {route}, version {policy.version}, the last that was written:\n{policy.text}"
        for route, policy in newest.items()
        if policy.rules
    ]


def _half(budget: Budget) -> Budget:
    calls, tokens = (
        None if limit is None else limit // 2 for limit in (budget.lm_calls, budget.tokens)
    )
    dollars = None if budget.dollars is None else budget.dollars / 2
    return replace(budget, lm_calls=calls, tokens=tokens, dollars=dollars)


def _minus(total: Usage, part: Usage) -> Usage:
    return Usage(
        total.calls - part.calls,
        total.prompt_tokens - part.prompt_tokens,
        total.completion_tokens - part.completion_tokens,
        total.cached_tokens - part.cached_tokens,
        total.cost - part.cost,
        total.seconds - part.seconds,
    )


def _read(path: Path) -> _Part | None:
    if not path.exists():
        return None
    plain = json.loads(path.read_text())
    plain.pop("run_id", None)
    return _Part(**{**plain, "usage": Usage(**plain["usage"])})


def _write(path: Path, part: _Part, **more: Any) -> None:
    plain = {name: getattr(part, name) for name in _Part.__dataclass_fields__}
    usage = {name: getattr(part.usage, name) for name in Usage.__dataclass_fields__}
    write_whole(path, json.dumps({**plain, "usage": usage, **more}, indent=1))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a killed process leaves the old one or the new one."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
