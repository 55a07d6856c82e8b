"""Draws bars of CPU per row, by query and side, on a logarithmic axis, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from bench.plot import Axis

_COLOURS = ("#c0392b", "#7f7f7f", "#1f77b4")
_WIDTH, _LEFT, _TOP, _BAR, _GAP, _RIGHT = 860, 110, 60, 12, 14, 70
_FONT = 'font-family="sans-serif" font-size="12"'


def draw(bars: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return the SVG.

    Args:
        bars: CPU microseconds per row, by query and side; None where nothing was measured.
    """
    sides = list(next(iter(bars.values()), {}))
    values = [value for each in bars.values() for value in each.values() if value]
    low = 10.0 ** math.floor(math.log10(min(values, default=1)))
    high = 10.0 ** math.ceil(math.log10(max(values, default=10)))
    group = len(sides) * _BAR + _GAP
    height = _TOP + len(bars) * group + 40
    axis = Axis("CPU microseconds per row", low, high)

    def width(value: float) -> float:
        return axis.share(value) * (_WIDTH - _LEFT - _RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="10" y="20" font-size="15">Nexmark: CPU microseconds per row, start included (less is better)</text>',
    ]
    for number, side in enumerate(sides):
        x = _LEFT + number * 160
        parts.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{_COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 18}" y="42">{escape(side)}</text>')
    for tick in axis.decades():
        right = _LEFT + width(tick)
        parts.append(f'<line x1="{right:.1f}" x2="{right:.1f}" y1="{_TOP - 6}" y2="{height - 30}" stroke="#ddd"/>')
        parts.append(f'<text x="{right:.1f}" y="{height - 14}" text-anchor="middle">{tick:g}</text>')
    for row, (query, by_side) in enumerate(bars.items()):
        y = _TOP + row * group
        parts.append(f'<text x="{_LEFT - 8}" y="{y + group / 2}" text-anchor="end">{escape(query)}</text>')
        for number, value in enumerate(by_side.values()):
            if value:
                length, top = max(1.0, width(value)), y + number * _BAR
                parts.append(
                    f'<rect x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR - 2}" fill="{_COLOURS[number]}"/>'
                )
                parts.append(f'<text x="{_LEFT + length + 5:.1f}" y="{top + 9}" font-size="10">{value:.3g}</text>')
    return "\n".join([*parts, "</svg>", ""])
