"""Figures that can be read: what is drawn apart looks apart, and no plot is mostly empty."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from drpg_dspy.analysis.comparison import Outcome, Results
from drpg_dspy.analysis.series import Series
from drpg_dspy.report.charts import curves, scatter
from drpg_dspy.report.svg import Axis, Plot, styles


def outcome(method: str, scores: Sequence[float], tokens: float = 10) -> Outcome:
    steps, none = np.arange(1, len(scores) + 1), np.zeros(len(scores))
    columns = dict.fromkeys(
        ("prompt_tokens", "calls", "cost", "policy_prompt_tokens", "policy_completion_tokens",
         "policy_calls", "seconds"), none,
    )  # fmt: skip
    series = Series(
        steps=steps, scores=np.array(scores, dtype=float), failed=none.astype(bool),
        waiting=none.astype(bool), completion_tokens=np.full(len(scores), tokens), **columns,
    )  # fmt: skip
    return Outcome(method, "bench", "small", method, series)


def made(count: int, length: int = 60) -> Results:
    """Return methods whose scores and tokens differ."""
    random = np.random.default_rng(1)
    return Results(
        outcome(f"method-{n}", random.random(length) < (n + 1) / (count + 1), 10 + 7 * n)
        for n in range(count)
    )


def ticks(plot: str) -> list[str]:
    return re.findall(r'text-anchor="middle">([\d.]+)<', plot)


def test_colour_and_marker_tell_49_methods_apart() -> None:
    found = styles([str(n) for n in range(49)]).values()

    assert len({(style.colour, style.marker) for style in found}) == 49


def test_every_second_round_of_colours_has_hollow_markers() -> None:
    first, second, third = (
        list(styles([str(n) for n in range(21)]).values())[n] for n in (0, 7, 14)
    )

    assert (first.hollow, second.hollow, third.hollow) == (False, True, False)
    assert 'fill="#fff"' in second.paint()


def test_many_methods_are_numbered_in_the_legend_and_at_their_points() -> None:
    results = made(24)

    figure = scatter(results, styles(results.methods))

    assert figure is not None
    assert figure.numbered
    assert [name for name, _ in figure.legend][:2] == ["1 method-0", "2 method-1"]
    shown = re.findall(r'class="label">(\d+)<', figure.plots[0])
    assert sorted(map(int, shown)) == list(range(1, 25))


def test_few_methods_that_lie_apart_need_no_numbers() -> None:
    results = made(3)

    figure = scatter(results, styles(results.methods))

    assert figure is not None
    assert not figure.numbered
    assert "label" not in figure.plots[0].replace("aria-label", "")


def test_points_that_lie_on_each_other_are_numbered() -> None:
    results = Results([outcome("a", [1, 0]), outcome("b", [0, 1])])

    figure = scatter(results, styles(results.methods))

    assert figure is not None
    assert figure.numbered


def test_labels_of_a_crowd_do_not_lie_on_each_other() -> None:
    plot = Plot("crowd", Axis("x", 0, 10), Axis("y", 0, 10))
    looks = list(styles([str(n) for n in range(16)]).values())
    for look in looks:
        plot.point(5, 5, look, "")
    for n in range(16):
        plot.label(5, 5, str(n))

    drawn = plot.render("crowd")
    boxes = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="label"', drawn)
    assert len(set(boxes)) == 16
    assert plot.crowded


@pytest.mark.parametrize(("count", "figures", "plots"), [(5, 1, 2), (6, 2, 6), (13, 2, 13)])
def test_more_than_five_runs_get_a_plot_each_with_the_others_in_grey(
    count: int, figures: int, plots: int
) -> None:
    results = made(count)

    found = curves(results, styles(results.methods), 50)

    assert [len(figure.plots) for figure in found] == [plots] * figures
    if count > 5:
        assert [figure.legend for figure in found] == [(), ()]
        first, *others = found[0].plots
        assert first.count("#cfcfcf") == count
        assert all(plot.count('<use href="#curve-0-0-others"/>') == 1 for plot in others)
        assert all(plot.count("fill-opacity") == 1 for plot in found[0].plots)
        assert "method-3" in others[2]


def test_the_rolling_curve_begins_at_the_edge_of_its_plot() -> None:
    results = made(2)

    (figure,) = curves(results, styles(results.methods), 50)

    so_far, lately = figure.plots
    assert ticks(so_far)[:2] == ["0", "20"]
    assert ticks(lately)[:2] == ["50", "52"]
    assert 'd="M52.0 ' in lately


def test_a_stream_shorter_than_the_window_is_shown_by_half_its_length() -> None:
    results = made(2, length=20)

    (figure,) = curves(results, styles(results.methods), 50)

    assert "Last 10 judged questions" in figure.plots[1]
    assert ticks(figure.plots[1])[0] == "10"


def test_one_question_has_curves_and_the_axis_has_a_length() -> None:
    results = made(2, length=1)

    (figure,) = curves(results, styles(results.methods), 50)

    assert "Last 1 judged questions" in figure.plots[1]
    assert "nan" not in "".join(figure.plots)


def test_equal_scores_do_not_blow_up_the_axis() -> None:
    results = Results([outcome("a", [0, 0], 5), outcome("b", [0, 0], 500)])

    figure = scatter(results, styles(results.methods))

    assert figure is not None
    assert re.findall(r'text-anchor="end">([\d.]+)<', figure.plots[0]) == ["0", "2", "4", "6"]
