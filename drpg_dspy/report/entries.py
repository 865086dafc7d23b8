"""Runs under the names by which a report compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drpg_dspy.analysis.comparison import Outcome
from drpg_dspy.report.labels import benchmark_names, method_names, short_names
from drpg_dspy.report.reading import RunData
from drpg_dspy.report.tables import UNFINISHED

__all__ = ["Entry", "entries_of", "method_order"]

_PAPER_ORDER = (
    "zero_shot",
    "self_refine",
    "grow_prompt",
    "mem_prompt",
    "self_stream_icl",
    "mam_stream_icl",
)
"""Baselines in the order of the papers' tables; all other methods follow."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A run with the outcome that it is in the comparison."""

    run: RunData
    outcome: Outcome

    @property
    def mark(self) -> str:
        """The sign behind its figures."""
        return "" if self.outcome.complete else UNFINISHED


def entries_of(
    runs: Sequence[RunData], *, complete: bool, ks: Mapping[str, int] | None = None
) -> list[Entry]:
    """Return the runs' outcomes by benchmark, model and method.

    Benchmarks and models come in the order in which the runs name them first.

    Args:
        runs: Those that may be compared.
        complete: All were cut to the same questions, so that finished or not is no matter.
        ks: The default k of each benchmark, see :func:`.labels.method_names`.
    """
    benchmarks = benchmark_names(run.config.benchmark for run in runs)
    lms = short_names(str(run.config.lm) for run in runs)
    entries = [
        Entry(
            run,
            Outcome(
                method=method,
                benchmark=benchmarks[run.config.benchmark],
                lm=lms[str(run.config.lm)],
                run=run.name,
                series=run.series,
                threshold=run.config.threshold,
                complete=complete or run.finished,
            ),
        )
        for run, method in zip(runs, method_names(runs, ks), strict=True)
    ]
    order = [list(benchmarks.values()), list(lms.values()), method_order(entries)]

    def place(entry: Entry) -> tuple[int, ...]:
        names = (entry.outcome.benchmark, entry.outcome.lm, entry.outcome.method)
        return tuple(known.index(name) for known, name in zip(order, names, strict=True))

    return sorted(entries, key=place)


def method_order(entries: Sequence[Entry]) -> list[str]:
    """Return the methods: the papers' baselines in their order, then the others as they come."""
    ranks = {name: place for place, name in enumerate(_PAPER_ORDER)}
    found = {e.outcome.method: ranks.get(e.run.config.optimizer, len(ranks)) for e in entries}
    return sorted(found, key=lambda method: found[method])
