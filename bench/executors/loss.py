"""Kills an executor that has state with SIGKILL, and waits for the job's output."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.executors.results import Lost
from bench.executors.setting import Setting, on_executors
from bench.processes import started
from bench.recovery import BATCHES_BEFORE_A_KILL, Outputs, Watch, fed, has_more, is_newer, is_past, newest, says
from tests.integration.runtime.executor_processes import java_of_executors

_INTERVAL = 5.0
_KEYS = 10_000
_PHASES = (b") is lost: ", b") starts on ", b") is here")
"""Lines of the driver's log, in their order; see `Lost.phases`."""


def loss(setting: Setting, kills: int, on_run: Callable[[Lost], None]) -> tuple[Lost, ...]:
    """Kill an executor again and again, of one job. Raises RunFailed."""
    directory = setting.work / "loss"
    outputs = Outputs(directory / "output")
    changes: dict[str, object] = {
        "sources.events.options.path": directory / "input",
        "sinks.report.options.path": outputs.directory,
        "checkpointing.interval": f"{_INTERVAL:g}s",
    }
    workdir, log = directory / "work", directory / "log.txt"
    job = on_executors("live.yaml", setting.location("loss"), workdir, changes, 2)
    chance, found = random.Random(1), list[Lost]()
    with fed(directory / "input", _KEYS), started(job, log) as process:
        for number in range(kills):
            watch = Watch(process, outputs.look, log, time.monotonic() + setting.timeout)
            more = len(outputs.staged) + BATCHES_BEFORE_A_KILL
            watch.until(partial(_all_work, outputs, more, workdir))
            watch.until(partial(is_past, time.monotonic() + chance.uniform(0.0, _INTERVAL)))
            load, victim = os.getloadavg()[0], chance.choice(sorted(java_of_executors(workdir).items()))
            logged = log.stat().st_size
            os.kill(victim[1], signal.SIGKILL)
            killed_at = time.monotonic()
            outputs.look()
            before = outputs.copy()
            phases = [watch.until(partial(says, log, logged, phase)) for phase in _PHASES]
            # Until here the one that is left may have completed files, and no new epoch has begun.
            first = watch.until(partial(has_more, outputs, len(outputs.staged)))
            beyond = watch.until(partial(is_newer, outputs.staged, newest(before.staged)))
            published = watch.until(partial(is_newer, outputs.visible, newest(before.staged)))
            found.append(lost(number, killed_at, load, phases, first, beyond, published))
            on_run(found[-1])
    shutil.rmtree(directory)
    return tuple(found)


def lost(
    number: int, killed_at: float, load: float, phases: Sequence[float], first: float, beyond: float, published: float
) -> Lost:
    """Return the seconds from a kill to its phases and outputs, all of which are on the monotonic clock."""
    return Lost(
        round=number,
        first=first - killed_at,
        beyond=beyond - killed_at,
        published=published - killed_at,
        load_before=load,
        phases=tuple(each - killed_at for each in phases),
    )


def _all_work(outputs: Outputs, count: int, workdir: Path) -> bool:
    return has_more(outputs, count) and len(java_of_executors(workdir)) == 2
