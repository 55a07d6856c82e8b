"""Reads /proc."""

from __future__ import annotations

import os
from pathlib import Path


def stat_of(pid: int) -> list[str]:
    """Return the fields of a process after its name, its state first; none if it has ended."""
    try:
        # The name may hold anything, and ends with the last parenthesis.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, without its children's; 0 if it has ended."""
    return sum(map(int, stat_of(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and all that run below it have used so far."""
    return sum(map(cpu_seconds, [pid, *descendants(pid)]))


def descendants(pid: int) -> list[int]:
    """Return the processes below one, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := stat_of(int(entry.name))):
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for each in found:
        found.extend(children.get(each, ()))
    return found
