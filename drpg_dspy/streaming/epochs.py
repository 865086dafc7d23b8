"""The epoch-wise form of NLPG: construct, select, test, on items that have nothing in common.

Online, a correction is tried on the calls that happen to come. Where a set of judged items is at
hand, the same items can be asked twice instead, without and with it, and only the answers that
flip count. The optimizer is the same object with the same code; only who decides differs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from drpg_dspy.analysis.statistics import McNemar, mcnemar
from drpg_dspy.exceptions import CompileFailed, UnknownRollout
from drpg_dspy.judging import check_metric, judge
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.optimizers import NLPG
from drpg_dspy.optimizers.corrections import Instruction
from drpg_dspy.plain import digest
from drpg_dspy.streaming.lock import lock_for
from drpg_dspy.streaming.schedule import checked_examples
from drpg_dspy.types import Feedback, Guidance, Rollout

__all__ = ["Epoch", "Paired", "Tried", "run_epoch"]

logger = logging.getLogger(__name__)

_FAILURES_IN_A_ROW = 5
_CONSTRUCTION, _SELECTION, _TEST = "construction", "selection", "test"

_UNDER_WAY = "nlpg:epoch"
"""Setting of a memory under which the epoch under way stands."""

Group = Callable[[dspy.Example], Any] | str
Verdicts = dict[str, bool | None]
"""Whether each item is right, by its id; ``None`` = not judged."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The same items answered before and after a change.

    An item whose program raised is wrong; one that could not be judged, before or after, is no
    pair.

    Attributes:
        both, neither: Items that were right both times, and neither time.
        fixed, broken: Ids of the items that became right, and that became wrong.
        not_judged: Items that are no pair.
    """

    both: int
    neither: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    not_judged: int

    @property
    def n(self) -> int:
        """Pairs."""
        return self.both + self.neither + len(self.fixed) + len(self.broken)

    @property
    def before(self) -> int:
        """Items that were right before."""
        return self.both + len(self.broken)

    @property
    def after(self) -> int:
        """Items that are right after."""
        return self.both + len(self.fixed)

    @property
    def sign(self) -> McNemar:
        """The exact McNemar test; the first is *after*."""
        return mcnemar(len(self.fixed), len(self.broken))


@dataclass(frozen=True, slots=True)
class Tried:
    """One correction on the selection items.

    Attributes:
        id, route, category, text: The instruction.
        paired: Without it, then with it.
        accepted: It stays.
    """

    id: str
    route: str
    category: str
    text: str
    paired: Paired
    accepted: bool


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch came to.

    Attributes:
        construction: How many construction items were right, and how many were judged.
        tried: Every correction that was put up, in order.
        selection: Before the epoch and after it.
        test: The same on the test items; ``None`` without any.
    """

    construction: tuple[int, int]
    tried: tuple[Tried, ...]
    selection: Paired
    test: Paired | None

    @property
    def accepted(self) -> tuple[Tried, ...]:
        """Corrections that stay."""
        return tuple(tried for tried in self.tried if tried.accepted)


def run_epoch(
    learner: OnlinePolicyOptimizer,
    construction: Sequence[dspy.Example],
    selection: Sequence[dspy.Example],
    test: Sequence[dspy.Example] = (),
    *,
    metric: Callable[..., Any] | None = None,
    group: Group = "id",
) -> Epoch:
    """Write corrections from some items, choose among them on others, and measure on the rest.

    1. The construction items are answered under the policies in force and judged; failures are
       diagnosed, and each window's corrections are put up (M_t is not changed yet).
    2. Each correction is decided on the selection items, answered without it and with it: it is
       accepted when more of them were fixed than broken and the one-sided exact McNemar test is
       at most the gate's ``level``. What was accepted before stands in both answers. Items of
       another category have the same prompt and are not asked again.
    3. The test items are answered under the policies from before and after the epoch.

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
            field, their inputs.

    Raises:
        CompileFailed: The program failed on the first five items.
        ValueError: Splits overlap (the message names the groups), there is no metric, or the
            learner's optimizer is another one.
    """
    if not isinstance(learner, OnlinePolicyOptimizer) or not isinstance(learner.optimizer, NLPG):
        raise ValueError(f"An epoch needs a learner whose optimizer is an NLPG, got {learner!r}.")
    metric = metric if metric is not None else learner.metric
    if metric is None:
        raise ValueError("run_epoch needs a metric, here or in the learner; got None.")
    check_metric(metric)
    splits = {
        _CONSTRUCTION: checked_examples(construction),
        _SELECTION: checked_examples(selection),
        _TEST: checked_examples(test) if test else [],
    }
    _check_disjoint(splits, group)
    path = getattr(learner.memory, "path", None)
    with lock_for(Path(path)) if path else contextlib.nullcontext():
        return _Pass(learner, learner.optimizer, metric).run(splits)


class _Pass:
    def __init__(self, learner: OnlinePolicyOptimizer, optimizer: NLPG, metric: Any) -> None:
        self.learner = learner
        self.optimizer = optimizer
        self.memory = learner.memory
        self.metric = metric
        self.before: list[Verdicts] = []
        self.built: tuple[int, int] | None = None
        self.tried: list[Tried] = []
        self.failures = 0
        self.answered = 0

    def run(self, splits: dict[str, list[dspy.Example]]) -> Epoch:
        """Make the epoch's three parts."""
        selection, test = splits[_SELECTION], splits[_TEST]
        self.learner.propose(dict(splits[_CONSTRUCTION][0].inputs().items()))  # reads the state
        before, tested = self._under_way(selection, test)
        if self.built is None:
            self.built = self._construct(splits[_CONSTRUCTION])
            self._keep_state(selection[-1])
            self._note()
        after = self._select(selection)
        measured = _paired(tested, self._verdicts(_TEST, test)) if test else None
        self.memory.set_meta(_UNDER_WAY, "")
        return Epoch(self.built, tuple(self.tried), _paired(before, after), measured)

    def _under_way(self, selection: list[dspy.Example], test: list[dspy.Example]) -> list[Verdicts]:
        """Return the verdicts under M_t, and take up an epoch that was interrupted.

        Afterwards no policy gives those answers any more, so they come first and are kept.
        """
        items = [[_item(example) for example in split] for split in (selection, test)]
        kept = json.loads(self.memory.get_meta(_UNDER_WAY) or "{}")
        if kept and [list(verdicts) for verdicts in kept["before"]] == items:
            self.before = kept["before"]
            self.tried = [_read_tried(row) for row in kept["tried"]]
            self.built = None if kept["built"] is None else (kept["built"][0], kept["built"][1])
        else:
            self.before = [self._verdicts(_SELECTION, selection), self._verdicts(_TEST, test)]
            self._note()
        return self.before

    def _note(self) -> None:
        tried = [dataclasses.asdict(one) for one in self.tried]
        so_far = {"before": self.before, "built": self.built, "tried": tried}
        self.memory.set_meta(_UNDER_WAY, json.dumps(so_far))

    def _construct(self, examples: list[dspy.Example]) -> tuple[int, int]:
        right = judged = 0
        for example in examples:
            rollout, feedback = self._answer(_CONSTRUCTION, example, ())
            if self.memory.feedback(rollout.id) is None:
                self.learner.learn_one(rollout, feedback)
            judged += feedback.judged and not rollout.failed
            right += self.memory.is_correct(feedback) and not rollout.failed
        self.optimizer.close_window(self.memory)
        return right, judged

    def _select(self, examples: list[dspy.Example]) -> Verdicts:
        """Decide on what is on trial, one after the other; waiting ones move up."""
        now = self._verdicts(_SELECTION, examples)
        level = self.optimizer.level
        while level and (one := next(_on_trial(self.optimizer), None)):
            changed = self._verdicts(_SELECTION, examples, (one.id,))
            paired = _paired(now, changed)
            fixed, broken = len(paired.fixed), len(paired.broken)
            p = paired.sign.one_sided
            accept = fixed > broken and p <= level
            self.optimizer.settle(one.id, fixed, broken, (paired.after, paired.n), p, accept)
            self._keep_state(examples[-1])
            self.tried.append(Tried(one.id, one.route, one.category, one.text, paired, accept))
            self._note()
            now = self._verdicts(_SELECTION, examples) if accept else now
            done = "accepted" if accept else "given up"
            logger.info("%s %s: %d fixed, %d broken of %d", one.id, done, fixed, broken, paired.n)
        return now

    def _verdicts(
        self, split: str, examples: Iterable[dspy.Example], trials: tuple[str, ...] = ()
    ) -> Verdicts:
        """Return whether each item is right, by its id; ``None`` = not judged."""
        found: Verdicts = {}
        for example in examples:
            rollout, feedback = self._answer(split, example, trials)
            if self.memory.feedback(rollout.id) is None:
                self.memory.commit(rollout.id, dataclasses.replace(feedback, informative=False))
            right = not rollout.failed and self.memory.is_correct(feedback)
            judged = rollout.failed or feedback.judged
            found[_item(example)] = right if judged else None
        return found

    def _answer(
        self, split: str, example: dspy.Example, trials: tuple[str, ...]
    ) -> tuple[Rollout, Feedback]:
        """Answer and judge an item, unless that was done under the same policies."""
        inputs = dict(example.inputs().items())
        guidance = self.optimizer.propose_fixed(inputs, trials)
        name = f"{split}:{_item(example)}:{_policies(guidance)}"
        try:
            rollout = self.memory.rollout(name)
        except UnknownRollout:
            rollout, _ = self.learner.attempt_one(inputs, rollout_id=name, guidance=guidance)
            rollout = self.learner.record_one(rollout)
            self._watch(rollout)
        known = self.memory.feedback(name)
        return rollout, known or judge(self.metric, example, rollout.answer)

    def _watch(self, rollout: Rollout) -> None:
        self.answered += 1
        self.failures += rollout.failed
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


def _paired(before: Verdicts, after: Verdicts) -> Paired:
    pairs = {item: (was, after[item]) for item, was in before.items()}
    return Paired(
        both=sum(pair == (True, True) for pair in pairs.values()),
        neither=sum(pair == (False, False) for pair in pairs.values()),
        fixed=tuple(item for item, pair in pairs.items() if pair == (False, True)),
        broken=tuple(item for item, pair in pairs.items() if pair == (True, False)),
        not_judged=sum(None in pair for pair in pairs.values()),
    )


def _on_trial(optimizer: NLPG) -> Iterator[Instruction]:
    return (one for one in optimizer.instructions if one.status == "trial")


def _read_tried(row: dict[str, Any]) -> Tried:
    paired: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row["paired"].items()
    }
    return Tried(**{**row, "paired": Paired(**paired)})


def _check_disjoint(splits: dict[str, list[dspy.Example]], group: Group) -> None:
    """Refuse splits that share a group.

    Raises:
        ValueError: Two do; the message names both, and the groups.
    """
    groups = {
        split: {_group(example, group) for example in examples}
        for split, examples in splits.items()
    }
    names = list(groups)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            shared = sorted(groups[one] & groups[other])
            if shared:
                more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
                raise ValueError(
                    f"The {one} and {other} items overlap: {', '.join(map(repr, shared[:5]))}"
                    f"{more} (by {group if isinstance(group, str) else 'group'}). Corrections "
                    "must be chosen and measured on items that they were not written from."
                )


def _group(example: dspy.Example, group: Group) -> str:
    if callable(group):
        return str(group(example))
    found = example.get(group)
    return _item(example) if found is None else str(found)


def _item(example: dspy.Example) -> str:
    found = example.get("id")
    return f"#{digest(dict(example.inputs().items()), length=12)}" if found is None else str(found)


def _policies(guidance: Guidance) -> str:
    texts = {route: policy.text for route, policy in guidance.policies.items()}
    return digest(texts, length=12) if texts else "plain"
