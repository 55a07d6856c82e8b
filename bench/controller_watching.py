"""Follows StreamJobs through a watch, and drivers through their log."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.controller_report import Change
from bench.processes import RunFailed

from streamjob_operator.cluster.kinds import Object

ACTIONS = {"interval": "patch", "parallelism": "stop", "suspend": "stop", "resume": "created"}
"""The name in a driver's log of the action that a change causes."""


@dataclass(slots=True)
class Seen:
    """A StreamJob: its newest generation, and when statuses first mentioned generations or called them Ready."""

    generation: int = 0
    told: dict[int, float] = field(default_factory=dict)
    ready: dict[int, float] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether its newest generation is Ready."""
        return self.generation in self.ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A change that was sent: when, and the generation that it made."""

    job: str
    kind: str
    generation: int
    sent: float


class Jobs:
    """All StreamJobs that a watch has brought.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.seen: dict[str, Seen] = {}
        self._now = now
        self._news = asyncio.Event()

    def saw(self, event: str, job: Object) -> None:
        """Note what a watch brings."""
        name, now = job["metadata"]["name"], self._now()
        self._news.set()
        if event == "DELETED":
            self.seen.pop(name, None)
            return
        seen, status = self.seen.setdefault(name, Seen()), job.get("status") or {}
        seen.generation = max(seen.generation, job["metadata"]["generation"])
        observed = status.get("observedGeneration")
        if observed is None:
            return
        for generation in range(max(seen.told, default=0) + 1, observed + 1):
            seen.told[generation] = now
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
        if ready and observed == job["metadata"]["generation"]:
            seen.ready.setdefault(observed, now)

    async def until(self, condition: Callable[[], object], within: float, what: str) -> None:
        """Wait for a condition on what was seen. Raises RunFailed if it takes too long."""
        try:
            async with asyncio.timeout(within):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise RunFailed(f"no {what} within {within:.0f} s") from None


def read_log(file: Path) -> dict[tuple[str, str], list[float]]:
    """Return the times of events, by job and event."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for line in file.read_text().splitlines():
        entry = json.loads(line)
        found[entry["job"], entry["what"]].append(entry["at"])
    return found


def outcomes(
    sent: Iterable[Sent], seen: dict[str, Seen], log: dict[tuple[str, str], list[float]]
) -> tuple[list[Change], int]:
    """Return what became of changes, and of how many nothing did.

    A job is changed again only when it has settled, so the first action after a change belongs to that change.
    """
    changes, unanswered = [], 0
    for each in sent:
        job = seen[each.job]
        acted = min((at for at in log.get((each.job, ACTIONS[each.kind]), ()) if at >= each.sent), default=None)
        told, settled = job.told.get(each.generation), job.ready.get(each.generation)
        if acted is None or told is None:
            unanswered += 1
            continue
        changes.append(
            Change(
                kind=each.kind,
                status=max(0.0, told - each.sent),
                action=acted - each.sent,
                settled=None if settled is None else settled - each.sent,
            )
        )
    return changes, unanswered
