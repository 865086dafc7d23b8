"""Any of DSPy's own optimizers: learns once from a training set, and is frozen from then on."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter
from dspy.utils.callback import BaseCallback

from drpg_dspy.carrier import overridden
from drpg_dspy.exceptions import BudgetSpent
from drpg_dspy.judging import judge
from drpg_dspy.types import Usage
from drpg_dspy.usage import UsageMeter, meter, paid_from

__all__ = ["Learned", "Offline", "Tried", "offline_metric"]


@dataclass(frozen=True, slots=True)
class Tried:
    """The best of the candidates that an optimizer evaluated.

    Attributes:
        evaluations: How often it evaluated a candidate, on few examples or on many.
        examples: Examples behind the best one's score: the most that any was evaluated on.
        score: Its mean score there, as DSPy reports it, in [0, 1].
        program: A copy of it, as it was evaluated.
    """

    evaluations: int = 0
    examples: int = 0
    score: float = 0.0
    program: dspy.Module | None = None

    def __str__(self) -> str:
        if self.program is None:
            return "no candidate was evaluated to the end, the program is as it was"
        return (
            f"best of {self.evaluations} evaluations: {self.score:.1%} of "
            f"{self.examples} training examples"
        )


@dataclass(frozen=True, slots=True)
class Learned:
    """What an offline optimizer made of a program.

    Attributes:
        program: The result; of a run that was stopped, the best candidate so far, or a copy of
            the student where none was evaluated.
        usage: All LM calls on the way, those of prompt models included.
        seconds: Wall time.
        stopped: Why it did not come to its own end; ``""`` = it did.
        tried: The best candidate it evaluated.
    """

    program: dspy.Module
    usage: Usage
    seconds: float
    stopped: str
    tried: Tried


class Offline:
    """Let one of DSPy's optimizers learn within a budget, and keep what it reached.

    An online method meets examples one by one; MIPROv2, GEPA, BootstrapFewShot and their like
    want a training set with its labels and a metric, work on it, and return a program. This is
    the seam between the two: the program that comes out is served by any online method,
    :class:`~drpg_dspy.optimizers.zero_shot.ZeroShot` for the frozen program itself, or
    :class:`~drpg_dspy.optimizers.drpg.DRPG` to go on from there.

    A budget is enforced before each LM call, whoever makes it: the program, a prompt or
    reflection model, a judge. An optimizer that is stopped this way has no result of its own;
    the best candidate that it had evaluated, on the most examples that any was evaluated on, is
    returned instead.

    Args:
        teleprompter: The optimizer, constructed with its metric.
        name: Shown in tables; by default its class's.
        **options: Further arguments of its ``compile``.

    Raises:
        ValueError: It is not an optimizer of DSPy's.

    >>> Offline(dspy.LabeledFewShot(k=2)).name
    'labeled_few_shot'
    """

    def __init__(self, teleprompter: Teleprompter, *, name: str = "", **options: Any) -> None:
        if not isinstance(teleprompter, Teleprompter):
            raise ValueError(
                "Offline takes one of DSPy's optimizers, constructed with its metric, as in "
                f"Offline(dspy.MIPROv2(metric=metric)); got {teleprompter!r}."
            )
        self.teleprompter = teleprompter
        self.name = name or _snake(type(teleprompter).__name__)
        self.options = options

    def __repr__(self) -> str:
        return f"Offline({type(self.teleprompter).__name__}, name={self.name!r})"

    def learn(
        self,
        program: dspy.Module,
        trainset: Sequence[dspy.Example],
        *,
        valset: Sequence[dspy.Example] | None = None,
        purse: UsageMeter | None = None,
    ) -> Learned:
        """Compile a copy of a program.

        Args:
            program: The student; never changed.
            trainset: Examples with labels, in the order in which they are given.
            valset: ``None`` = the optimizer decides by itself what to validate on.
            purse: Pays for the LM calls; ``None`` = no limit.

        Returns:
            The program and what it cost. What the optimizer itself raises is not caught.

        Raises:
            ValueError: There is no program, or no example.
        """
        if not isinstance(program, dspy.Module):
            raise ValueError(f"program must be a dspy.Module, got {program!r}.")
        examples = list(trainset)
        if not examples:
            raise ValueError(f"{self.name} needs at least one training example, got none.")
        options = dict(self.options)
        if valset is not None:
            options["valset"] = list(valset)
        watch = _Candidates()
        stopped, result = "", None
        begun = time.monotonic()
        with (
            meter() as usage,
            paid_from(purse or UsageMeter()),
            overridden({"callbacks": [*(dspy.settings.callbacks or ()), watch]}),
        ):
            try:
                result = self.teleprompter.compile(program.deepcopy(), trainset=examples, **options)
            except BudgetSpent as spent:
                stopped = str(spent)
        seconds = time.monotonic() - begun
        if result is None:
            result = watch.best.program or program.deepcopy()
        return Learned(result, usage.total(), seconds, stopped, watch.best)


def offline_metric(metric: Any, *, threshold: float = 1.0, graded: bool = False) -> Any:
    """Return a metric in the form that each of DSPy's optimizers understands.

    They disagree on how many arguments a metric takes and on what it returns, and most take a
    metric that raises for a broken program. Here an example that could not be judged scores 0,
    and the reason is its feedback.

    Args:
        metric: Any that :func:`drpg_dspy.judging.judge` understands.
        threshold: Score from which an answer is good enough to become a demo, in (0, 1].
        graded: For GEPA: a ``dspy.Prediction`` with score and feedback every time. Otherwise a
            number, and right or wrong while demos are chosen.
    """

    def measured(
        gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        verdict = judge(metric, gold, pred)
        score = verdict.score if verdict.judged else 0.0
        if graded:
            feedback = verdict.text or f"The answer scored {score:g} of 1."
            return dspy.Prediction(score=score, feedback=feedback)
        return score >= threshold if trace is not None else score

    return measured


class _Candidates(BaseCallback):
    """Keeps the best program that was evaluated while an optimizer worked."""

    def __init__(self) -> None:
        self.best = Tried()
        self._programs: dict[str, Any] = {}

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self._programs[call_id] = inputs.get("program")

    def on_evaluate_end(
        self, call_id: str, outputs: Any | None, exception: BaseException | None = None
    ) -> None:
        program = self._programs.pop(call_id, None)
        if outputs is None or not isinstance(program, dspy.Module):
            return
        best, n, score = self.best, len(outputs.results), float(outputs.score) / 100
        better = (n, score) > (best.examples, best.score) or best.program is None
        self.best = Tried(
            best.evaluations + 1,
            n if better else best.examples,
            score if better else best.score,
            program.deepcopy() if better else best.program,
        )


def _snake(name: str) -> str:
    """Return a class's name as methods are called here.

    >>> _snake("BootstrapFewShot"), _snake("GEPA"), _snake("MIPROv2")
    ('bootstrap_few_shot', 'gepa', 'miprov2')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
