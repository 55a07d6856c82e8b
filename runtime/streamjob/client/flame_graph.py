"""Draws a profile as a flame graph: an SVG without scripts, which names no other file.

A box is a function, as wide as its share of the CPU time with all that it called; the boxes below are its callees.
After Brendan Gregg, "The Flame Graph", Communications of the ACM 59(6), 2016.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr
from zlib import crc32

from streamjob.client.profile_models import ProcessProfile, ProfileView

_WIDTH = 1600
_HEIGHT = 17
_NARROWEST = 0.4
_CHARACTER = 6.6
_HEAD = 26


@dataclass(frozen=True, slots=True)
class Box:
    """A function in a flame graph: its name, its depth, and from where to where it goes, in ms."""

    name: str
    depth: int
    start: float
    millis: float


def boxes(process: ProcessProfile) -> Iterator[Box]:
    """Yield the boxes of a process, each before those that it called."""
    starts: list[float] = [0.0]
    for frame, depth, millis in process.nodes:
        start = starts[depth]
        yield Box(process.frames[frame], depth, start, millis)
        # Its callees begin where it begins, and the next box of this depth where it ends.
        starts[depth] = start + millis
        del starts[depth + 1 :]
        starts.append(start)


def svg(profile: ProfileView) -> str:
    """Return the flame graphs of all processes of a profile, one below the other, as a file in SVG."""
    parts: list[str] = []
    y = 0
    for process in profile.processes:
        drawn = list(boxes(process))
        parts.append(
            f'<text class="head" x="4" y="{y + 18}">{escape(_clean(headline(process, profile.seconds)))}</text>'
        )
        y += _HEAD
        if not drawn or not drawn[0].millis:
            continue
        scale = _WIDTH / drawn[0].millis
        rows = max(box.depth for box in drawn) + 1
        parts += [_drawn(box, y, scale, drawn[0].millis) for box in drawn if box.millis * scale >= _NARROWEST]
        y += rows * _HEIGHT + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 4}" width="{_WIDTH}" height="{y + 4}">\n'
        "<style>svg{background:#fff}text{font:11px ui-monospace,monospace;fill:#111}.head{font:bold 14px sans-serif}"
        "rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def headline(process: ProcessProfile, seconds: float) -> str:
    """Return the title of a process's flame graph."""
    title = f"{process.process}, {process.language.capitalize()}"
    if process.failure is not None:
        return f"{title}: {process.failure}"
    return f"{title}: {process.cpu_ms / 1000:.1f} s of CPU time in {seconds:g} s"


def _drawn(box: Box, y: int, scale: float, whole: float) -> str:
    top = y + box.depth * _HEIGHT
    x, width = box.start * scale, box.millis * scale
    name = _clean(box.name)
    title = f"{name}: {box.millis:.0f} ms, {box.millis / whole:.1%}"
    fits = int((width - 6) / _CHARACTER)
    text = ""
    if fits >= 3:
        shown = name if len(name) <= fits else "…" + name[-(fits - 1) :]
        text = f'<text x="{x + 3:.1f}" y="{top + 12}">{escape(shown)}</text>'
    # One function has the same colour everywhere, in shades of warm colours.
    colour = f"hsl({10 + crc32(name.encode()) % 45} 85% {62 + crc32(name.encode()) // 64 % 14}%)"
    return (
        f"<g><title>{escape(title)}</title>"
        f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_HEIGHT - 1}" fill={quoteattr(colour)}/>{text}</g>'
    )


def _clean(text: str) -> str:
    """Return a text without the characters that XML forbids."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text.encode("utf-8", "replace").decode())


def folded(profile: ProfileView) -> str:
    """Return the stacks of a profile as lines for other tools: frames with semicolons between, and milliseconds."""
    lines: list[str] = []
    for process in profile.processes:
        own: list[float] = [node[2] for node in process.nodes]
        path: list[tuple[int, str]] = []
        stacks: list[str] = []
        for number, (frame, depth, millis) in enumerate(process.nodes):
            del path[depth:]
            if path:
                own[path[-1][0]] -= millis
            path.append((number, process.frames[frame].replace(";", ",")))
            stacks.append(";".join([f"{process.process} {process.language}", *(name for _, name in path[1:])]))
        lines += [f"{stack} {round(millis)}" for stack, millis in zip(stacks, own, strict=True) if millis >= 0.5]
    return "".join(" ".join(line.split("\n")) + "\n" for line in lines)


def hottest(process: ProcessProfile, most: int = 10) -> list[tuple[str, float]]:
    """Return the functions with the most CPU time of their own, callees not included, in ms."""
    own: dict[str, float] = {}
    path: list[str] = []
    for frame, depth, millis in process.nodes:
        name = process.frames[frame]
        del path[depth:]
        if path:
            own[path[-1]] -= millis
        own[name] = own.get(name, 0.0) + millis
        path.append(name)
    return sorted(((name, each) for name, each in own.items() if each >= 0.5), key=lambda pair: -pair[1])[:most]
