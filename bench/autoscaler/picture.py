"""Draws days: the load in slots, and the slots that each algorithm gave the job, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bench.autoscaler.traces import DAY, TICK
from bench.autoscaler.world import ROWS_PER_SLOT

_WIDTH, _PANEL, _GAP, _LEFT, _RIGHT, _TOP = 900, 190, 40, 50, 250, 30
_FONT = 'font-family="sans-serif" font-size="12"'
_COLOURS = ("#c0392b", "#1f77b4", "#2e8b57")
_EVERY = 12
"""Ticks a point."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One trace: records per second by tick, and slots by tick and algorithm."""

    title: str
    rates: Sequence[float]
    slots: Mapping[str, Sequence[int]]


def draw(panels: Sequence[Panel]) -> str:
    """Return the SVG."""
    height = _TOP + len(panels) * (_PANEL + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, _TOP + number * (_PANEL + _GAP), legend=number == 0)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: float, *, legend: bool) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, top + _PANEL
    highest = max(max(panel.rates) / ROWS_PER_SLOT, *(max(slots) for slots in panel.slots.values()))

    def x(tick: int) -> float:
        return _LEFT + tick * TICK / DAY * (right - _LEFT)

    def y(slots: float) -> float:
        return bottom - slots / highest * _PANEL

    parts = [f'<text x="{_LEFT}" y="{top - 8}" font-size="14">{escape(panel.title)}: task slots</text>']
    for hour in range(0, 25, 4):
        at = x(hour * 3600 // TICK)
        parts.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">{hour} h</text>')
    step = next(each for each in (5, 10, 20) if highest / each <= 6) if highest <= 120 else 40
    for slots in range(0, int(highest) + 1, step):
        parts.append(f'<line x1="{_LEFT}" y1="{y(slots):.1f}" x2="{right}" y2="{y(slots):.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(slots) + 4:.1f}" text-anchor="end">{slots}</text>')
    load = [
        f"{x(tick):.1f},{y(max(panel.rates[tick : tick + _EVERY]) / ROWS_PER_SLOT):.1f}"
        for tick in range(0, len(panel.rates), _EVERY)
    ]
    corners = " ".join([f"{_LEFT},{bottom}", *load, f"{right},{bottom}"])
    parts.append(f'<polygon points="{corners}" fill="#bbb" fill-opacity="0.6" stroke="none"/>')
    names = list(panel.slots)
    for name, colour in zip(names, _COLOURS, strict=False):
        parts.append(
            f'<polyline points="{_steps(panel.slots[name], x, y)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
    if legend:
        keys = [("load, in slots", "#bbb"), *zip(names, _COLOURS, strict=False)]
        for number, (name, colour) in enumerate(keys):
            at = top + 14 + 20 * number
            parts.append(
                f'<line x1="{right + 10}" y1="{at - 4}" x2="{right + 30}" y2="{at - 4}" stroke="{colour}" '
                'stroke-width="3"/>'
            )
            parts.append(f'<text x="{right + 36}" y="{at}">{escape(name)}</text>')
    return parts


def _steps(slots: Sequence[int], x: object, y: object) -> str:
    assert callable(x)
    assert callable(y)
    points, last = [], None
    for tick, number in enumerate(slots):
        if number != last:
            if last is not None:
                points.append(f"{x(tick):.1f},{y(last):.1f}")
            points.append(f"{x(tick):.1f},{y(number):.1f}")
            last = number
    points.append(f"{x(len(slots)):.1f},{y(last):.1f}")
    return " ".join(points)
