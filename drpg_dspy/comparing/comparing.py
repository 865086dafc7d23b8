"""Comparing optimizers at equal budget, on a program and metric of the user's own."""

from __future__ import annotations

import json
import logging
import platform
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.arguments import checked_path, number, whole
from drpg_dspy.comparing.columns import Column, columns_from
from drpg_dspy.comparing.comparison import Comparison
from drpg_dspy.comparing.experiment import log_column, log_comparison
from drpg_dspy.comparing.results import ColumnResult
from drpg_dspy.comparing.running import run_column, write_whole
from drpg_dspy.comparing.task import Task
from drpg_dspy.exceptions import ResumeMismatch
from drpg_dspy.judging import check_metric
from drpg_dspy.memory import Embedder
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.plain import digest, dumps, loads
from drpg_dspy.retrieval import default_embedder
from drpg_dspy.streaming.budget import Budget
from drpg_dspy.streaming.lock import lock_for
from drpg_dspy.streaming.schedule import checked_examples
from drpg_dspy.streaming.settings import check_settings

__all__ = ["DEFAULT_OPTIMIZERS", "compare"]

_log = logging.getLogger(__name__)

DEFAULT_OPTIMIZERS = ("zero_shot", "self_stream_icl", "drpg", "miprov2", "gepa")
"""The columns of a comparison unless others are named."""

_SETTINGS, _RESULT = "compare.json", "result.json"
_LONGEST_REASON = 500
_PACKAGES = ("drpg-dspy", "dspy", "gepa", "optuna")


def compare(
    program: dspy.Module,
    trainset: Sequence[dspy.Example],
    testset: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    budget: Budget | int,
    optimizers: Iterable[Any] | Mapping[str, Any] = DEFAULT_OPTIMIZERS,
    lm: dspy.BaseLM | None = None,
    prompt_lm: dspy.BaseLM | None = None,
    seeds: int = 1,
    folder: str | Path | None = None,
    experiment: str = "",
    tracking_uri: str | None = None,
    k: int | None = None,
    key: Callable[[Mapping[str, Any]], str] | None = None,
    threshold: float = 0.5,
    embedder: Embedder | None = None,
    threads: int = 1,
    title: str = "Comparison",
    say: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare optimizers on the same program, examples, metric, models and budget.

    Each column learns from the training examples within the budget: an offline optimizer from
    all of them at once, an online method from each in turn, as a stream. Then it is frozen and
    answers the held-out questions. Every LM call of learning counts, whoever makes it (program,
    prompt model, policy writer, judge); the call that can no longer be paid is not sent, the
    column stops there and is measured with what it had reached. In a column like
    ``"gepa+drpg"`` the offline optimizer may spend half of the budget, and the online method
    goes on from its program with the rest. Answering the held-out questions is not limited; what
    it takes is shown.

    Args:
        program: The user's program; copied for each column, never changed.
        trainset: Examples with labels and marked inputs.
        testset: The held-out ones; none may be among the training examples.
        metric: Any that DSPy's optimizers or this library accept; see
            :func:`drpg_dspy.judging.judge`.
        budget: What one column may spend on learning; a whole number is LM calls.
        optimizers: The columns; see :func:`~drpg_dspy.comparing.columns.columns_from`.
        lm: Who answers; ``None`` = the configured one. With a cache, repeated prompts are free.
        prompt_lm: Who writes instructions and policies and reflects; ``None`` = ``lm``.
        seeds: How often everything is repeated, at least 1. The first meets the training
            examples as given, others in an order of their own; optimizers draw anew.
        folder: Where everything is kept. Called again with it, finished columns are read, and
            an unfinished one goes on. ``None`` = a temporary one.
        experiment: MLflow's; all columns and the table are runs in it. ``""`` = no MLflow.
        tracking_uri: Of MLflow; ``None`` = its own.
        k: Experiences that methods given by name retrieve; ``None`` = their own number.
        key: As for :class:`~drpg_dspy.online.learner.OnlinePolicyOptimizer`.
        threshold: Scores from here on are right, in (0, 1].
        embedder: Of the online methods' memories; ``None`` = the library's default.
        threads: Examples that offline optimizers evaluate side by side, at least 1.
        title: Of the page.
        say: Told one line at a time what goes on.

    Returns:
        The comparison. A column that failed is missing, with its reason, and is tried again the
        next time; the others are not held up by it.

    Raises:
        ValueError: An argument is wrong; the message names it and the remedy.
        ResumeMismatch: The folder holds a comparison under other settings.
        RunInUse: Another process is working in the folder.
    """
    columns = columns_from(optimizers, k=k, policy_lm=prompt_lm)
    whole("seeds", seeds, 1)
    task = _task(
        program, trainset, testset, metric, budget,
        lm=lm, prompt_lm=prompt_lm, embedder=embedder, key=key, threshold=threshold,
        threads=threads, experiment=experiment, tracking_uri=tracking_uri, say=say,
    )  # fmt: skip
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="drpg-compare-") as place:
            return _compare(task, columns, seeds, Path(place), title, keep=False)
    return _compare(task, columns, seeds, checked_path("folder", folder), title, keep=True)


def _task(program: Any, trainset: Any, testset: Any, metric: Any, budget: Any, **more: Any) -> Task:
    """Check everything before anything is paid for."""
    if isinstance(program, OnlinePolicyOptimizer):
        program = program.program
    if not isinstance(program, dspy.Module):
        raise ValueError(f"program must be a dspy.Module, got {program!r}.")
    if not program.named_predictors():
        raise ValueError(
            f"{type(program).__name__} holds no predictor that could be optimized. Make its "
            "dspy.Predict, dspy.ChainOfThought and the like in __init__, as attributes."
        )
    check_metric(metric)
    train, test = checked_examples(trainset), checked_examples(testset)
    _check_disjoint(train, test)
    if isinstance(budget, int) and not isinstance(budget, bool):
        budget = Budget(lm_calls=whole("budget", budget, 1))
    if not isinstance(budget, Budget):
        raise ValueError(
            f"budget must be a number of LM calls or a Budget(lm_calls=…), got {budget!r}."
        )
    lm = more["lm"] or dspy.settings.lm
    if not isinstance(lm, dspy.BaseLM):
        raise ValueError(f"compare needs an LM: lm=, or dspy.configure(lm=…); got {lm!r}.")
    prompt_lm = more["prompt_lm"] or lm
    if not isinstance(prompt_lm, dspy.BaseLM):
        raise ValueError(f"prompt_lm must be a dspy.LM, got {prompt_lm!r}.")
    return Task(
        program=program,
        trainset=tuple(train),
        testset=tuple(test),
        metric=metric,
        budget=budget,
        lm=lm,
        prompt_lm=prompt_lm,
        embedder=more["embedder"] or default_embedder(),
        key=more["key"],
        threshold=number("threshold", more["threshold"], 0, 1),
        threads=whole("threads", more["threads"], 1),
        experiment=more["experiment"],
        tracking_uri=more["tracking_uri"],
        say=more["say"] or _log.info,
    )


def _check_disjoint(train: Sequence[dspy.Example], test: Sequence[dspy.Example]) -> None:
    learned = {digest(dict(example.inputs().items())) for example in train}
    shared = [
        str(example.get("id", place))
        for place, example in enumerate(test)
        if digest(dict(example.inputs().items())) in learned
    ]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise ValueError(
            f"{len(shared)} held-out questions are among the training examples: "
            f"{', '.join(shared[:5])}{more}. A score on them would measure memory; take them out."
        )


def _compare(
    task: Task, columns: Sequence[Column], seeds: int, folder: Path, title: str, *, keep: bool
) -> Comparison:
    folder.mkdir(parents=True, exist_ok=True)
    with lock_for(folder / _SETTINGS, remove=True):
        _settle(task, folder / _SETTINGS)
        results: dict[str, list[ColumnResult]] = {}
        failed: dict[str, str] = {}
        for seed in range(seeds):
            for column in columns:
                if column.name in failed:
                    continue
                try:
                    found = _finished(task, column, seed, folder) or _run(
                        task, column, seed, folder
                    )
                except (ResumeMismatch, KeyboardInterrupt):
                    raise
                except Exception as error:  # noqa: BLE001 - one column may fail: an optimizer is foreign code
                    said = " ".join(str(error).split())[:_LONGEST_REASON]
                    failed[column.name] = f"{type(error).__name__}: {said}"
                    _log.warning(
                        "The column %s failed and is left out: %s",
                        column.name,
                        failed[column.name],
                    )
                    _log.debug("Where %s failed:", column.name, exc_info=True)
                    continue
                results.setdefault(column.name, []).append(found)
                task.say(f"{column.name}: held-out score {found.score:.1%}")
        comparison = Comparison(
            # A column that failed under a later seed is shown with none.
            {name: found for name, found in results.items() if name not in failed},
            failed,
            task.settings(),
            task.threshold,
            title,
            folder if keep else None,
            _versions(),
        )
        files = comparison.write(folder)
        if task.experiment:
            log_comparison(comparison, task.experiment, task.tracking_uri, files)
    return comparison


def _run(task: Task, column: Column, seed: int, folder: Path) -> ColumnResult:
    place = _place(folder, column, seed)
    found = run_column(task, column, seed, place)
    params = {"budget": task.settings()["budget"], "train": len(task.trainset)}
    params["test"] = len(task.testset)
    run_id = log_column(found, task.experiment, task.tracking_uri, params, place)
    plain = {**found.as_dict(), "run_id": run_id}
    write_whole(place / _RESULT, dumps(plain))
    return ColumnResult.from_dict(plain)


def _finished(task: Task, column: Column, seed: int, folder: Path) -> ColumnResult | None:
    path = _place(folder, column, seed) / _RESULT
    if not path.exists():
        return None
    found = ColumnResult.from_dict(loads(path.read_text(encoding="utf-8")))
    stored = {"optimizer": json.loads(dumps(found.settings))}
    with_name = {"optimizer": column.settings}
    check_settings(stored, with_name)
    task.say(f"{column.name}: finished already")
    return found


def _place(folder: Path, column: Column, seed: int) -> Path:
    return folder / "columns" / f"{column.name}-{seed}"


def _settle(task: Task, path: Path) -> None:
    """Write down what is compared on, or check that it is the same."""
    given = task.settings()
    if path.exists():
        check_settings(json.loads(path.read_text(encoding="utf-8")), given)
    else:
        write_whole(path, dumps(given))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
