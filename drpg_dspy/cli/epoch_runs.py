"""Making the epochs of a run, and what they came to, in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
import dspy

from drpg_dspy.analysis import RunSummary, summarise
from drpg_dspy.analysis.audit import Paired
from drpg_dspy.analysis.audit_epochs import Epoch, read_epochs
from drpg_dspy.cli.app import wrong_if
from drpg_dspy.cli.layout import clip, plural, share
from drpg_dspy.cli.learners import Stream
from drpg_dspy.memory import Memory
from drpg_dspy.online import OnlinePolicyOptimizer
from drpg_dspy.streaming import Budget, EpochProgress, RunConfig, RunFolder, run_epochs, share_out
from drpg_dspy.streaming.splits import PARTS

__all__ = ["PLAN", "as_plain", "lines", "make", "parts_of"]

PLAN = "epochs"
"""Name of the setting that makes a run one of epochs: sizes, number and group."""

_REPLIES = "replies"
_EVERY = 10.0  # seconds between two words on how it goes


def parts_of(config: RunConfig, stream: Stream) -> dict[str, list[dspy.Example]]:
    """Return a run's construction, selection and test items.

    Raises:
        click.BadParameter: There are too few examples for the sizes.
    """
    plan: Mapping[str, Any] = config.extra[PLAN]
    sizes = {name: int(plan[name]) for name in PARTS}
    with wrong_if([f"--{name}" for name in PARTS], ValueError):
        return share_out(stream.examples, sizes, group=plan["group"], seed=config.seed or 0)


def make(
    learner: OnlinePolicyOptimizer, folder: RunFolder, stream: Stream, budget: Budget
) -> RunSummary:
    """Make a run's epochs, or what is left of them; return the figures of all its calls."""
    parts = parts_of(folder.config, stream)
    with _own_replies(folder), dspy.context(lm=stream.lm.copy(cache=True)):
        run_epochs(
            learner,
            *(parts[name] for name in PARTS),
            epochs=int(folder.config.extra[PLAN]["epochs"]),
            metric=stream.metric,
            group=folder.config.extra[PLAN]["group"],
            budget=budget,
            progress=_Words(),
            threads=folder.config.extra.get("threads", 1),
        )
    return summarise(learner.memory)


def lines(memory: Memory) -> Iterator[str]:
    """Yield what the epochs of a memory came to; nothing for a memory without any."""
    for number, epoch in enumerate(read_epochs(memory), 1):
        yield from _epoch(number, epoch)


def as_plain(memory: Memory) -> list[dict[str, Any]]:
    """Return the same for ``--json``."""
    return [
        {
            "finished": epoch.finished,
            "construction": epoch.construction,
            "tried": [
                {
                    "id": one.id,
                    "route": one.route,
                    "category": one.category,
                    "text": one.text,
                    "accepted": one.accepted,
                    **_figures(one.paired),
                }
                for one in epoch.tried
            ],
            "selection": _figures(epoch.selection) if epoch.finished else None,
            "test": _figures(epoch.test) if epoch.finished and epoch.test else None,
        }
        for epoch in read_epochs(memory)
    ]


def _figures(paired: Paired) -> dict[str, Any]:
    return {
        "items": paired.n,
        "before": paired.before,
        "after": paired.after,
        "fixed": list(paired.fixed),
        "broken": list(paired.broken),
        "not_judged": paired.not_judged,
        "p": paired.sign.two_sided,
    }


def _epoch(number: int, epoch: Epoch) -> Iterator[str]:
    state = "" if epoch.finished else ", under way"
    yield (
        f"Epoch {number}{state}: {plural(len(epoch.tried), 'correction')} tried, "
        f"{len(epoch.accepted)} accepted"
    )
    if epoch.construction is not None:
        right, judged = epoch.construction
        yield f"  construction  {right} of {judged} right"
    if epoch.finished:
        yield f"  selection     {_change(epoch.selection)}"
    else:
        for part, answers in epoch.before.items():
            right = sum(one.right is True for one in answers.values())
            yield f"  {part:12s}  {right} of {len(answers)} right before"
    if epoch.finished and epoch.test is not None:
        yield f"  test          {_change(epoch.test)}"
    for one in epoch.tried:
        verdict = "accepted" if one.accepted else "given up"
        where = f"{one.route} ({one.category})" if one.category else one.route
        flips = f"{len(one.paired.fixed)} fixed, {len(one.paired.broken)} broken"
        yield f"  {verdict}: {where}: {clip(one.text, 70)}  [{flips}]"


def _change(paired: Paired) -> str:
    before, after = (
        share(n / paired.n if paired.n else None) for n in (paired.before, paired.after)
    )
    missing = f", {paired.not_judged} not judged" if paired.not_judged else ""
    return (
        f"{before} before, {after} after, of {paired.n}{missing}: {len(paired.fixed)} fixed, "
        f"{len(paired.broken)} broken, p = {paired.sign.two_sided:.2g}"
    )


class _Words:
    """Says on standard error how it goes, now and then."""

    def __init__(self) -> None:
        self.due = 0.0

    def __call__(self, at: EpochProgress) -> None:
        """Say it if it is due, or if a part is done."""
        now = time.monotonic()
        if now < self.due and at.done < at.total:
            return
        self.due = now + _EVERY
        doing = f"trial {at.trial + 1}, {at.part}" if at.doing == "trial" else at.part
        when = f" {at.doing}" if at.doing in ("before", "after") else ""
        click.echo(
            f"epoch {at.epoch}, {doing}{when}: {at.done}/{at.total}, {at.right} right", err=True
        )


@contextmanager
def _own_replies(folder: RunFolder) -> Iterator[None]:
    """Let DSPy keep replies in the run's folder instead of the user's own cache."""
    before = vars(dspy).get("cache")
    dspy.configure_cache(disk_cache_dir=str(folder.path / _REPLIES))
    try:
        yield
    finally:
        if before is None:
            vars(dspy).pop("cache", None)  # made anew when it is asked for
        else:
            dspy.cache = before
