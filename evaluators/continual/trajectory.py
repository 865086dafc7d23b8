"""A run's verdicts in order: tasks by steps by samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

__all__ = ["Event", "Outcome", "Trajectory", "Window", "mean_over"]

Op = Literal["add", "edit", "delete"]
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One sample's verdict on one task at one step.

    Attributes:
        step: Any whole number; larger is later.
        task: The task's name.
        sample: The sample's name.
        satisfied: In [0, 1]; NaN = not judged.
        value: Which version of the task it was checked against, e.g. a constraint's text.
        shadow: The version is no longer in force: it is watched, not asked for.
    """

    step: int
    task: str
    sample: str
    satisfied: float
    value: str = ""
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a task at the beginning of a step.

    Attributes:
        step: From which step on it holds.
        op: What was done.
        task: To which task.
        value: The version in force from here on; empty after a deletion.
        old: The version in force before; empty for an addition.
    """

    step: int
    op: Op
    task: str
    value: str = ""
    old: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Verdicts on a version that was replaced or deleted, from that step on.

    ``old``: steps × samples; ``new`` likewise, for edits; ``before``: samples, at the step
    before; ``default``: samples, without any constraint.
    """

    event: Event
    old: Array
    new: Array
    before: Array
    default: Array


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Verdicts of one run, ordered for the metrics.

    Attributes:
        tasks, steps, samples: Names, in the order of the array's axes.
        verdicts: Tasks × steps × samples; NaN = not active, or not judged.
        events: What happened, in order.
        edits, deletions: What is watched after them.
    """

    tasks: tuple[str, ...]
    steps: tuple[int, ...]
    samples: tuple[str, ...]
    verdicts: Array
    events: tuple[Event, ...] = ()
    edits: tuple[Window, ...] = ()
    deletions: tuple[Window, ...] = ()
    rates: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", mean_over(self.verdicts, axis=2))

    @classmethod
    def of(
        cls,
        outcomes: Iterable[Outcome],
        events: Iterable[Event] = (),
        defaults: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
    ) -> Trajectory:
        """Order verdicts and events.

        Args:
            outcomes: All verdicts, shadows included, in any order.
            events: What was added, edited and deleted. Without them there is no collateral
                damage, edit switch or unlearning to report.
            defaults: By (task, version): each sample's verdict when nothing is asked for.

        Raises:
            ValueError: There is no active outcome, or a cell has two verdicts.
        """
        known = list(outcomes)
        active = [one for one in known if not one.shadow]
        if not active:
            raise ValueError("A trajectory needs at least one outcome that is no shadow; got none.")
        axes = (
            tuple(dict.fromkeys(one.task for one in active)),
            tuple(sorted({one.step for one in known})),
            tuple(sorted({one.sample for one in known})),
        )
        places = tuple({name: i for i, name in enumerate(axis)} for axis in axes)
        cells = np.full([len(axis) for axis in axes], np.nan)
        seen: set[tuple[int, str, str]] = set()
        for one in active:
            cell = (one.step, one.task, one.sample)
            if cell in seen:
                raise ValueError(
                    f"Two verdicts on {one.task!r}, sample {one.sample!r}, step {one.step}."
                )
            seen.add(cell)
            cells[places[0][one.task], places[1][one.step], places[2][one.sample]] = one.satisfied
        shadows: dict[tuple[str, str], Array] = {}
        for one in known:
            if one.shadow:
                rows = shadows.setdefault((one.task, one.value), np.full(cells.shape[1:], np.nan))
                rows[places[1][one.step], places[2][one.sample]] = one.satisfied
        happened = tuple(sorted(events, key=lambda event: event.step))
        windows = _windows(happened, axes, places, cells, shadows, defaults or {})
        return cls(
            *axes,
            cells,
            happened,
            tuple(w for w in windows if w.event.op == "edit"),
            tuple(w for w in windows if w.event.op == "delete"),
        )

    def with_samples(self, chosen: Sequence[int] | np.ndarray[Any, Any]) -> Trajectory:
        """Return the trajectory over some of the samples, by place; one may come repeatedly."""
        pick = np.asarray(chosen)

        def cut(window: Window) -> Window:
            return replace(
                window,
                old=window.old[:, pick],
                new=window.new[:, pick],
                before=window.before[pick],
                default=window.default[pick],
            )

        return Trajectory(
            self.tasks,
            self.steps,
            tuple(self.samples[i] for i in pick),
            self.verdicts[:, :, pick],
            self.events,
            tuple(map(cut, self.edits)),
            tuple(map(cut, self.deletions)),
        )


def _windows(
    events: Sequence[Event],
    axes: tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]],
    places: Sequence[Mapping[Any, int]],
    cells: Array,
    shadows: Mapping[tuple[str, str], Array],
    defaults: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[Window]:
    found = []
    _, steps, samples = axes
    for number, event in enumerate(events):
        if event.op == "add" or event.task not in places[0] or event.step not in places[1]:
            continue
        first = places[1][event.step]
        later = [e.step for e in events[number + 1 :] if e.task == event.task]
        last = next((i for i, k in enumerate(steps) if later and k >= later[0]), len(steps))
        row = cells[places[0][event.task]]
        empty = np.full((len(steps), len(samples)), np.nan)
        known = defaults.get((event.task, event.old), {})
        found.append(
            Window(
                event,
                old=shadows.get((event.task, event.old), empty)[first:last],
                new=row[first:last],
                before=row[first - 1] if first else np.full(len(samples), np.nan),
                default=np.array([known.get(sample, math.nan) for sample in samples]),
            )
        )
    return found


def mean_over(values: Array, axis: int) -> Array:
    """Return means over an axis that leave NaN out; NaN where nothing is left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a cell without any verdict stays NaN
        means: Array = np.nanmean(values, axis=axis)
    return means
