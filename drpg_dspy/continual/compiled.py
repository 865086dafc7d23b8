"""GEPA and MIPROv2 under the protocol: DSPy's own optimizers, fed by self-play at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from drpg_dspy.arguments import whole
from drpg_dspy.constraints import Check, Constraint, ConstraintCheck
from drpg_dspy.continual.context import Answer, Prompt, StepContext, with_requirements
from drpg_dspy.continual.prompting import read_state, respond, write_state
from drpg_dspy.continual.self_play import SelfJudge, tasks_for
from drpg_dspy.optimizers.offline import Offline

__all__ = ["Compiled", "gepa", "miprov2"]

_CHARS_A_TOKEN = 4
"""What a token is taken for where the budget is in tokens; English text has about as many."""

Make = Callable[[Any], Offline]


class Compiled:
    """One of DSPy's optimizers, run anew at each step from the instructions of the last.

    On an addition or an edit the training set is a synthetic task under that one constraint, the
    metric is the self-judge. A deletion has no target to optimise for: the instructions stay.
    Tested, the constraints in force are listed in the prompt, as for the other methods.

    Args:
        program: A program that takes ``prompt`` and returns ``response``, with one predictor.
        make: Builds the optimizer around a metric; see :func:`gepa` and :func:`miprov2`.
        name: As on the command line.
        max_tokens: Instructions are cut to so many tokens (at four characters each), at least 1.
        tasks: Synthetic tasks in the training set, at least 1.
        judge: By default the backbone itself.

    Raises:
        ValueError: ``max_tokens`` or ``tasks`` is no whole number of at least 1.

    Source: RECAP, §2 and App. I.
    """

    def __init__(
        self,
        program: dspy.Module,
        make: Make,
        *,
        name: str,
        max_tokens: int = 2000,
        tasks: int = 1,
        judge: ConstraintCheck | None = None,
    ) -> None:
        self.program = program
        self.make = make
        self.name = name
        self.max_tokens = whole("max_tokens", max_tokens, 1)
        self.tasks = whole("tasks", tasks, 1)
        self.judge = judge or SelfJudge()
        self._plain = _instructions(program)

    def adapt(self, context: StepContext) -> None:
        """Optimise the instructions for what was added or edited."""
        for one in context.operations:
            if one.op == "delete":
                continue
            told = [other for other in context.active if other.type != one.type]
            asked = [*told, Constraint(one.type, one.text)]
            trainset = [
                dspy.Example(prompt=with_requirements(task, asked)).with_inputs("prompt")
                for task in tasks_for(context.step, self.tasks)
            ]
            offline = self.make(self._metric(one.type, one.text))
            learned = offline.learn(self.program, trainset, valset=trainset)
            _instruct(self.program, self._cut(_instructions(learned.program)))

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer under the instructions reached, and the constraints listed."""
        written = _instructions(self.program)
        text = respond(self.program, with_requirements(prompt.text, active))
        return Answer(text, policy=written if written != self._plain else "")

    def save(self, folder: Path) -> None:
        """Write the instructions."""
        write_state(folder, {"instructions": _instructions(self.program)})

    def load(self, folder: Path) -> None:
        """Take up the instructions that were written."""
        _instruct(self.program, str(read_state(folder)["instructions"]))

    def _metric(self, kind: str, text: str) -> Any:
        known: dict[str, Check] = {}  # GEPA asks about the same answer again to reflect on it

        def met(
            gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
        ) -> Any:
            response = str(getattr(pred, "response", "") or "")
            if response not in known:
                known[response] = self.judge.check(kind, text, response)
            check = known[response]
            said = "is met" if check.satisfied else "is not met"
            return dspy.Prediction(
                score=float(check.satisfied is True),
                feedback=f"The requirement {text!r} {said}. {check.detail}".strip(),
            )

        return met

    def _cut(self, text: str) -> str:
        return text[: self.max_tokens * _CHARS_A_TOKEN].rstrip()


def gepa(metric_calls: int = 6, seed: int = 0) -> Make:
    """Return what builds DSPy's GEPA.

    Args:
        metric_calls: Evaluations of a candidate on a task; each costs two LM calls where the
            answer is new, and each new candidate one more for reflection: six come to at most
            about 17 calls. At least 1.
        seed: Of its choices.

    Raises:
        ValueError: When it is built: ``metric_calls`` is no whole number of at least 1.

    Deviations: DSPy's GEPA is steered by evaluations, not by a population of 4 over 2
    generations with an elite of 2, as the paper's is; the budget of calls is the paper's.
    """

    def make(metric: Any) -> Offline:
        optimizer = dspy.GEPA(
            metric=metric,
            max_metric_calls=whole("metric_calls", metric_calls, 1),
            reflection_minibatch_size=1,
            reflection_lm=dspy.settings.lm,
            num_threads=1,
            seed=seed,
        )
        return Offline(optimizer, name="gepa")

    return make


def miprov2(candidates: int = 3, trials: int = 3, seed: int = 9) -> Make:
    """Return what builds DSPy's MIPROv2, for instructions alone.

    Args:
        candidates: Instructions proposed at each step.
        trials: Of them evaluated.
        seed: Of its choices.

    Deviations: DSPy's MIPROv2 begins each compilation without a history of scores; the paper's
    keeps 20 entries. What carries over from step to step here is the instruction itself.
    """

    def make(metric: Any) -> Offline:
        def score(gold: Any, pred: Any, trace: Any = None) -> float:
            return float(metric(gold, pred).score)

        optimizer: Teleprompter = dspy.MIPROv2(
            metric=score,
            prompt_model=dspy.settings.lm,
            task_model=dspy.settings.lm,
            auto=None,
            num_candidates=whole("candidates", candidates, 1),
            max_bootstrapped_demos=0,
            max_labeled_demos=0,
            num_threads=1,
            seed=seed,
            verbose=False,
        )
        return Offline(
            optimizer,
            name="miprov2",
            num_trials=whole("trials", trials, 1),
            minibatch=False,
            data_aware_proposer=False,
            program_aware_proposer=False,
            fewshot_aware_proposer=False,
        )

    return make


def _instructions(program: dspy.Module) -> str:
    return str(program.predictors()[0].signature.instructions)


def _instruct(program: dspy.Module, text: str) -> None:
    for predictor in program.predictors():
        predictor.signature = predictor.signature.with_instructions(text)
