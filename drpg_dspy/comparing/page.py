"""The page of a comparison: one HTML file without outside resources and without code."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from drpg_dspy.comparing.results import Summary, Versus

if TYPE_CHECKING:
    from drpg_dspy.comparing.comparison import Comparison

__all__ = ["render"]

_STYLE = """
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 1160px; color: #1a1a1a;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .8rem; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid #e2e2e2;
  font-variant-numeric: tabular-nums; } td { white-space: nowrap; }
th { border-bottom: 2px solid #555; vertical-align: bottom; } .head { text-align: left; }
.notes { border-left: 4px solid #d55e00; padding-left: 2rem; overflow-wrap: anywhere; }
.plain { color: #444; font-size: .87rem; max-width: 60rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .6rem;
  font-size: .82rem; } summary { cursor: pointer; font-weight: 600; }
svg text { font: 12px system-ui, sans-serif; fill: #1a1a1a; }
td.yes { background: #cfe8f7; } td.no { background: #f6dfb0; } td.none { background: #eee; }
table.grid { font-size: .72rem; } table.grid td { padding: .1rem .35rem; border: 1px solid #fff; }
"""

_WIDTH, _LEFT, _RIGHT, _LINE = 760, 190, 90, 30


def render(comparison: Comparison) -> str:
    """Return the page; whatever models and users wrote is escaped."""
    columns = comparison.columns
    parts = [
        f"<h1>{escape(comparison.title)}</h1>",
        _intro(comparison),
        _notes(comparison.notes()),
        "<h2>Scores</h2>",
        _table(comparison.rows()),
        "<p class=plain>Held-out score: all columns answered the same questions; failed and "
        "unjudged ones add nothing. Its interval is Wilson's, or the bootstrap's over questions "
        "where scores are graded or seeds several. Prequential: each training question answered "
        "before its verdict was learned from; columns that learn offline have none. LM calls and "
        "tokens of learning count whoever made them: program, prompt model, policy writer, judge."
        "</p>",
        _chart(columns) if columns else "",
        "<h2>Each against each</h2>",
        _tests(comparison.tests),
        "<p class=plain>Differences are in points, first minus second, with the 95 % interval of "
        "the paired bootstrap over questions; p is the exact two-sided McNemar test. No "
        "correction for the number of pairs was made.</p>",
        "<h2>Question by question</h2>",
        _grid(comparison),
        "<h2>What each one learned</h2>",
        *_kept(comparison),
        "<h2>Settings</h2>",
        f"<pre>{escape(json.dumps(dict(comparison.settings), indent=1, default=str))}</pre>",
        f"<p class=plain>{escape(_versions(comparison))}</p>",
    ]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(comparison.title)}</title><style>{_STYLE}</style></head><body>"
    )
    return "\n".join([head, *parts, "</body></html>\n"])


def _intro(comparison: Comparison) -> str:
    budget = comparison.settings.get("budget", {})
    limits = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in budget.items())
    lm = comparison.settings.get("lm", "")
    text = f"Budget of each column's learning: {limits or 'none'}. Answers: {lm}."
    return f"<p class=plain>{escape(text)}</p>"


def _versions(comparison: Comparison) -> str:
    return ", ".join(f"{name} {version}" for name, version in comparison.versions.items())


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<ul class=notes>{items}</ul>"


def _table(rows: Iterable[Sequence[str]]) -> str:
    header, *body = rows
    return (
        "<div class=scroll><table><thead><tr>"
        + "".join(f"<th{_head(i)}>{escape(cell)}</th>" for i, cell in enumerate(header))
        + "</tr></thead><tbody>"
        + "".join(
            "<tr>"
            + "".join(f"<td{_head(i)}>{escape(cell)}</td>" for i, cell in enumerate(row))
            + "</tr>"
            for row in body
        )
        + "</tbody></table></div>"
    )


def _head(place: int) -> str:
    return ' class="head"' if place == 0 else ""


def _tests(tests: Sequence[Versus]) -> str:
    rows: list[tuple[str, ...]] = [
        ("first", "second", "questions", "difference", "95 % interval", "only first right",
         "only second right", "McNemar p"),
    ]  # fmt: skip
    for test in tests:
        low, high = test.interval
        rows.append(
            (
                test.first,
                test.second,
                str(test.n),
                "–" if math.isnan(test.difference) else f"{100 * test.difference:+.1f}",
                "–" if math.isnan(low) else f"{100 * low:+.1f} to {100 * high:+.1f}",
                str(test.sign.only_first),
                str(test.sign.only_second),
                f"{test.sign.two_sided:.3f}",
            )
        )
    return _table(rows)


def _chart(columns: Sequence[Summary]) -> str:
    """Draw each score with its interval on one scale."""
    span = _WIDTH - _LEFT - _RIGHT
    height = _LINE * (len(columns) + 1)

    def x(share: float) -> float:
        return _LEFT + span * min(1.0, max(0.0, share))

    parts = [
        f'<line x1="{x(tick / 4):.0f}" x2="{x(tick / 4):.0f}" y1="0" y2="{height - _LINE}" '
        f'stroke="#ddd"/><text x="{x(tick / 4):.0f}" y="{height - 10}" text-anchor="middle">'
        f"{25 * tick} %</text>"
        for tick in range(5)
    ]
    for place, column in enumerate(columns):
        y = _LINE * place + _LINE / 2
        low, high = column.interval
        parts.append(f'<text x="0" y="{y + 4:.0f}">{escape(column.name)}</text>')
        if not math.isnan(low):
            parts.append(
                f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}" stroke="#0072b2" '
                'stroke-width="2"/>'
            )
        parts.append(f'<circle cx="{x(column.score):.1f}" cy="{y}" r="5" fill="#0072b2"/>')
        label = f"{100 * column.score:.1f} %"
        parts.append(f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 4:.0f}">{label}</text>')
    return (
        f'<svg role="img" aria-label="Held-out scores with 95 % intervals" width="{_WIDTH}" '
        f'height="{height}" viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg>'
    )


def _grid(comparison: Comparison) -> str:
    """Show for each question which columns got it right under the first seed."""
    firsts = [found[0] for found in comparison.results.values()]
    if not firsts:
        return ""
    head = "".join(f"<th>{escape(result.name)}</th>" for result in firsts)
    rows = []
    for place, answer in enumerate(firsts[0].answers):
        cells = []
        for result in firsts:
            score = result.answers[place].score
            kind = "none" if math.isnan(score) else "yes" if score >= comparison.threshold else "no"
            shown = "not judged" if math.isnan(score) else f"{score:g}"
            cells.append(f"<td class={kind}>{shown}</td>")
        rows.append(f'<tr><td class="head">{escape(answer.id)}</td>{"".join(cells)}</tr>')
    return (
        "<details><summary>All held-out questions</summary><div class=scroll>"
        f'<table class=grid><thead><tr><th class="head">question</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _kept(comparison: Comparison) -> list[str]:
    return [
        f"<details><summary>{escape(name)}</summary><pre>{escape(found[0].kept)}</pre></details>"
        for name, found in comparison.results.items()
    ]
