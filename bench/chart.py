"""Pictures as SVG: dots with their ranges along an axis, and lines over one. Readable on light and on dark paper.

The colours are those of `chorale bench --plot`, told apart by people who see red and green alike; each series has a shape of
its own besides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

WIDTH = 860
RIGHT = 836
# Of each series, for light and for dark paper.
COLOURS = [
    ("#0072b2", "#58b4e8"),
    ("#7a7a7a", "#a9aeb3"),
    ("#009e73", "#35c79b"),
    ("#c77800", "#f0a83a"),
    ("#a8327e", "#e07cbc"),
    ("#d02020", "#ff6b6b"),
    ("#5b4bc4", "#a79bff"),
    ("#5f6f00", "#c3d23c"),
]
SHAPES = ["circle", "square", "triangle", "diamond"]


def _style() -> str:
    """The style sheet of every picture."""
    light = ".paper{fill:#ffffff}.title{fill:#1a1a1a;font-size:15px}.text{fill:#444444}.grid{stroke:#dddddd}.band{fill:#f4f5f6}"
    dark = ".paper{fill:#14171a}.title{fill:#f0f0f0}.text{fill:#b8bcc0}.grid{stroke:#33383d}.band{fill:#1b1f23}"
    for number, (bright, dim) in enumerate(COLOURS):
        light += f".s{number}{{fill:{bright};stroke:{bright}}}"
        dark += f".s{number}{{fill:{dim};stroke:{dim}}}"
    return f"{light}.line{{fill:none;stroke-width:1.8}}.dashed{{stroke-dasharray:5 4}}@media (prefers-color-scheme:dark){{{dark}}}"


def _open(height: float, title: str, below: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label={quoteattr(title)}>',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        _text(16, 42, below),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="text" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _mark(number: int, x: float, y: float, size: float = 4.0) -> str:
    """The sign of a series."""
    name, shape = f's{number % len(COLOURS)}', SHAPES[number % len(SHAPES)]
    if shape == "circle":
        return f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'
    corners = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "triangle": [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[shape]
    points = " ".join(f"{x + dx * size * 0.9:.1f},{y + dy * size * 0.9:.1f}" for dx, dy in corners)
    return f'<polygon class="{name}" points="{points}"/>'


def _legend(names: Sequence[str], y: float) -> tuple[list[str], float]:
    """The names with their signs, in as many lines as they need; and where the next thing may begin."""
    out, x = [], 16.0
    for number, name in enumerate(names):
        width = 24 + 6.6 * len(name)
        if x + width > RIGHT:
            x, y = 16.0, y + 18
        out += [_mark(number, x + 5, y - 4), _text(x + 15, y, name)]
        x += width
    return out, y + 16


def short(value: float) -> str:
    """A number at an axis."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


class _LogAxis:
    """Values along a logarithmic axis from one place to another."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low = math.log10(min(values)) - 0.05
        self.high = max(math.log10(max(values)) + 0.05, self.low + 0.3)
        self.begin, self.end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * share

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each power of ten; powers of ten alone where these are many."""
        exponents = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if self.high - self.low > 4 else (1, 2, 5)
        marks = [step * 10.0**exponent for exponent in exponents for step in steps]
        return [mark for mark in marks if self.low <= math.log10(mark) <= self.high]


class _EvenAxis:
    """Values from zero along an axis from one place to another."""

    def __init__(self, most: float, begin: float, end: float) -> None:
        self.most = most or 1.0
        self.begin, self.end = begin, end

    def at(self, value: float) -> float:
        return self.begin + (self.end - self.begin) * value / self.most


@dataclass
class Dots:
    """A row for each thing, and in it a sign for each series: the median, with a line over its range."""

    title: str
    below: str
    axis: str
    series: list[str]
    # Each row: its name, and for each series (median, smallest, largest), or nothing.
    rows: list[tuple[str, list[tuple[float, float, float] | None]]] = field(default_factory=list)

    def svg(self) -> str:
        """The picture."""
        left, step = 150, 7.0
        legend, top = _legend(self.series, 64)
        tall = step * len(self.series) + 10
        bottom = top + tall * len(self.rows)
        values = [value for _, cells in self.rows for cell in cells if cell for value in cell]
        axis = _LogAxis(values, left, RIGHT)
        out = _open(bottom + 46, self.title, self.below) + legend
        for place, (name, _) in enumerate(self.rows):
            y = top + place * tall
            if place % 2 == 0:
                out.append(f'<rect class="band" x="16" y="{y:.1f}" width="{RIGHT - 16}" height="{tall:.1f}"/>')
            out.append(_text(left - 10, y + tall / 2 + 4, name, "end"))
        for mark in axis.ticks():
            x = axis.at(mark)
            out += [_grid(x, top, x, bottom), _text(x, bottom + 16, short(mark), "middle")]
        for place, (_, cells) in enumerate(self.rows):
            for number, cell in enumerate(cells):
                if cell is None:
                    continue
                y = top + place * tall + 5 + step * (number + 0.5)
                middle, low, high = (axis.at(value) for value in cell)
                out.append(
                    f'<line class="s{number % len(COLOURS)}" x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke-width="1.5"/>'
                )
                out.append(_mark(number, middle, y, 3.4))
        out.append(_text((left + RIGHT) / 2, bottom + 36, self.axis, "middle"))
        return "\n".join([*out, "</svg>"]) + "\n"


@dataclass
class Line:
    """Values over another value; dashed where they are not measured."""

    name: str
    points: list[tuple[float, float]]
    is_dashed: bool = False


@dataclass
class Panel:
    """Lines with axes of their own: x logarithmic, or even and from zero; y from zero."""

    title: str
    x_axis: str
    y_axis: str
    lines: list[Line]
    is_even: bool = False


def panels(title: str, below: str, parts: Sequence[Panel]) -> str:
    """Panels beside each other, with one legend: lines of one name have one colour."""
    names = list(dict.fromkeys(line.name for part in parts for line in part.lines))
    legend, top = _legend(names, 64)
    top += 26
    bottom = top + 260
    out = _open(bottom + 50, title, below) + legend
    width = (RIGHT - 16) / len(parts)
    for place, part in enumerate(parts):
        left, right = 16 + place * width + 52, 16 + (place + 1) * width - 12
        points = [point for line in part.lines for point in line.points]
        values = sorted({x for x, _ in points})
        across = _EvenAxis(values[-1], left, right) if part.is_even else _LogAxis(values, left, right)
        most = max(y for _, y in points) * 1.08 or 1.0
        out.append(_text(left, top - 10, part.title))
        for y_tick in _even(most):
            y = bottom - (bottom - top) * y_tick / most
            out += [_grid(left, y, right, y), _text(left - 6, y + 4, short(y_tick), "end")]
        for x in _even(across.most) if isinstance(across, _EvenAxis) else values:
            at = across.at(x)
            out += [_grid(at, top, at, bottom), _text(at, bottom + 16, short(x), "middle")]
        for line in part.lines:
            number = names.index(line.name)
            at = [(across.at(x), bottom - (bottom - top) * y / most) for x, y in line.points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
            dashed = " dashed" if line.is_dashed else ""
            out.append(f'<polyline class="s{number % len(COLOURS)} line{dashed}" style="fill:none" points="{path}"/>')
            if not line.is_dashed:
                # Of a line of many, some say whose it is.
                out += [_mark(number, x, y) for x, y in at[:: 1 + len(at) // 20]]
        out.append(_text((left + right) / 2, bottom + 36, f"{part.x_axis}; upwards: {part.y_axis}", "middle"))
    return "\n".join([*out, "</svg>"]) + "\n"


def _even(most: float) -> list[float]:
    """Round marks from zero to the most."""
    rough = most / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * number for number in range(int(most / step) + 1)]
