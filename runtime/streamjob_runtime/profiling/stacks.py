"""Stacks with the CPU time that was spent in each, and the tree that a flame graph is drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamjob.client.profile_models import ProcessProfile

Stacks = Mapping[tuple[str, ...], float]
"""CPU time in ms by stack, which begins with the name of the thread."""

SMALLEST_SHARE = 0.0005
"""A frame with a smaller share of the CPU time is left out: it would be narrower than half a pixel."""
_LONGEST_NAME = 300


def parse(lines: str) -> dict[tuple[str, ...], float]:
    """Return the stacks in lines of frames with semicolons between, a blank, and milliseconds.

    Source of the form: Brendan Gregg's FlameGraph.
    """
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for line in lines.splitlines():
        stack, _, millis = line.rpartition(" ")
        found[tuple(stack.split(";"))] += float(millis)
    return dict(found)


def written(stacks: Stacks) -> str:
    """Return stacks as lines; see `parse`."""
    return "".join(f"{';'.join(stack)} {millis:.1f}\n" for stack, millis in stacks.items())


@dataclass
class _Node:
    millis: float = 0.0
    children: dict[str, _Node] = field(default_factory=dict)


def profile_of(process: str, language: Literal["java", "python"], stacks: Stacks) -> ProcessProfile:
    """Return the tree of a process's stacks, without what is too small to see.

    Args:
        process: the name of the process.
        language: the language of the stacks.
    """
    root = _Node()
    for stack, millis in stacks.items():
        node = root
        node.millis += millis
        for frame in stack:
            node = node.children.setdefault(frame[:_LONGEST_NAME], _Node())
            node.millis += millis
    frames: dict[str, int] = {}
    nodes: list[tuple[int, int, float]] = []
    waiting = [(process, root, 0)]
    while waiting:
        name, node, depth = waiting.pop()
        if depth and node.millis < root.millis * SMALLEST_SHARE:
            continue
        nodes.append((frames.setdefault(name, len(frames)), depth, round(node.millis, 1)))
        # In the order of names, so that the same code is at the same place in two profiles.
        waiting.extend((each, node.children[each], depth + 1) for each in sorted(node.children, reverse=True))
    return ProcessProfile(
        process=process, language=language, cpu_ms=round(root.millis, 1), frames=tuple(frames), nodes=tuple(nodes)
    )
