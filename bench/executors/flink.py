"""Kills a TaskManager of a Flink cluster with SIGKILL, and waits for the job's output."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.executors.flink_cluster import FlinkCluster
from bench.executors.loss import INTERVAL, KEYS, newest_input
from bench.executors.results import Lost
from bench.executors.setting import Setting
from bench.nexmark.sides import install
from bench.processes import RunFailed
from bench.recovery import Outputs, fed, is_newer

T = TypeVar("T")
_POLL_SECONDS = 0.03
_REPLACED_SECONDS = 0.5
"""From the loss of a TaskManager to the start of its successor: what an executor's agent waits."""

_CAREFUL: Mapping[str, str] = {
    "heartbeat.interval": "1 s",
    "heartbeat.timeout": "5 s",
    "heartbeat.rpc-failure-threshold": "1",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "100 ms",
    "execution.state-recovery.from-local": "true",
}
"""What an operator changes who wants a loss to be noticed early."""


SIDES: Mapping[str, tuple[Mapping[str, str], int]] = {
    "Flink, its defaults": ({}, 2),
    "Flink, heartbeats of 1 s": (_CAREFUL, 2),
    "Flink, heartbeats of 1 s and a spare": (_CAREFUL, 3),
}
"""The settings of each, and its TaskManagers of one slot."""


class _Outputs(Outputs):
    """The files of Flink's sink; `begun` has the time at which each was first seen, in seconds since 1970."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.begun: dict[str, float] = {}

    def look(self) -> None:
        super().look()
        now = time.time()
        for file in self.directory.glob("*part-*"):
            self.begun.setdefault(file.name, now)

    def first_since(self, moment: float) -> float | None:
        """Return when the first file was begun since a moment, if there is one."""
        return min((each for each in self.begun.values() if each > moment), default=None)


@dataclass(frozen=True)
class _Loss:
    cluster: FlinkCluster
    job: str
    outputs: _Outputs
    timeout: float

    def until(self, condition: Callable[[], T | None]) -> T:
        """Return what a condition returns once that is not None. Raises RunFailed if it takes too long."""
        deadline = time.monotonic() + self.timeout
        while (found := condition()) is None:
            if time.monotonic() > deadline:
                raise RunFailed(f"Flink got no further; {self.cluster.directory / 'log'} says why")
            time.sleep(_POLL_SECONDS)
            self.outputs.look()
        return found

    def all_work(self, since: float, task_managers: int) -> bool | None:
        """Return True if all TaskManagers are there, and a checkpoint that began since a moment is complete."""
        there = self.cluster.get("/taskmanagers").get("taskmanagers", ())
        latest = self.cluster.get(f"/jobs/{self.job}/checkpoints").get("latest", {}).get("completed") or {}
        return (len(there) == task_managers and latest.get("trigger_timestamp", 0) > since * 1000) or None

    def new_output(self, since: float) -> float | None:
        """Return when the first file was begun behind the restart that followed a moment."""
        times = self.cluster.get(f"/jobs/{self.job}").get("timestamps", {})
        running, restarting = times.get("RUNNING", 0) / 1000, times.get("RESTARTING", 0) / 1000
        return self.outputs.first_since(running) if running >= restarting > since else None

    def seen(self, window: float) -> bool | None:
        """Return True if readers see a window that is newer than one."""
        return is_newer(self.outputs.visible, window) or None


def flink_loss(setting: Setting, side: str, kills: int, on_run: Callable[[Lost], None]) -> tuple[Lost, ...]:
    """Kill a TaskManager again and again, of one job. Raises RunFailed."""
    directory = setting.work / f"loss-{len(side)}"
    directory.mkdir(parents=True)
    settings, task_managers = SIDES[side]
    cluster = FlinkCluster(directory / "flink", install(setting.cache), settings, task_managers)
    outputs = _Outputs(directory / "output")
    chance, found = random.Random(1), list[Lost]()
    with fed(directory / "input", KEYS), cluster.running():
        job = cluster.submit(directory / "input", outputs.directory)
        loss = _Loss(cluster, job, outputs, setting.timeout)
        for number in range(kills):
            since = time.time()
            loss.until(lambda since=since: loss.all_work(since, task_managers))  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, INTERVAL))
            load = os.getloadavg()[0]
            window = newest_input(directory / "input")
            killed = time.time()
            cluster.kill_one(job, chance)
            cluster.add_later(_REPLACED_SECONDS)
            first = loss.until(lambda killed=killed: loss.new_output(killed))  # type: ignore[misc]
            loss.until(lambda window=window: loss.seen(window))  # type: ignore[misc]
            published = time.time()
            lost = Lost(
                side=side,
                round=number,
                first=first - killed,
                published=published - killed,
                load_before=load,
            )
            found.append(lost)
            on_run(lost)
    shutil.rmtree(directory)
    return tuple(found)
