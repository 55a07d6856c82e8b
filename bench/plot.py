"""Draws lines over two logarithmic axes as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 180, 30, 60
_FONT = 'font-family="sans-serif" font-size="12"'
_COLOURS = ("#c0392b", "#1f77b4", "#2e8b57", "#8e44ad", "#7f7f7f")


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high`, with its label."""

    label: str
    low: float
    high: float

    def share(self, value: float) -> float:
        """Return where a value lies, 0 to 1."""
        low, high = math.log10(self.low), math.log10(self.high)
        return (math.log10(min(max(value, self.low), self.high)) - low) / (high - low)

    def decades(self) -> list[float]:
        """Return the powers of ten on the axis."""
        exponents = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        return [10.0**exponent for exponent in exponents]


def draw(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """Return an SVG of named lines."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
    ]
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value in x.decades():
        at = _x(x, value)
        parts.append(f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
    for value in y.decades():
        at = _y(y, value)
        parts.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<text x="{(_LEFT + right) / 2:.0f}" y="{bottom + 42}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(
        f'<text transform="translate(20 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>'
    )
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{_x(x, px):.1f},{_y(y, py):.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{_x(x, px):.1f}" cy="{_y(y, py):.1f}" r="3.5" fill="{colour}"/>' for px, py in points]
        key = _TOP + 14 + 20 * number
        parts.append(
            f'<line x1="{right + 12}" y1="{key - 4}" x2="{right + 32}" y2="{key - 4}" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        parts.append(f'<text x="{right + 38}" y="{key}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)
