"""Online optimizers under the protocol: they practise in ``adapt``, and serve when tested."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.arguments import whole
from drpg_dspy.constraints import Check, Constraint, ConstraintCheck, Operation
from drpg_dspy.continual.context import Answer, Prompt, StepContext, with_requirements
from drpg_dspy.continual.prompting import read_state, write_state
from drpg_dspy.continual.self_play import SelfJudge, tasks_for
from drpg_dspy.memory import Embedder, SQLiteMemory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import OnlineOptimizer
from drpg_dspy.types import REVISION, Feedback, Rollout

__all__ = ["RegistryLearner", "SelfPlayLearner"]


class _Served:
    """What both share: a learner with a memory of its own, kept with each step."""

    def __init__(
        self, program: dspy.Module, optimizer: OnlineOptimizer, embedder: Embedder | None
    ) -> None:
        self.name = optimizer.name
        self.optimizer = optimizer
        self._home = tempfile.TemporaryDirectory(prefix="drpg-recap-")
        memory = SQLiteMemory(Path(self._home.name) / "memory.sqlite", embedder)
        self.learner = OnlinePolicyOptimizer(program, optimizer, memory=memory)

    def save(self, folder: Path) -> None:
        """Write the learner: program, memory and the optimizer's state."""
        self.learner.save(folder / "learner")

    def load(self, folder: Path) -> None:
        """Continue as the learner that was written."""
        self.learner.load(folder / "learner", overwrite=True)

    def close(self) -> None:
        """Close the memory and remove it."""
        self.learner.close()
        self._home.cleanup()

    def _respond(self, prompt: str) -> Answer:
        rollout, error = self.learner.attempt_one({"prompt": prompt})
        if error is not None:
            raise error
        return _answer(rollout)


class SelfPlayLearner(_Served):
    """Any online optimizer: in ``adapt`` it answers tasks of its own and learns from its judge.

    On an addition or an edit it answers synthetic tasks under that one constraint; the self-judge
    says whether it was met, and that is the feedback. On a deletion it answers without it; the
    answer is wrong if it still does what was withdrawn. Test answers are neither recorded nor
    learned from.

    Args:
        program: A program that takes ``prompt`` and returns ``response``.
        optimizer: The method.
        embedder: Of its memory; ``None`` = the library's default.
        tasks: Answered for each operation, at least 1.
        judge: By default the backbone itself (:class:`SelfJudge`).

    Raises:
        ValueError: ``tasks`` is no whole number of at least 1.

    Source: RECAP, §2 and App. I: self-play methods use the backbone as generator and judge.

    Deviations: what self-play does on a deletion is not stated there; here it is as above, so
    that every operation reaches every method.
    """

    def __init__(
        self,
        program: dspy.Module,
        optimizer: OnlineOptimizer,
        *,
        embedder: Embedder | None = None,
        tasks: int = 1,
        judge: ConstraintCheck | None = None,
    ) -> None:
        super().__init__(program, optimizer, embedder)
        self.tasks = whole("tasks", tasks, 1)
        self.judge = judge or SelfJudge()
        self._texts: dict[str, str] = {}

    def adapt(self, context: StepContext) -> None:
        """Practise what the step's operations ask for."""
        told = [one for one in context.active if one.type not in context.new + context.edited]
        for number, one in enumerate(context.operations):
            text = one.text or self._texts.pop(one.type, "")
            if one.text:
                self._texts[one.type] = one.text
            if not text:
                continue
            for place, task in enumerate(tasks_for(context.step, self.tasks)):
                asked = [Constraint(one.type, text)] if one.text else []
                rollout, error = self.learner.attempt_one(
                    {"prompt": with_requirements(task, [*told, *asked])},
                    rollout_id=f"play-{context.step}-{number}-{place}",
                )
                if error is not None:
                    raise error
                self._learn(one, text, self.learner.record_one(rollout))

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer with what was learned, and the constraints listed."""
        return self._respond(with_requirements(prompt.text, active))

    def save(self, folder: Path) -> None:
        """Write the learner, and the texts in force as it has heard of them."""
        super().save(folder)
        write_state(folder, {"texts": self._texts})

    def load(self, folder: Path) -> None:
        """Continue as what was written."""
        super().load(folder)
        self._texts = dict(read_state(folder)["texts"])

    def _learn(self, one: Operation, text: str, rollout: Rollout) -> None:
        check = self.judge.check(one.type, text, _answer(rollout).text)
        self.learner.learn_one(rollout.id, _feedback(one, text, check))


class RegistryLearner(_Served):
    """An optimizer with ``add``, ``edit`` and ``delete``: it is told, and needs no self-play.

    Its policy holds the constraints in force, so they are not appended to the prompt as well.

    Args:
        program: A program that takes ``prompt`` and returns ``response``.
        optimizer: The constraint adapter, or a method that holds one.
        embedder: Of its memory.

    Raises:
        ValueError: The optimizer has no such methods.
    """

    def __init__(
        self,
        program: dspy.Module,
        optimizer: OnlineOptimizer,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        if not RegistryLearner.serves(optimizer):
            raise ValueError(f"{optimizer!r} has no methods add, edit and delete.")
        super().__init__(program, optimizer, embedder)

    @staticmethod
    def serves(optimizer: Any) -> bool:
        """Tell whether an optimizer takes constraints by itself."""
        return all(callable(getattr(optimizer, name, None)) for name in ("add", "edit", "delete"))

    def adapt(self, context: StepContext) -> None:
        """Hand the operations on."""
        registry: Any = self.optimizer
        for one in context.operations:
            if one.op == "delete":
                registry.delete(one.type)
            elif one.op == "edit":
                registry.edit(one.type, one.text)
            else:
                registry.add(one.type, one.text)

    def answer(self, prompt: Prompt, active: Sequence[Constraint]) -> Answer:
        """Answer under the registry's own policy."""
        return self._respond(prompt.text)


def _answer(rollout: Rollout) -> Answer:
    text = str((rollout.outputs or {}).get("response") or "").strip()
    revised = [call for call in rollout.trace if call.route == REVISION]
    first = str(revised[-1].inputs.get("response") or "").strip() if revised else ""
    policies = rollout.guidance.policies.values()
    shots = (shot for each in rollout.guidance.shots.values() for shot in each)
    return Answer(
        text,
        first=first,
        policy="\n".join(policy.text for policy in policies if policy.text),
        shown=tuple(str(shot["response"]) for shot in shots if shot.get("response")),
    )


def _feedback(one: Operation, text: str, check: Check) -> Feedback:
    if check.satisfied is None:
        return Feedback(math.nan, author="self-play")
    if one.op == "delete":
        said = "still follows" if check.satisfied else "rightly no longer follows"
        why = f"The requirement {text!r} was withdrawn. This answer {said} it."
        return Feedback(not check.satisfied, text=why, author="self-play")
    said = "met" if check.satisfied else "not met"
    why = f"The requirement {text!r} is {said}. {check.detail}".strip()
    return Feedback(check.satisfied, text=why, author="self-play")
