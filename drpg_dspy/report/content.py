"""The tables of a report, from runs that may be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from drpg_dspy.analysis.comparison import Comparison, Outcome, Results
from drpg_dspy.analysis.statistics import wilson
from drpg_dspy.report.entries import Entry
from drpg_dspy.report.made import scorings, settings_table
from drpg_dspy.report.tables import (
    MISSING,
    UNFINISHED,
    Cell,
    Table,
    amount,
    chance,
    count,
    percent,
    points,
)

__all__ = ["TABLE_NAMES", "tables"]

TABLE_NAMES = (
    "accuracy", "wins", "deltas", "tests", "mcnemar", "subscores", "cost", "runs", "settings",
    "standing",
)  # fmt: skip
"""Names of all tables that a report may have, in order."""

_CAUTION = (
    "Questions that either run could not judge are left out; a failed one is wrong. With several "
    "models, a question's difference is the mean over them. In a stream each answer depends on "
    "those before, so tests over questions are a guide, not a proof. No p-value is corrected "
    "for the number of tests."
)

Row = list[Cell | str]

_LATE = 0.95
"""The quantile that is given beside the median latency."""


def tables(
    entries: Sequence[Entry],
    results: Results,
    baseline: str | None,
    metrics: Mapping[str, str],
) -> list[Table]:
    """Return the tables that these runs fill, in the order of :data:`TABLE_NAMES`.

    Args:
        entries: The runs.
        results: Their outcomes.
        baseline: The method that the others are measured against; ``None`` = no comparison.
        metrics: What a score is, by benchmark.
    """
    made = [_accuracy(entries, results, metrics)]
    if len(results.methods) > 1:
        made.append(_wins(results))
    if baseline is not None:
        compared = [
            comparison
            for method in results.methods
            if method != baseline
            for comparison in results.compare(method, baseline)
        ]
        made += [_deltas(results, baseline), _tests(compared, baseline)]
        made.append(_mcnemar(compared, baseline))
    return [
        *made,
        _subscores(entries),
        _cost(entries),
        _runs(entries),
        settings_table(entries),
        _standing(entries),
    ]


def _runs(entries: Sequence[Entry]) -> Table:
    columns = (
        "benchmark", "model", "method", "run", "status", "met", "of", "score %", "95 % low",
        "95 % high", "right", "judged", "policy versions",
    )  # fmt: skip
    rows: list[Row] = []
    for entry in entries:
        series = entry.run.series
        settled = int((~series.waiting).sum())
        low, high = wilson(series.score, settled) if settled else (np.nan, np.nan)
        right = series.judged & (series.scores >= entry.outcome.threshold)
        rows.append(
            [
                *_names(entry.outcome),
                entry.run.name,
                Cell(entry.run.status.partition(":")[0], mark=entry.mark),
                count(len(series)),
                count(entry.run.total),
                percent(series.score),
                percent(float(low)),
                percent(float(high)),
                count(right.sum()),
                count(series.judged.sum()),
                " ".join(count(values.max()) for values in series.versions.values()) or MISSING,
            ]
        )
    notes = (
        "Met: of how many questions of its stream. The score is the mean over these, in percent; "
        "a question that failed or could not be judged counts as 0, one whose verdict is still "
        "to come is left out. The interval is Wilson's. Policy versions are counted by route: "
        "every distinct text is one.",
    )
    return Table.of("runs", "Runs", columns, rows, notes=notes, heads=5, group=2)


def _accuracy(entries: Sequence[Entry], results: Results, metrics: Mapping[str, str]) -> Table:
    columns = ["model", "method"]
    for benchmark in results.benchmarks:
        total = max(e.run.total for e in entries if e.outcome.benchmark == benchmark)
        metric = metrics.get(benchmark, "score")
        columns.append(f"{benchmark} (n = {total}): {metric} %")
    rows: list[Row] = []
    for lm in results.lms:
        for method in results.methods:
            found = [results.get(method, benchmark, lm) for benchmark in results.benchmarks]
            if any(outcome is not None for outcome in found):
                rows.append([lm, method, *(_score(results, outcome) for outcome in found)])
    notes = [
        "The best method of each model and benchmark is in bold; equal ones all are. "
        + scorings(entries)
    ]
    if any(not outcome.complete for outcome in results.outcomes):
        notes.append(
            f"{UNFINISHED} did not meet its whole stream: the number of questions it met stands "
            "behind it. It takes no part in best, wins, differences and tests."
        )
    return Table.of("accuracy", "Accuracy", columns, rows, notes=notes, heads=2, group=1)


def _score(results: Results, outcome: Outcome | None) -> Cell:
    if outcome is None:
        return Cell(MISSING)
    if not outcome.complete:
        return Cell(f"{percent(outcome.score)} (n = {len(outcome.series)})", mark=UNFINISHED)
    best = outcome.method in results.best(outcome.benchmark, outcome.lm)
    return Cell(percent(outcome.score), best=best)


def _wins(results: Results) -> Table:
    rows: list[Row] = []
    for second, first in combinations(results.methods, 2):
        records = [results.record(first, second, name) for name in results.benchmarks]
        records.append(results.record(first, second))
        if not records[-1].n:
            continue
        shown = [f"{r.wins}–{r.ties}–{r.losses}" if r.n else MISSING for r in records]
        rows.append([first, second, *shown])
    columns = ("method", "against", *results.benchmarks, "all")
    notes = (
        "On how many models the method scored higher than the other, as high, and lower. Methods "
        "that never met the same benchmark with the same model are not paired.",
    )
    return Table.of("wins", "Pairwise wins–ties–losses", columns, rows, notes=notes, heads=2)


def _deltas(results: Results, baseline: str) -> Table:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for method in results.methods:
        if method == baseline:
            continue
        for one, other in results.pairs(method, baseline):
            found.setdefault((method, one.lm), {})[one.benchmark] = one.score - other.score
    largest = max((abs(d) for row in found.values() for d in row.values()), default=0.0)
    scale = max(largest, 0.01)
    order = sorted(found, key=lambda names: results.methods.index(names[0]))
    rows: list[Row] = [
        [
            method,
            lm,
            *(_tinted(found[method, lm].get(name, np.nan), scale) for name in results.benchmarks),
        ]
        for method, lm in order
    ]
    columns = ("method", "model", *results.benchmarks)
    notes = (
        f"Percentage points above or below {baseline} on the same questions. Blue is better, "
        f"orange is worse; the strongest colour is {100 * scale:.1f} points.",
    )
    title = f"Difference to {baseline}"
    return Table.of("deltas", title, columns, rows, notes=notes, heads=2, group=1)


def _tinted(delta: float, scale: float) -> Cell:
    return Cell(points(delta), tint=None if np.isnan(delta) else delta / scale)


def _tests(compared: Sequence[Comparison], baseline: str) -> Table:
    columns = (
        "method", "benchmark", "model", "paired by", "pairs", "differ", "mean difference",
        "95 % low", "95 % high", "p better (one-sided)", "p different (two-sided)", "p by",
    )  # fmt: skip
    rows: list[Row] = []
    for comparison in compared:
        ranks = comparison.signed_ranks
        rows.append(
            [
                *_scope(comparison),
                comparison.unit,
                count(ranks.n),
                count(ranks.differing),
                points(comparison.difference),
                points(comparison.interval[0]),
                points(comparison.interval[1]),
                chance(ranks.one_sided),
                chance(ranks.two_sided),
                ranks.method or MISSING,
            ]
        )
    notes = (
        'One-sided p is for "the method is better", two-sided p for "there is a difference". '
        "Pairs that do not differ are left out. Exact up to 50 pairs without ties (13 with "
        "ties), else by the normal approximation with correction for ties. Differences are in "
        "percentage points, with a normal interval.",
        _CAUTION,
    )
    title = f"Wilcoxon signed-rank tests against {baseline}"
    return Table.of("tests", title, columns, rows, notes=notes, heads=4, group=1)


def _mcnemar(compared: Sequence[Comparison], baseline: str) -> Table:
    columns = (
        "method", "benchmark", "model", "questions", "only the method right",
        "only the baseline right", "p better (one-sided)", "p different (two-sided)",
    )  # fmt: skip
    rows: list[Row] = []
    for comparison in compared:
        if (sign := comparison.sign) is not None:
            rows.append(
                [
                    *_scope(comparison),
                    count(comparison.signed_ranks.n),
                    count(sign.only_first),
                    count(sign.only_second),
                    chance(sign.one_sided),
                    chance(sign.two_sided),
                ]
            )
    title = f"Exact McNemar tests against {baseline}"
    return Table.of("mcnemar", title, columns, rows, notes=(_CAUTION,), heads=3, group=1)


def _scope(comparison: Comparison) -> Iterator[str]:
    yield from (comparison.first, comparison.benchmark or "all", comparison.lm or "all")


def _subscores(entries: Sequence[Entry]) -> Table:
    names = list(dict.fromkeys(n for e in entries for n in e.run.series.subscores))
    rows: list[Row] = []
    for entry in entries:
        parts = entry.run.series.subscores
        if parts:
            means = [_mean(parts[name]) if name in parts else MISSING for name in names]
            rows.append([*_names(entry.outcome), *_marked(means, entry.mark)])
    notes = ("Means over the questions whose verdict has that part, as the judge gives it.",)
    columns = ("benchmark", "model", "method", *names)
    return Table.of(
        "subscores", "Parts of the scores", columns, rows, notes=notes, heads=3, group=2
    )


def _mean(values: np.ndarray) -> str:
    known = values[~np.isnan(values)]
    return amount(float(known.mean()), 3) if len(known) else MISSING


def _cost(entries: Sequence[Entry]) -> Table:
    columns = (
        "benchmark", "model", "method", "tokens in", "tokens in for policies", "tokens out",
        "tokens out for policies", "LM calls", "dollars", "seconds (median)", "seconds (mean)",
        "seconds (p95)",
    )  # fmt: skip
    rows: list[Row] = []
    for entry in entries:
        s = entry.run.series
        latency = [np.median(s.seconds), s.seconds.mean(), np.quantile(s.seconds, _LATE)]
        figures = [
            amount(s.prompt_tokens.mean()),
            amount(s.policy_prompt_tokens.mean()),
            amount(s.completion_tokens.mean()),
            amount(s.policy_completion_tokens.mean()),
            amount(s.calls.mean(), 2),
            amount(s.cost.mean(), 6) if s.cost.any() else MISSING,
            *(amount(float(seconds), 2) for seconds in latency),
        ]
        rows.append([*_names(entry.outcome), *_marked(figures, entry.mark)])
    notes = (
        "Per question met; attempts that failed are counted. Seconds are wall time of the call, "
        "policy writing included, on whatever machine and server the run had: compare them "
        "within one.",
    )
    return Table.of("cost", "Cost per question", columns, rows, notes=notes, heads=3, group=2)


def _standing(entries: Sequence[Entry]) -> Table:
    columns = (
        "benchmark", "model", "method", "questions met", "judged %", "not judged %", "failed %",
        "waiting %",
    )  # fmt: skip
    rows: list[Row] = []
    for entry in entries:
        s = entry.run.series
        shares = [percent(float(a.mean())) for a in (s.judged, s.not_judged, s.failed, s.waiting)]
        rows.append([*_names(entry.outcome), *_marked([count(len(s)), *shares], entry.mark)])
    notes = (
        "Failed: the program raised. Not judged: the judge reached no verdict. Both add nothing "
        "to the score.",
    )
    title = "Judged, not judged, failed"
    return Table.of("standing", title, columns, rows, notes=notes, heads=3, group=2)


def _names(outcome: Outcome) -> Iterator[str]:
    yield from (outcome.benchmark, outcome.lm, outcome.method)


def _marked(texts: Sequence[str], mark: str) -> list[Cell]:
    """Mark the first of a row's figures."""
    return [Cell(text, mark=mark if i == 0 else "") for i, text in enumerate(texts)]
