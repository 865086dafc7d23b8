"""A small plot as SVG: axes with ticks, lines, bands, markers. Text stays text."""

from __future__ import annotations

import html
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

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 26, 44
_LABEL_HEIGHT, _LETTER_WIDTH = 11, 6.5


@dataclass(frozen=True, slots=True)
class Style:
    """How one method is drawn, everywhere: colour, dashes and marker together tell it."""

    colour: str
    dash: str
    marker: str

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
        self._labels: list[str] = []
        self._taken: list[tuple[float, float, float, float]] = []

    def band(self, xs: np.ndarray, lows: np.ndarray, highs: np.ndarray, style: Style) -> None:
        """Fill the area between two curves."""
        there = list(self._places(xs, highs))
        back = list(self._places(xs[::-1], lows[::-1]))
        if len(xs) > 1:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in [*there, *back]) + "Z"
            self._below.append(
                f'<path d="{path}" fill="{style.colour}" fill-opacity="0.13" stroke="none"/>'
            )

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
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        self._above.append(f'<path d="{path}" {style._stroke()}/>')
        spots = np.unique(((np.arange(6) + phase) / 6 * (len(places) - 1)).round().astype(int))
        for spot in spots if len(places) > 1 else [0]:
            self._above.append(_marker(style.marker, *places[spot], 4.2, style.paint()))

    def point(self, x: float, y: float, style: Style, tooltip: str) -> None:
        """Draw one marker; its tooltip says what it is."""
        (left, top), *_ = self._places(np.array([x]), np.array([y]))
        mark = _marker(style.marker, left, top, 5.5, style.paint())
        self._above.append(f"<g><title>{escaped(tooltip)}</title>{mark}</g>")
        self._taken.append((left - 6, top - 6, left + 6, top + 6))

    def label(self, x: float, y: float, text: str) -> None:
        """Write a short text beside a point, where it covers no point and no other label.

        To be called after all points are drawn.
        """
        (left, top), *_ = self._places(np.array([x]), np.array([y]))
        width = len(text) * _LETTER_WIDTH
        spots = [
            (left + 8, top - _LABEL_HEIGHT / 2),
            (left - 8 - width, top - _LABEL_HEIGHT / 2),
            (left - width / 2, top - 8 - _LABEL_HEIGHT),
            (left - width / 2, top + 8),
            (left + 7, top - 7 - _LABEL_HEIGHT),
            (left + 7, top + 7),
        ]
        boxes = [(sx, sy, sx + width, sy + _LABEL_HEIGHT) for sx, sy in spots]
        box = min(boxes, key=lambda b: sum(_overlap(b, other) for other in self._taken))
        self._taken.append(box)
        self._labels.append(
            f'<text x="{box[0]:.1f}" y="{box[3] - 1.5:.1f}" class="label">{escaped(text)}</text>'
        )

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
            f'<text x="{_LEFT}" y="15" class="title">{escaped(self.title)}</text>'
            f"{self._grid(w, h)}"
            f'<g clip-path="url(#{clip})">{drawn}</g>{"".join(self._labels)}'
            f'<text x="{_LEFT + w / 2:.0f}" y="{self.height - 8}" text-anchor="middle">'
            f"{escaped(self.x.label)}</text>"
            f'<text x="13" y="{middle:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 13 {middle:.0f})">{escaped(self.y.label)}</text></svg>'
        )

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

    def _places(self, xs: np.ndarray, ys: np.ndarray) -> Iterator[tuple[float, float]]:
        w, h = self.width - _LEFT - _RIGHT, self.height - _TOP - _BOTTOM
        for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
            yield _LEFT + w * self.x.at(x), _TOP + h * (1 - self.y.at(y))


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return a style for each method; no two are alike among the first 28."""
    return {
        method: Style(
            _COLOURS[i % len(_COLOURS)],
            _DASHES[i // len(_COLOURS) % len(_DASHES)],
            _MARKERS[i % len(_MARKERS)],
        )
        for i, method in enumerate(methods)
    }


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
