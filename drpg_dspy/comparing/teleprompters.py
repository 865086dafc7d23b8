"""DSPy's own optimizers by name, sized so that they fit a budget."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.exceptions import missing_extra
from drpg_dspy.optimizers.offline import Offline, offline_metric
from drpg_dspy.streaming.budget import Budget

__all__ = ["OFFLINE", "OfflineTask", "offline_named"]

_MOST_CALLS = 10_000
"""Metric calls where the budget is none of calls: the purse ends it earlier."""

_REFLECTION_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class OfflineTask:
    """What an offline optimizer is given to work with.

    Attributes:
        metric: The user's.
        lm: Who answers.
        prompt_lm: Who writes instructions and reflects.
        budget: What learning may spend.
        examples: Number of training examples.
        calls: LM calls of one run of the program, as its predictors suggest.
        threads: Examples evaluated side by side.
        seed: Of the optimizer's own draws.
        threshold: Scores from here on are right.
    """

    metric: Any
    lm: dspy.BaseLM
    prompt_lm: dspy.BaseLM
    budget: Budget
    examples: int
    calls: int = 1
    threads: int = 1
    seed: int = 0
    threshold: float = 0.5

    @property
    def judged(self) -> Any:
        """The metric in the form that most optimizers want."""
        return offline_metric(self.metric, threshold=self.threshold)


def offline_named(name: str, task: OfflineTask) -> Offline:
    """Return one of DSPy's optimizers.

    Args:
        name: One of :data:`OFFLINE`.
        task: What it is given.

    Raises:
        ImportError: It needs a package that is not installed.
    """
    return OFFLINE[name](task)


def _miprov2(task: OfflineTask) -> Offline:
    if importlib.util.find_spec("optuna") is None:
        raise missing_extra("MIPROv2", "compare", "optuna")
    validated = max(1, int(task.examples * 0.8))  # MIPROv2's own split
    bootstrapped = task.examples - validated
    candidates, trials = _mipro_size(task, validated, bootstrapped)
    teleprompter = dspy.MIPROv2(
        metric=task.judged,
        prompt_model=task.prompt_lm,
        task_model=task.lm,
        auto=None,
        num_candidates=candidates,
        num_threads=task.threads,
        seed=task.seed + 9,
    )
    return Offline(
        teleprompter, name="miprov2", num_trials=trials, minibatch=False, seed=task.seed + 9
    )


def _mipro_size(task: OfflineTask, validated: int, bootstrapped: int) -> tuple[int, int]:
    """Return candidates and trials: as many as the budget has room for, at most MIPROv2's own.

    A trial evaluates one candidate on the whole validation part; before the trials come the
    demos, the proposals (about three calls each) and the plain program's evaluation.

    >>> lm = dspy.LM("openai/none", api_key="none")
    >>> task = OfflineTask(None, lm, lm, Budget(lm_calls=240), examples=40)
    >>> _mipro_size(task, 32, 8)
    (4, 5)
    """
    limit = task.budget.lm_calls
    if limit is None:
        return 6, 12
    candidates = max(2, min(6, limit // 60))
    before = 3 * candidates + 4 + (candidates - 2) * bootstrapped * task.calls
    room = (limit - before) // (validated * task.calls) - 1
    most = int(max(4 * task.calls * math.log2(candidates), 1.5 * candidates))
    return candidates, max(1, min(room, most))


def _gepa(task: OfflineTask) -> Offline:
    reflecting = task.prompt_lm.copy(temperature=_REFLECTION_TEMPERATURE)
    teleprompter = dspy.GEPA(
        metric=offline_metric(task.metric, threshold=task.threshold, graded=True),
        max_metric_calls=task.budget.lm_calls or _MOST_CALLS,
        reflection_lm=reflecting,
        num_threads=task.threads,
        seed=task.seed,
    )
    return Offline(teleprompter, name="gepa")


def _bootstrap_few_shot(task: OfflineTask) -> Offline:
    return Offline(dspy.BootstrapFewShot(metric=task.judged))


def _bootstrap_random_search(task: OfflineTask) -> Offline:
    teleprompter = dspy.BootstrapFewShotWithRandomSearch(
        metric=task.judged, num_candidate_programs=8, num_threads=task.threads
    )
    return Offline(teleprompter, name="bootstrap_random_search")


def _labeled_few_shot(task: OfflineTask) -> Offline:
    return Offline(dspy.LabeledFewShot(k=16))


def _copro(task: OfflineTask) -> Offline:
    teleprompter = dspy.COPRO(
        prompt_model=task.prompt_lm, metric=task.judged, breadth=4, depth=3, track_stats=False
    )
    options = {"num_threads": task.threads, "display_progress": False}
    return Offline(teleprompter, name="copro", eval_kwargs=options)


def _simba(task: OfflineTask) -> Offline:
    teleprompter = dspy.SIMBA(
        metric=task.judged,
        bsize=min(32, task.examples),
        prompt_model=task.prompt_lm,
        num_threads=task.threads,
    )
    return Offline(teleprompter, name="simba", seed=task.seed)


OFFLINE: Mapping[str, Callable[[OfflineTask], Offline]] = {
    "bootstrap_few_shot": _bootstrap_few_shot,
    "bootstrap_random_search": _bootstrap_random_search,
    "copro": _copro,
    "gepa": _gepa,
    "labeled_few_shot": _labeled_few_shot,
    "miprov2": _miprov2,
    "simba": _simba,
}
"""DSPy's optimizers that go by a name, and how each is made for a task."""
