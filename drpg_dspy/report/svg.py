"""A small plot as SVG: axes with ticks, lines, bands, markers. Text stays text."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from drpg_dspy.report.tables import readable

__all__ = ["Axis", "Plot", "Style", "escaped", "styles"]

# Okabe and Ito's palette, told apart with every kind of colour vision, without its yellow,
# which is too light for lines on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_DASHES = ("", "7 3", "2 2", "9 3 2 3")
_MARKERS = ("circle", "square", "triangle", "diamond", "cross", "down", "plus")

_SMALL = 300
"""Up to this width a title begins at the edge, to have room."""

_TITLE_WIDTH = 7.4
_TOUCHING = 8.0

_FAINT = 'fill="none" stroke="#cfcfcf" stroke-width="1"'

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 26, 44
_LABEL_HEIGHT, _LETTER_WIDTH = 11, 6.5
_RINGS = (24, 38, 54)
_DIRECTIONS = [math.pi * n / 6 for n in range(12)]
"""Where a label goes, with a line to its point, when there is no room beside it."""


@dataclass(frozen=True, slots=True)
class Style:
    """How one method is drawn, everywhere: colour and marker alone tell it.

    Attributes:
        colour: Of lines and markers.
        dash: Of lines; ``""`` = none.
        marker: Its shape.
        hollow: A marker's inside is white.
    """

    colour: str
    dash: str
    marker: str
    hollow: bool = False

    def swatch(self, *, line: bool = True) -> str:
        """Return the style as a legend shows it, with its line or the marker alone."""
        width = 40 if line else 14
        drawn = f'<line x1="1" y1="7" x2="39" y2="7" {self._stroke()}/>' if line else ""
        mark = _marker(self.marker, width / 2, 7, 4, self.paint())
        return (
            f'<svg class="swatch" width="{width}" height="14" viewBox="0 0 {width} 14" '
            f'aria-hidden="true">{drawn}{mark}</svg>'
        )

    def paint(self) -> str:
        """Return the attributes of a marker."""
        if self.marker in ("cross", "plus"):
            return f'fill="none" stroke="{self.colour}" stroke-width="2.2"'
        if self.hollow:
            return f'fill="#fff" stroke="{self.colour}" stroke-width="2"'
        return f'fill="{self.colour}" stroke="#fff" stroke-width="0.8"'

    def _stroke(self) -> str:
        dash = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        return f'fill="none" stroke="{self.colour}" stroke-width="1.8"{dash}'


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        label: What it measures, with the unit.
        low, high: Its ends; for a logarithmic one both above 0.
        log: Equal steps are equal ratios.
    """

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, label: str, values: Sequence[float], *, zero: bool = False) -> Axis:
        """Return an axis with round ends around values; with ``zero`` it begins at 0."""
        low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
        low = 0.0 if zero else low
        if high - low < 1e-9:
            low, high = (0.0 if zero else low - 0.5), high + 0.5
        step = _round_step((high - low) / 5)
        return cls(
            label, math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        )

    @classmethod
    def ratios(cls, label: str, values: Sequence[float]) -> Axis:
        """Return a logarithmic axis around values above 0."""
        low, high = min(values) / 1.25, max(values) * 1.25
        return cls(label, low, high, log=True)

    def at(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return the values to be marked."""
        if not self.log:
            step = _round_step((self.high - self.low) / 5)
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            return [i * step for i in range(first, last + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        marks = [m * 10.0**decade for decade in decades for m in (1, 2, 5)]
        return [mark for mark in marks if self.low <= mark <= self.high]


class Plot:
    """Axes and what is drawn between them.

    Args:
        title: Stands above the plot.
        x, y: The axes.
        width, height: In CSS pixels.
    """

    def __init__(self, title: str, x: Axis, y: Axis, width: int = 540, height: int = 300) -> None:
        self.title = title
        self.x = x
        self.y = y
        self.width = width
        self.height = height
        self._below: list[str] = []
        self._above: list[str] = []
        self._marks: list[str] = []
        self._labels: list[str] = []
        self._taken: list[tuple[float, float, float, float]] = []
        self._points: list[tuple[float, float, Style]] = []

    def band(self, xs: np.ndarray, lows: np.ndarray, highs: np.ndarray, style: Style) -> None:
        """Fill the area between two curves."""
        there = list(self._places(xs, highs))
        back = list(self._places(xs[::-1], lows[::-1]))
        if len(xs) > 1:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in [*there, *back]) + "Z"
            self._below.append(
                f'<path d="{path}" fill="{style.colour}" fill-opacity="0.13" stroke="none"/>'
            )

    def others(self, curves: Sequence[tuple[np.ndarray, np.ndarray]], name: str) -> None:
        """Draw curves in light grey below everything else.

        Args:
            curves: Their points.
            name: Under which other plots with the same axes can show them: :meth:`same_others`.
        """
        paths = (self._path(xs, ys) for xs, ys in curves)
        drawn = "".join(f'<path d="{path}" {_FAINT}/>' for path in paths if path)
        self._below.insert(0, f'<g id="{escaped(name)}">{drawn}</g>')

    def same_others(self, name: str) -> None:
        """Draw what :meth:`others` of another plot of the page drew under this name."""
        self._below.insert(0, f'<use href="#{escaped(name)}"/>')

    def line(self, xs: np.ndarray, ys: np.ndarray, style: Style, phase: float = 0.0) -> None:
        """Draw a curve with a few markers on it.

        Args:
            xs, ys: Its points.
            style: Of its method.
            phase: In [0, 1): shifts the markers, so that those of several curves lie apart.
        """
        places = list(self._places(xs, ys))
        if not places:
            return
        self._above.append(f'<path d="{self._path(xs, ys)}" {style._stroke()}/>')
        spots = np.unique(((np.arange(6) + phase) / 6 * (len(places) - 1)).round().astype(int))
        for spot in spots if len(places) > 1 else [0]:
            self._above.append(_marker(style.marker, *places[spot], 4.2, style.paint()))

    def point(self, x: float, y: float, style: Style, tooltip: str) -> None:
        """Draw one marker; its tooltip says what it is."""
        (left, top), *_ = self._places(np.array([x]), np.array([y]))
        mark = _marker(style.marker, left, top, 5.5, style.paint())
        self._marks.append(f"<g><title>{escaped(tooltip)}</title>{mark}</g>")
        self._taken.append((left - 6, top - 6, left + 6, top + 6))
        self._points.append((left, top, style))

    @property
    def crowded(self) -> bool:
        """True when points of different styles lie on each other."""
        return any(
            one[2] != other[2] and math.dist(one[:2], other[:2]) < _TOUCHING
            for one, other in itertools.combinations(self._points, 2)
        )

    def label(self, x: float, y: float, text: str) -> None:
        """Write a short text beside a point, where it covers no point and no other label.

        To be called after all points are drawn.
        """
        (left, top), *_ = self._places(np.array([x]), np.array([y]))
        width = len(text) * _LETTER_WIDTH
        middle = top - _LABEL_HEIGHT / 2
        beside = [
            (left + 9, middle),
            (left - 9 - width, middle),
            (left - width / 2, top - 8 - _LABEL_HEIGHT),
            (left - width / 2, top + 8),
            (left + 7, top - 7 - _LABEL_HEIGHT),
            (left + 7, top + 7),
            (left - 7 - width, top - 7 - _LABEL_HEIGHT),
            (left - 7 - width, top + 7),
        ]
        around = [(round(left + r * math.cos(a) - width / 2, 1), round(middle - r * math.sin(a), 1))
                  for r in _RINGS for a in _DIRECTIONS]  # fmt: skip
        boxes = [(sx, sy, sx + width, sy + _LABEL_HEIGHT) for sx, sy in (*beside, *around)]
        box = min(boxes, key=self._covered)
        self._taken.append(box)
        if boxes.index(box) >= len(beside):
            x2, y2 = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            self._below.append(
                f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="lead"/>'
            )
        self._labels.append(
            f'<text x="{box[0]:.1f}" y="{box[3] - 1.5:.1f}" class="label">{escaped(text)}</text>'
        )

    def _covered(self, box: tuple[float, ...]) -> float:
        """Return how much of a label's box is taken, or lies beyond the axes."""
        inside = _overlap(box, (_LEFT, _TOP - 8, self.width - 2, self.height - _BOTTOM))
        beyond = (box[2] - box[0]) * (box[3] - box[1]) - inside
        return beyond + sum(_overlap(box, other) for other in self._taken)

    def render(self, name: str) -> str:
        """Return the plot.

        Args:
            name: Unique in the page; letters, digits and hyphens.
        """
        w, h = self.width - _LEFT - _RIGHT, self.height - _TOP - _BOTTOM
        clip = f"clip-{name}"
        drawn = "".join([*self._below, *self._above])
        middle = _TOP + h / 2
        return (
            f'<svg class="plot" role="img" aria-label="{escaped(self.title)}" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}">'
            f'<clipPath id="{clip}"><rect x="{_LEFT}" y="{_TOP - 4}" width="{w}" '
            f'height="{h + 8}"/></clipPath>'
            f'<text x="{_LEFT if self.width > _SMALL else 4}" y="15" class="title">'
            f"{escaped(self._heading())}</text>"
            f"{self._grid(w, h)}"
            f'<g clip-path="url(#{clip})">{drawn}</g>{"".join([*self._marks, *self._labels])}'
            f'<text x="{_LEFT + w / 2:.0f}" y="{self.height - 8}" text-anchor="middle">'
            f"{escaped(self.x.label)}</text>"
            f'<text x="13" y="{middle:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 13 {middle:.0f})">{escaped(self.y.label)}</text></svg>'
        )

    def _heading(self) -> str:
        most = int((self.width - (_LEFT if self.width > _SMALL else 4)) / _TITLE_WIDTH)
        return self.title if len(self.title) <= most else f"{self.title[: most - 1]}…"

    def _grid(self, w: int, h: int) -> str:
        parts = []
        for tick in self.y.ticks():
            y = _TOP + h * (1 - self.y.at(tick))
            parts.append(
                f'<line x1="{_LEFT}" x2="{_LEFT + w}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
                f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        for tick in self.x.ticks():
            x = _LEFT + w * self.x.at(tick)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP + h}" y2="{_TOP + h + 4}" '
                f'class="axis"/><text x="{x:.1f}" y="{_TOP + h + 17}" text-anchor="middle">'
                f"{tick:g}</text>"
            )
        parts.append(f'<path d="M{_LEFT} {_TOP}V{_TOP + h}H{_LEFT + w}" class="axis" fill="none"/>')
        return "".join(parts)

    def _path(self, xs: np.ndarray, ys: np.ndarray) -> str:
        places = [f"{x:.1f} {y:.1f}" for x, y in self._places(xs, ys)]
        return "M" + "L".join(places) if places else ""

    def _places(self, xs: np.ndarray, ys: np.ndarray) -> Iterator[tuple[float, float]]:
        w, h = self.width - _LEFT - _RIGHT, self.height - _TOP - _BOTTOM
        for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
            yield _LEFT + w * self.x.at(x), _TOP + h * (1 - self.y.at(y))


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return a style for each method.

    No two of the first 49 share colour and marker. Every second round of colours has hollow
    markers, so that the same shape in two colours differs without colour vision as well.
    """
    found = {}
    for i, method in enumerate(methods):
        turn, place = divmod(i, len(_COLOURS))
        found[method] = Style(
            _COLOURS[place],
            _DASHES[turn % len(_DASHES)],
            _MARKERS[(place + turn) % len(_MARKERS)],
            hollow=turn % 2 == 1,
        )
    return found


def escaped(text: str) -> str:
    """Return text for HTML and SVG, in elements and attributes."""
    return html.escape(readable(text))


def _round_step(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))


def _overlap(box: tuple[float, ...], other: tuple[float, ...]) -> float:
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _marker(shape: str, x: float, y: float, r: float, paint: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}/>'
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
        "down": [(0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
        "diamond": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
    }
    if shape in corners:
        points = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners[shape])
        return f'<polygon points="{points}" {paint}/>'
    d = r if shape == "plus" else 0.8 * r  # arms of equal length
    if shape == "plus":
        strokes = f"M{x - d:.1f} {y:.1f}h{2 * d:.1f}M{x:.1f} {y - d:.1f}v{2 * d:.1f}"
    else:
        down = f"M{x - d:.1f} {y - d:.1f}l{2 * d:.1f} {2 * d:.1f}"
        strokes = f"{down}m{-2 * d:.1f} 0l{2 * d:.1f} {-2 * d:.1f}"
    return f'<path d="{strokes}" {paint}/>'
