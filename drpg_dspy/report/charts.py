"""The figures of a report: score against tokens, and scores over the stream."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drpg_dspy.analysis.comparison import Outcome, Results
from drpg_dspy.analysis.series import Curve
from drpg_dspy.report.svg import Axis, Plot, Style
from drpg_dspy.report.tables import UNFINISHED

__all__ = ["Figure", "curves", "model_letters", "scatter"]

_POINTS = 240
"""Points of a curve: one for about two pixels."""

_SETTLING = 0.1
"""Part of a stream whose wide first bands do not set the scale."""

_TOGETHER = 5
"""Curves with bands that can be read in one plot."""

_TOLD_APART = 7
"""Methods that are found in a legend without a number: one for each colour."""

_ROOM = 1.05
"""Points do not sit on the end of an axis."""

_NARROWEST = 10.0
"""Percentage points that an axis spans at least: less would blow up nothing to something."""

_LOG_FROM = 20
"""Ratio of the largest to the smallest token count from which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Plots that belong together.

    Attributes:
        title: What they show.
        plots: SVG texts.
        legend: What is drawn, and how; empty where each plot says it itself.
        numbered: The points bear the numbers of the legend.
    """

    title: str
    plots: tuple[str, ...]
    legend: tuple[tuple[str, Style], ...]
    numbered: bool = False


def model_letters(lms: Sequence[str]) -> dict[str, str]:
    """Return a short sign for each model: a … z, then numbers.

    >>> model_letters(["qwen", "llama"])
    {'qwen': 'a', 'llama': 'b'}
    """
    letters = [*string.ascii_lowercase, *(str(n) for n in range(1, len(lms)))]
    return dict(zip(lms, letters, strict=False))


def scatter(results: Results, style: Mapping[str, Style]) -> Figure | None:
    """Return for each benchmark the scores against output tokens per question.

    Where there are several models, each point has its model's letter; that of an unfinished
    run is marked. Where there are many methods, or points of two lie on each other, each has
    the number of its method.

    Returns:
        One plot for each benchmark; ``None`` when no run has a score.
    """
    scored = [outcome for outcome in results.outcomes if not math.isnan(outcome.score)]
    if not scored:
        return None
    methods = [m for m in results.methods if any(o.method == m for o in scored)]
    groups = [[o for o in scored if o.benchmark == name] for name in results.benchmarks]
    drawn = [(_against_tokens(found, style), found) for found in groups if found]
    numbered = len(methods) > _TOLD_APART or any(plot.crowded for plot, _ in drawn)
    numbers = {m: str(n) for n, m in enumerate(methods, start=1)} if numbered else {}
    letters = model_letters(results.lms) if len(results.lms) > 1 else {}
    plots = []
    for place, (plot, found) in enumerate(drawn):
        for outcome in found:
            mark = "" if outcome.complete else UNFINISHED
            sign = numbers.get(outcome.method, "") + letters.get(outcome.lm, "") + mark
            if sign:
                plot.label(*_at(outcome), sign)
        plots.append(plot.render(f"tokens-{place}"))
    legend = tuple((f"{numbers[m]} {m}" if numbered else m, style[m]) for m in methods)
    return Figure("Score against output tokens", tuple(plots), legend, numbered)


def _at(outcome: Outcome) -> tuple[float, float]:
    """Return where an outcome lies: output tokens per question, and the score in percent."""
    return float(outcome.series.completion_tokens.mean()), 100 * outcome.score


def _against_tokens(found: Sequence[Outcome], style: Mapping[str, Style]) -> Plot:
    places = [_at(outcome) for outcome in found]
    tokens, scores = [spent for spent, _ in places], [score for _, score in places]
    label = "output tokens per question"
    if min(tokens) > 0 and max(tokens) / min(tokens) >= _LOG_FROM:
        x = Axis.ratios(f"{label} (logarithmic)", tokens)
    else:
        x = Axis.around(label, [*tokens, _ROOM * max(tokens)], zero=True)
    plot = Plot(found[0].benchmark, x, _scores(scores), height=320)
    for outcome, spent, score in zip(found, tokens, scores, strict=True):
        tooltip = f"{_marked(outcome)}, {outcome.lm}: {score:.1f} %, {spent:.0f} tokens"
        plot.point(spent, score, style[outcome.method], tooltip)
    return plot


def curves(results: Results, style: Mapping[str, Style], window: int) -> list[Figure]:
    """Return for each benchmark and model the score over the stream, so far and lately.

    Up to five runs share a plot; of more each has a small one, with the others in grey.

    Args:
        results: The outcomes.
        style: Of each method.
        window: Judged steps behind a point of the rolling curve; where no run has more, half
            of those of the longest.
    """
    figures: list[Figure] = []
    for benchmark in results.benchmarks:
        for lm in results.lms:
            found = [o for o in results.outcomes if (o.benchmark, o.lm) == (benchmark, lm)]
            found = [o for o in found if o.series.judged.any()]
            if found:
                panels = _panels(found, window)
                draw = _shared if len(found) <= _TOGETHER else _apart
                figures += draw(panels, found, style, f"curve-{len(figures)}")
    return figures


Panel = tuple[str, Axis, list[Curve]]


def _panels(found: Sequence[Outcome], window: int) -> list[Panel]:
    """Return what is drawn of runs: title, horizontal axis, and a curve for each run."""
    longest = max(int(o.series.judged.sum()) for o in found)
    if longest <= window:
        window = max(1, longest // 2)
    last = max(int(o.series.steps[-1]) for o in found)
    so_far, lately = (
        [o.series.prequential() for o in found],
        [o.series.rolling(window) for o in found],
    )
    first = min(int(curve.steps[0]) for curve in lately)
    return [
        ("All questions so far", Axis("question", 0, last), so_far),
        (
            f"Last {window} judged questions",
            Axis("question", first if first < last else 0, last),
            lately,
        ),
    ]


def _shared(
    panels: Sequence[Panel], found: Sequence[Outcome], style: Mapping[str, Style], name: str
) -> list[Figure]:
    """Draw the curves of a few runs into one plot, with their bands."""
    plots = []
    for place, (title, x, drawn) in enumerate(panels):
        plot = Plot(title, x, _shares(drawn, x))
        for i, (outcome, curve) in enumerate(zip(found, drawn, strict=True)):
            _draw(plot, curve, style[outcome.method], (i + 0.5) / len(found))
        plots.append(plot.render(f"{name}-{place}"))
    legend = tuple((_marked(o), style[o.method]) for o in found)
    return [Figure(_cell(found), tuple(plots), legend)]


def _apart(
    panels: Sequence[Panel], found: Sequence[Outcome], style: Mapping[str, Style], name: str
) -> list[Figure]:
    """Draw each of many runs into a plot of its own, with its band, before the others in grey."""
    figures = []
    for place, (title, x, drawn) in enumerate(panels):
        y, plots, grey = _shares(drawn, x), [], f"{name}-{place}-others"
        for i, (outcome, curve) in enumerate(zip(found, drawn, strict=True)):
            plot = Plot(_marked(outcome), x, y, width=264, height=190)
            if i:
                plot.same_others(grey)
            else:
                thin = [other.thinned(_POINTS // 2) for other in drawn]
                plot.others([(other.steps, 100 * other.mean) for other in thin], grey)
            _draw(plot, curve, style[outcome.method], 0.5)
            plots.append(plot.render(f"{name}-{place}-{i}"))
        figures.append(Figure(f"{_cell(found)}: {title.lower()}", tuple(plots), ()))
    return figures


def _draw(plot: Plot, curve: Curve, look: Style, phase: float) -> None:
    thin = curve.thinned(_POINTS)
    plot.band(thin.steps, 100 * thin.low, 100 * thin.high, look)
    plot.line(thin.steps, 100 * thin.mean, look, phase=phase)


def _cell(found: Sequence[Outcome]) -> str:
    return f"{found[0].benchmark}, {found[0].lm}"


def _shares(drawn: Sequence[Curve], x: Axis) -> Axis:
    values: list[float] = []
    for curve in drawn:
        settled = curve.steps > _SETTLING * x.high
        shown = settled if settled.any() else np.ones(len(curve.steps), dtype=bool)
        values += (100 * curve.low[shown]).tolist() + (100 * curve.high[shown]).tolist()
    return _scores(values)


def _scores(values: Sequence[float]) -> Axis:
    """Return an axis for scores in percent with some room around them."""
    span = max(values) - min(values)
    room = max((_ROOM - 1) * span, (_NARROWEST - span) / 2)
    axis = Axis.around("score (%)", [min(values) - room, max(values) + room])
    return Axis(axis.label, max(0.0, axis.low), min(100.0, axis.high))


def _marked(outcome: Outcome) -> str:
    return outcome.method + ("" if outcome.complete else f" {UNFINISHED}")
