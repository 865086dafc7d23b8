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

_ROOM = 1.05
"""Points do not sit on the end of an axis."""

_LOG_FROM = 20
"""Ratio of the largest to the smallest token count from which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Plots that belong together.

    Attributes:
        title: What they show.
        plots: SVG texts.
        legend: What is drawn, and how.
    """

    title: str
    plots: tuple[str, ...]
    legend: tuple[tuple[str, Style], ...]


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
    run is marked.

    Returns:
        One plot for each benchmark; ``None`` when no run has a score.
    """
    scored = [outcome for outcome in results.outcomes if not math.isnan(outcome.score)]
    plots = []
    for number, benchmark in enumerate(results.benchmarks):
        found = [outcome for outcome in scored if outcome.benchmark == benchmark]
        if found:
            letters = model_letters(results.lms) if len(results.lms) > 1 else {}
            plots.append(_against_tokens(found, style, letters).render(f"tokens-{number}"))
    if not plots:
        return None
    legend = tuple((m, style[m]) for m in dict.fromkeys(o.method for o in scored))
    return Figure("Score against output tokens", tuple(plots), legend)


def _against_tokens(
    found: Sequence[Outcome], style: Mapping[str, Style], letters: Mapping[str, str]
) -> Plot:
    tokens = [float(outcome.series.completion_tokens.mean()) for outcome in found]
    scores = [100 * outcome.score for outcome in found]
    label = "output tokens per question"
    if min(tokens) > 0 and max(tokens) / min(tokens) >= _LOG_FROM:
        x = Axis.ratios(f"{label} (logarithmic)", tokens)
    else:
        x = Axis.around(label, [*tokens, _ROOM * max(tokens)], zero=True)
    plot = Plot(found[0].benchmark, x, _scores(scores), height=320)
    for outcome, spent, score in zip(found, tokens, scores, strict=True):
        tooltip = f"{_marked(outcome)}, {outcome.lm}: {score:.1f} %, {spent:.0f} tokens"
        plot.point(spent, score, style[outcome.method], tooltip)
    for outcome, spent, score in zip(found, tokens, scores, strict=True):
        sign = letters.get(outcome.lm, "") + ("" if outcome.complete else UNFINISHED)
        if sign:
            plot.label(spent, score, sign)
    return plot


def curves(results: Results, style: Mapping[str, Style], window: int) -> list[Figure]:
    """Return for each benchmark and model the score over the stream, so far and lately.

    Args:
        results: The outcomes.
        style: Of each method.
        window: Judged steps behind a point of the rolling curve.
    """
    figures: list[Figure] = []
    for benchmark in results.benchmarks:
        for lm in results.lms:
            found = [o for o in results.outcomes if (o.benchmark, o.lm) == (benchmark, lm)]
            found = [o for o in found if o.series.judged.any()]
            if found:
                figures.append(_cell(found, style, window, f"curve-{len(figures)}"))
    return figures


def _cell(found: Sequence[Outcome], style: Mapping[str, Style], window: int, name: str) -> Figure:
    panels = {
        "All questions so far": [o.series.prequential() for o in found],
        f"Last {window} judged questions": [o.series.rolling(window) for o in found],
    }
    last = max(int(o.series.steps[-1]) for o in found)
    x = Axis("question", 0, last)
    plots = []
    for place, (title, drawn) in enumerate(panels.items()):
        plot = Plot(title, x, _shares(drawn, last))
        for i, (outcome, curve) in enumerate(zip(found, drawn, strict=True)):
            thin = curve.thinned(_POINTS)
            look = style[outcome.method]
            plot.band(thin.steps, 100 * thin.low, 100 * thin.high, look)
            plot.line(thin.steps, 100 * thin.mean, look, phase=(i + 0.5) / len(found))
        plots.append(plot.render(f"{name}-{place}"))
    title = f"{found[0].benchmark}, {found[0].lm}"
    return Figure(title, tuple(plots), tuple((_marked(o), style[o.method]) for o in found))


def _shares(drawn: Sequence[Curve], last: int) -> Axis:
    values: list[float] = []
    for curve in drawn:
        settled = curve.steps > _SETTLING * last
        shown = settled if settled.any() else np.ones(len(curve.steps), dtype=bool)
        values += (100 * curve.low[shown]).tolist() + (100 * curve.high[shown]).tolist()
    return _scores(values)


def _scores(values: Sequence[float]) -> Axis:
    """Return an axis for scores in percent with some room around them."""
    room = (_ROOM - 1) * (max(values) - min(values))
    axis = Axis.around("score (%)", [min(values) - room, max(values) + room])
    return Axis(axis.label, max(0.0, axis.low), min(100.0, axis.high))


def _marked(outcome: Outcome) -> str:
    return outcome.method + ("" if outcome.complete else f" {UNFINISHED}")
