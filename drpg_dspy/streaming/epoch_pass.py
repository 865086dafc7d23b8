"""One epoch: its items answered, its corrections written and chosen, its answers kept."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from drpg_dspy.analysis.audit import Answered, compare_answers
from drpg_dspy.analysis.audit_epochs import (
    ROUTED_AS,
    Answers,
    Epoch,
    Tried,
    kinds_of,
    read_epochs,
    write_epochs,
)
from drpg_dspy.exceptions import CompileFailed, UnknownRollout
from drpg_dspy.judging import judge
from drpg_dspy.online import OnlinePolicyOptimizer, answer_of
from drpg_dspy.optimizers import NLPG
from drpg_dspy.optimizers.corrections import Instruction
from drpg_dspy.plain import digest
from drpg_dspy.streaming.abreast import abreast
from drpg_dspy.streaming.attempts import Retry, answer_with_retries, is_passing
from drpg_dspy.streaming.refusals import refusal
from drpg_dspy.streaming.spending import Spending
from drpg_dspy.streaming.splits import PARTS, item_id
from drpg_dspy.types import Feedback, Guidance, Rollout
from drpg_dspy.usage import meter

__all__ = ["EpochPass", "EpochProgress", "Parts", "Progress"]

logger = logging.getLogger(__name__)

_FAILURES_IN_A_ROW = 5
_CONSTRUCTION, _SELECTION, _TEST = PARTS

_AGAIN = "nlpg:epochs:again"
"""Setting of a memory under which stand the names of answers that are asked for again."""

Parts = dict[str, list[dspy.Example]]


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """Where an epoch stands.

    Attributes:
        epoch: Its number, from 1.
        doing: ``"before"``, ``"construction"``, ``"trial"`` or ``"after"``.
        part: Whose items are answered: ``"construction"``, ``"selection"`` or ``"test"``.
        trial: How many corrections were tried before this one, in this epoch.
        done, total: Items of the part.
        right: How many of them were right.
    """

    epoch: int
    doing: str
    part: str
    trial: int
    done: int
    total: int
    right: int


Progress = Callable[[EpochProgress], None]


@dataclass(frozen=True, slots=True)
class _Question:
    """An item under certain policies, and its answer where that is on record."""

    example: dspy.Example
    base: str
    name: str
    inputs: dict[str, Any]
    guidance: Guidance
    known: Rollout | None


class EpochPass:
    """One epoch.

    Args:
        learner, metric, retry, progress: As for :func:`run_epochs`.
        spending: What the run has spent.
        threads: Items answered and judged side by side, at least 1.
    """

    def __init__(
        self,
        learner: OnlinePolicyOptimizer,
        metric: Any,
        retry: Retry,
        spending: Spending,
        progress: Progress | None = None,
        threads: int = 1,
    ) -> None:
        if not isinstance(learner.optimizer, NLPG):
            raise ValueError(f"An epoch needs an NLPG, got {learner.optimizer!r}.")
        self.learner = learner
        self.optimizer: NLPG = learner.optimizer
        self.memory = learner.memory
        self.metric = metric
        self.retry = retry
        self.spending = spending
        self.progress = progress
        self.threads = threads
        self.epochs: list[Epoch] = []
        self.failures = 0
        self.answered = 0
        self.out_of_reach: list[str] = []
        self.attempts = Counter(json.loads(self.memory.get_meta(_AGAIN) or "{}"))
        self._counting = threading.Lock()

    @property
    def epoch(self) -> Epoch:
        """The epoch under way."""
        return self.epochs[-1]

    def run(self, parts: Parts) -> Epoch:
        """Make the epoch's parts."""
        selection, test = parts[_SELECTION], parts[_TEST]
        self.learner.propose(dict(parts[_CONSTRUCTION][0].inputs().items()))  # reads the state
        self._begin(parts)
        if self.epoch.construction is None:
            built = self._construct(parts[_CONSTRUCTION])
            self._keep_state(selection[-1])
            self._note(construction=built)
        chosen = self._select(selection)
        tested = {_TEST: self._answers(_TEST, test, "after")} if test else {}
        self._note(after={_SELECTION: chosen, **tested})
        return self.epoch

    def _begin(self, parts: Parts) -> None:
        """Answer under M_t, or take up an epoch that was interrupted.

        Afterwards no policy gives those answers any more, so they come first and are kept.
        """
        asked = {name: part for name, part in parts.items() if name != _CONSTRUCTION and part}
        items = {name: [item_id(example) for example in part] for name, part in asked.items()}
        self.epochs = read_epochs(self.memory)
        if self.epochs and not self.epochs[-1].finished:
            if {name: list(answers) for name, answers in self.epoch.before.items()} == items:
                return
            self.epochs.pop()
        self.epochs.append(Epoch(kinds=self._kinds(parts)))
        self._note(
            before={name: self._answers(name, part, "before") for name, part in asked.items()}
        )

    def _note(self, **changes: Any) -> None:
        self.epochs[-1] = dataclasses.replace(self.epoch, **changes)
        write_epochs(self.memory, self.epochs)

    def _construct(self, examples: list[dspy.Example]) -> tuple[int, int]:
        right = judged = 0
        # Without a gate each correction is in force for the next item.
        threads = self.threads if self.optimizer.level else 1
        answers = self._in_turn(_CONSTRUCTION, examples, (), threads)
        for done, (_, rollout, feedback) in enumerate(answers, 1):
            if self.memory.feedback(rollout.id) is None:
                self.learner.learn_one(rollout, feedback)
                self.spending.add(self.memory.feedback(rollout.id))
            judged += feedback.judged or rollout.failed
            right += self.memory.is_correct(feedback) and not rollout.failed
            self._tell(_CONSTRUCTION, _CONSTRUCTION, done, len(examples), right)
        self.optimizer.close_window(self.memory)
        return right, judged

    def _select(self, examples: list[dspy.Example]) -> Answers:
        """Decide on what is on trial, one after the other; waiting ones move up."""
        now = self._answers(_SELECTION, examples, "before")
        level = self.optimizer.level
        while level and (one := next(_on_trial(self.optimizer), None)):
            changed = self._answers(_SELECTION, examples, "trial", (one.id,))
            paired = compare_answers(now, changed)
            flips = len(paired.fixed), len(paired.broken)
            p = paired.sign.one_sided
            accept = paired.net > 0 and p <= level
            self.optimizer.settle(
                one.id,
                self.memory,
                flips=flips,
                items=(paired.after, paired.n),
                p=p,
                accept=accept,
            )
            tried = Tried(one.id, one.route, one.category, one.text, accept, now, changed)
            # Before the state: a kill between the two has it decided again, the same way.
            others = [other for other in self.epoch.tried if other.id != one.id]
            self._note(tried=(*others, tried))
            self._keep_state(examples[-1])
            now = self._answers(_SELECTION, examples, "before") if accept else now
            done = "accepted" if accept else "given up"
            logger.info("%s %s: %d fixed, %d broken of %d", one.id, done, *flips, paired.n)
        return now

    def _answers(
        self, part: str, examples: Sequence[dspy.Example], doing: str, trials: tuple[str, ...] = ()
    ) -> dict[str, Answered]:
        """Answer and judge the items of a part that is not learned from."""
        found: dict[str, Answered] = {}
        for example, rollout, feedback in self._in_turn(part, examples, trials, self.threads):
            if self.memory.feedback(rollout.id) is None:
                self.memory.commit(rollout.id, dataclasses.replace(feedback, informative=False))
                self.spending.add(feedback)
            right = not rollout.failed and self.memory.is_correct(feedback)
            judged = rollout.failed or feedback.judged
            found[item_id(example)] = Answered(rollout.id, right if judged else None)
            so_far = sum(one.right is True for one in found.values())
            self._tell(doing, part, len(found), len(examples), so_far)
        return found

    def _answer(
        self, part: str, example: dspy.Example, trials: tuple[str, ...]
    ) -> tuple[Rollout, Feedback]:
        """Answer and judge an item, unless that was done under the same policies."""
        ((_, rollout, feedback),) = self._in_turn(part, [example], trials, 1)
        return rollout, feedback

    def _in_turn(
        self, part: str, examples: Sequence[dspy.Example], trials: tuple[str, ...], threads: int
    ) -> Iterator[tuple[dspy.Example, Rollout, Feedback]]:
        """Yield items with their answers and verdicts, in their order."""
        asked = (self._ask(part, example, trials) for example in examples)
        for question, (rollout, feedback, error) in abreast(asked, self._make, threads):
            if refused := refusal(error):
                raise CompileFailed(refused) from error
            if not question.known:
                self._watch(question.base, rollout, error)
            yield question.example, rollout, feedback

    def _ask(self, part: str, example: dspy.Example, trials: tuple[str, ...]) -> _Question:
        inputs = dict(example.inputs().items())
        guidance = self.optimizer.propose_fixed(inputs, trials)
        base = f"{part}:{item_id(example)}:{_policies(guidance)}"
        name = f"{base}.{self.attempts[base] + 1}" if self.attempts[base] else base
        try:
            known = self.memory.rollout(name)
        except UnknownRollout:
            known = None
            self.spending.check()
        return _Question(example, base, name, inputs, guidance, known)

    def _make(self, question: _Question) -> tuple[Rollout, Feedback, Exception | None]:
        """Answer a question and judge the answer; an answer is on record before it is judged."""
        rollout, error = question.known, None
        if rollout is None:
            rollout, error = answer_with_retries(
                self.learner,
                question.inputs,
                question.name,
                0,
                self.retry,
                guidance=question.guidance,
            )
            if refusal(error):
                return rollout, Feedback(math.nan), error
            rollout = self.learner.record_one(rollout)
            with self._counting:
                self.spending.add(rollout)
        if (said := self.memory.feedback(question.name)) is not None:
            return rollout, said, error
        if rollout.unreadable:  # no answer to judge, and something to learn
            return rollout, Feedback(0.0, text=f"There is no answer: {rollout.error}"), error
        with meter() as used:
            verdict = judge(self.metric, question.example, answer_of(rollout, self.learner.card))
        return rollout, dataclasses.replace(verdict, usage=verdict.usage + used.total()), error

    def _watch(self, base: str, rollout: Rollout, error: Exception | None) -> None:
        """Stop where going on makes no sense: the program never answers, the server is away."""
        self.answered += 1
        self.failures += rollout.failed and not rollout.unreadable
        away = error is not None and is_passing(error)
        self.out_of_reach = [*self.out_of_reach, base] if away else []
        if len(self.out_of_reach) == _FAILURES_IN_A_ROW:
            self.attempts.update(self.out_of_reach)
            self.memory.set_meta(_AGAIN, json.dumps(self.attempts))
            raise CompileFailed(
                f"The language model is out of reach: {_FAILURES_IN_A_ROW} items failed in a row; "
                f"the last: {rollout.error}. When the epoch is continued they are asked again."
            ) from error
        if self.failures == self.answered == _FAILURES_IN_A_ROW:
            raise CompileFailed(
                f"The program failed on the first {self.answered} items; the last: {rollout.error}"
            )

    def _keep_state(self, example: dspy.Example) -> None:
        """Write the optimizer's state, with the verdict on an item said once more."""
        rollout, feedback = self._answer(_SELECTION, example, ())
        decided = f"nlpg:{self.optimizer.decisions[-1].number}"
        repeated = dataclasses.replace(feedback, informative=False, id=decided)
        self.memory.commit(rollout.id, repeated, state=self.optimizer.state_dict())

    def _kinds(self, parts: Parts) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return what each item of selection and test may be sorted by."""
        return {
            item_id(example): {
                **kinds_of(example),
                ROUTED_AS: (self.optimizer.category_of(example.inputs()),),
            }
            for name in (_SELECTION, _TEST)
            for example in parts[name]
        }

    def _tell(self, doing: str, part: str, done: int, total: int, right: int) -> None:
        if self.progress is not None:
            tried = len(self.epoch.tried)
            number = len(self.epochs)
            self.progress(EpochProgress(number, doing, part, tried, done, total, right))


def _on_trial(optimizer: NLPG) -> Iterator[Instruction]:
    return (one for one in optimizer.instructions if one.status == "trial")


def _policies(guidance: Guidance) -> str:
    texts = {route: policy.text for route, policy in guidance.policies.items()}
    return digest(texts, length=12) if texts else "plain"
