"""The tables of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drpg_dspy.analysis.audit import Paired
from drpg_dspy.analysis.audit_epochs import ROUTED_AS, Epoch
from drpg_dspy.analysis.audit_reading import (
    AuditedItem,
    InstructionAudit,
    paired_items,
    scorings_of,
)
from drpg_dspy.optimizers.corrections.decisions import Decision
from drpg_dspy.optimizers.corrections.instructions import EVERY_ROUTE
from drpg_dspy.report.tables import MISSING, Cell, Table, chance, count, percent, points

__all__ = ["AUDIT_TABLES", "RunAudit", "audit_tables"]

AUDIT_TABLES = ("pairs", "categories", "routes", "addressed", "tried", "decisions", "flips")
"""Names of all tables that an audit may have, in order."""

_FIGURES = (
    "items", "before", "before %", "after", "after %", "repaired", "repair %", "broken",
    "regression %", "net", "p", "change", "95 % low", "95 % high",
)  # fmt: skip

_READ = (
    "Before and after: how many items were right. Repair: of the items that were wrong before, "
    "those that are right after. Regression: of those that were right before, those that are "
    "wrong after. p is the exact two-sided McNemar test on the items that flipped; the change is "
    "in percentage points, with a paired-bootstrap interval (10,000 resamples). An item whose "
    "program raised is wrong."
)

Row = list[Cell | str]


@dataclass(frozen=True, slots=True, eq=False)
class RunAudit:
    """What an audit knows of one run.

    Attributes:
        name: The run, or ``AFTER against BEFORE``.
        about: Its method, benchmark and model, in words.
        compare: The scoring that it was started with.
        items: What was answered before and after, by part: ``"test"``, ``"selection"``; of two
            streams ``"stream"``.
        epochs: Its epochs; none for streams.
        instructions: Those accepted or adopted.
        decisions: Of the optimizer.
        addressed: Failures that had a correction for a route.
    """

    name: str
    about: str
    compare: str | None
    items: Mapping[str, Sequence[AuditedItem]]
    epochs: Sequence[Epoch] = ()
    instructions: Sequence[InstructionAudit] = ()
    decisions: Sequence[Decision] = ()
    addressed: Mapping[str, int] = field(default_factory=dict)

    @property
    def measured(self) -> Sequence[AuditedItem]:
        """The items on which the pair is measured, and nothing was chosen."""
        return self.items.get("test") or self.items.get("stream") or ()

    @property
    def scorings(self) -> list[str]:
        """Scorings, the one that counted first."""
        return scorings_of((one for part in self.items.values() for one in part), self.compare)


def audit_tables(runs: Sequence[RunAudit]) -> list[Table]:
    """Return the tables that these runs fill, in the order of :data:`AUDIT_TABLES`."""
    made = [
        _pairs(runs), _categories(runs), _routes(runs), _addressed(runs), _tried(runs),
        _decisions(runs), _flips(runs),
    ]  # fmt: skip
    return [table for table in made if table.rows]


def _pairs(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = [
        [run.name, part, scoring, *_figures(paired_items(items, scoring)), count(missing)]
        for run in runs
        for part, items in run.items.items()
        for scoring in run.scorings
        for missing in [paired_items(items, scoring).not_judged]
    ]
    notes = [_READ, "Items that were not judged, before or after, are no pair."]
    if any("selection" in run.items for run in runs):
        notes.append(
            "Selection items are those on which instructions were chosen: their gain is too "
            "high by that choice. What was gained stands in the test items."
        )
    columns = ("run", "part", "scoring", *_FIGURES, "not judged")
    return Table.of("pairs", "Before and after", columns, rows, notes=notes, heads=3, group=1)


def _categories(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = [
        [run.name, kind, value, scoring, *_figures(paired_items(found, scoring))]
        for run in runs
        for kind, value, found in _sorted_out(run.measured)
        for scoring in run.scorings
    ]
    notes = (
        "Of the items on which nothing was chosen. An item of several categories counts in each "
        "of them. No p-value is corrected for the number of rows.",
    )
    columns = ("run", "sorted by", "value", "scoring", *_FIGURES)
    return Table.of("categories", "By category", columns, rows, notes=notes, heads=4, group=2)


def _sorted_out(
    items: Sequence[AuditedItem],
) -> Iterator[tuple[str, str, list[AuditedItem]]]:
    """Yield each kind that tells items apart, each value of it, and the items with that value.

    Coarse kinds come first.
    """
    values = {
        kind: sorted({value for one in items for value in one.kinds.get(kind, ())})
        for kind in dict.fromkeys(kind for one in items for kind in one.kinds)
    }
    same = all(one.kinds.get(ROUTED_AS) == one.kinds.get("category") for one in items)
    told = [kind for kind in values if len(values[kind]) > 1 and not (same and kind == ROUTED_AS)]
    for kind in sorted(told, key=lambda kind: len(values[kind])):
        for value in values[kind]:
            yield kind, value or "(none)", [o for o in items if value in o.kinds.get(kind, ())]


def _addressed(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = []
    for run in runs:
        for route in _routes_of(run):
            here = [d for d in run.decisions if d.route in (route, EVERY_ROUTE)]
            stayed = [i for i in run.instructions if i.decision.route in (route, EVERY_ROUTE)]
            rows.append(
                [
                    run.name,
                    route,
                    count(run.addressed.get(route, 0)),
                    count(sum(d.outcome == "tried" for d in here)),
                    count(sum(d.outcome == "given up" for d in here)),
                    count(len(stayed)),
                    count(sum(one.ended is not None for one in stayed)),
                ]
            )
    columns = ("run", "route", "failures addressed to it", "tried", "given up", "accepted", "ended")
    notes = ("Accepted ones ended by being retired, withdrawn, superseded or crowded out.",)
    return Table.of(
        "addressed", "Corrections by route", columns, rows, notes=notes, heads=2, group=1
    )


def _routes(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = []
    for run in runs:
        for route in _routes_of(run):
            if found := [one for one in run.measured if one.changed(route)]:
                rows += [
                    [run.name, route, scoring, *_figures(paired_items(found, scoring))]
                    for scoring in run.scorings
                ]
    columns = ("run", "route", "scoring", *_FIGURES)
    notes = (
        "Of the measured items at which the route was called under another policy after than "
        "before; an item counts for each such route.",
    )
    return Table.of("routes", "By route", columns, rows, notes=notes, heads=3, group=1)


def _routes_of(run: RunAudit) -> list[str]:
    called = (route for one in run.measured for route in one.before.called | one.after.called)
    named = (
        decision.route for decision in run.decisions if decision.route not in ("", EVERY_ROUTE)
    )
    return sorted({*called, *named, *run.addressed} - {"", EVERY_ROUTE})


def _tried(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = []
    for run in runs:
        for number, epoch in enumerate(run.epochs, 1):
            for one in epoch.tried:
                paired = one.paired
                rows.append(
                    [
                        run.name,
                        count(number),
                        one.route,
                        one.category or MISSING,
                        one.text,
                        "accepted" if one.accepted else "given up",
                        count(paired.n),
                        count(paired.before),
                        count(paired.after),
                        count(len(paired.fixed)),
                        count(len(paired.broken)),
                        chance(paired.sign.one_sided),
                    ]
                )
    columns = (
        "run", "epoch", "route", "category", "correction", "outcome", "items", "right without",
        "right with", "fixed", "broken", "p (one-sided)",
    )  # fmt: skip
    notes = (
        "On the selection items, asked without and with the correction. It stays when it fixes "
        "more than it breaks and p is at most the gate's level; none is corrected for the number "
        "of corrections tried.",
    )
    title = "Corrections tried"
    return Table.of("tried", title, columns, rows, notes=notes, heads=6, group=2)


def _decisions(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = [
        [
            run.name,
            count(d.number),
            count(d.seen),
            d.outcome,
            d.id or MISSING,
            d.route or MISSING,
            d.category or MISSING,
            d.reason,
            ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in d.counts.items()) or MISSING,
            MISSING if d.evidence is None else f"{d.evidence:.4g}",
        ]
        for run in runs
        for d in run.decisions
    ]
    columns = (
        "run", "no.", "verdicts seen", "outcome", "instruction", "route", "category", "reason",
        "counts", "evidence",
    )  # fmt: skip
    notes = (
        "Evidence is the e-value of a trial on calls as they came, or the one-sided p-value of a "
        "test on the same items.",
    )
    return Table.of("decisions", "Decisions", columns, rows, notes=notes, heads=9, group=1)


def _flips(runs: Sequence[RunAudit]) -> Table:
    rows: list[Row] = []
    for run in runs:
        for part, items in run.items.items():
            by_id = {one.id: one for one in items}
            for scoring in run.scorings:
                paired = paired_items(items, scoring)
                for what, ids in (("repaired", paired.fixed), ("broken", paired.broken)):
                    for id in ids:
                        one = by_id[id]
                        rows.append(
                            [
                                run.name,
                                part,
                                scoring,
                                what,
                                id,
                                one.before.rollout,
                                one.after.rollout,
                                _shown_given(one),
                            ]
                        )
    columns = ("run", "part", "scoring", "flip", "item", "before", "after", "instructions after")
    return Table.of("flips", "Items that flipped", columns, rows, heads=8, group=3)


def _shown_given(one: AuditedItem) -> str:
    given = (
        f"{route}: {' '.join(ids)}"
        for route, ids in one.after.given.items()
        if route in one.after.called
    )
    return "; ".join(given) or MISSING


def _figures(paired: Paired) -> Iterable[str]:
    low, high = paired.interval()
    n = paired.n or float("nan")
    return (
        count(paired.n),
        count(paired.before),
        percent(paired.before / n),
        count(paired.after),
        percent(paired.after / n),
        count(len(paired.fixed)),
        percent(paired.repair),
        count(len(paired.broken)),
        percent(paired.regression),
        f"{paired.net:+d}" if paired.net else "0",
        chance(paired.sign.two_sided if paired.n else n),
        points(paired.net / n),
        points(low),
        points(high),
    )
