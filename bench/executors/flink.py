"""Kills a TaskManager of Flink with SIGKILL, and waits for the output of the job on it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from bench.executors.loss import lost
from bench.executors.results import Lost
from bench.executors.setting import Setting
from bench.nexmark.sides import Installed, install
from bench.processes import RunFailed, environment, started
from bench.recovery import BATCHES_BEFORE_A_KILL, Watch, fed, is_past, says
from tests.servers.process import free_port

_INTERVAL = 5.0
_KEYS = 10_000
_ROW = re.compile(rb"row:\d> \+I\[\d+, (\S+?),")
_MANAGERS = 2


def flink_loss(setting: Setting, kills: int, on_run: Callable[[Lost], None]) -> tuple[Lost, ...]:
    """Kill a TaskManager again and again, of one job; another one is started at once.

    The job is that of the part `loss`, on two TaskManagers of one slot each.

    Raises:
        RunFailed: the job got no further.
        CannotFetch: Flink could not be installed.
    """
    directory = setting.work / "flink"
    directory.mkdir(parents=True)
    installed = install(setting.cache)
    chance, found = random.Random(1), list[Lost]()
    with fed(directory / "input", _KEYS), _cluster(installed, directory) as cluster:
        cluster.submit(installed)
        for number in range(kills):
            # Each condition looks by itself.
            watch = Watch(cluster.manager, lambda: None, cluster.log, time.monotonic() + setting.timeout)
            watch.until(partial(cluster.is_beyond, cluster.emitted() + BATCHES_BEFORE_A_KILL * 60))
            watch.until(partial(is_past, time.monotonic() + chance.uniform(0.0, _INTERVAL)))
            load, logged = os.getloadavg()[0], cluster.log.stat().st_size
            cluster.kill(chance.randrange(_MANAGERS))
            killed_at = time.monotonic()
            before = cluster.emitted()
            # Until here the other TaskManager may emit rows.
            known = watch.until(partial(says, cluster.log, logged, b"to RESTARTING"))
            again = watch.until(partial(says, cluster.log, logged, b"from state RESTARTING to RUNNING"))
            rows = cluster.rows()
            first = watch.until(lambda rows=rows: cluster.rows() > rows)  # type: ignore[misc]
            beyond = watch.until(partial(cluster.is_beyond, before))
            published = watch.until(partial(cluster.has_published, before))
            found.append(lost(number, killed_at, load, (known, again), first, beyond, published))
            on_run(found[-1])
    shutil.rmtree(directory)
    return tuple(found)


class _Cluster:
    def __init__(self, directory: Path, home: Path, port: int, processes: contextlib.ExitStack) -> None:
        self.log = directory / "jobmanager.log"
        self._directory = directory
        self._home = home
        self._port = port
        self._processes = processes
        self._managers: list[subprocess.Popen[bytes]] = []
        self._read: dict[Path, float] = {}
        self.manager = processes.enter_context(started(self._command("jobmanager"), self.log))
        for number in range(_MANAGERS):
            self._managers.append(self._started(number))

    def submit(self, installed: Installed) -> None:
        """Submit the job when the TaskManagers are there."""
        command = [str(installed.python), str(Path(__file__).with_name("flink_job.py")), "--port", str(self._port)]
        where = ["--jars", ",".join(map(str, installed.jars)), "--directory", str(self._directory)]
        where += ["--interval", f"{_INTERVAL:g}s"]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunFailed(f"Flink did not take the job: {done.stdout[-1000:]}{done.stderr[-2000:]}")

    def kill(self, number: int) -> None:
        """Kill a TaskManager with SIGKILL, and start another one."""
        os.killpg(self._managers[number].pid, signal.SIGKILL)
        self._managers[number] = self._started(number)

    def rows(self) -> int:
        """Return the number of printed rows."""
        return sum(len(_ROW.findall(each.read_bytes())) for each in self._logs())

    def emitted(self) -> float:
        """Return the newest window among the printed rows, in seconds since 1970."""
        found = [each for log in self._logs() for each in _ROW.findall(log.read_bytes())[-20:]]
        return max((_seconds(each.decode()) for each in found), default=0.0)

    def is_beyond(self, window: float) -> bool:
        """Return whether a newer window was printed."""
        return self.emitted() > window

    def has_published(self, window: float) -> bool:
        """Return whether readers see a newer window."""
        for file in self._directory.glob("output/part-*"):
            if file not in self._read:
                rows = file.read_text().splitlines()
                self._read[file] = max((_seconds(json.loads(each)["begin"]) for each in rows), default=0.0)
        return max(self._read.values(), default=0.0) > window

    def _logs(self) -> list[Path]:
        return sorted(self._directory.glob("taskmanager-*.log"))

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        log = self._directory / f"taskmanager-{number}.log"
        return self._processes.enter_context(started(self._command("taskmanager"), log))

    def _command(self, kind: str) -> list[str]:
        return ["bash", str(self._home / "bin" / f"{kind}.sh"), "start-foreground"]


@contextlib.contextmanager
def _cluster(installed: Installed, directory: Path) -> Iterator[_Cluster]:
    home = next(installed.python.parent.parent.glob("lib/python*/site-packages/pyflink"))
    settings = directory / "conf"
    settings.mkdir()
    shutil.copy(home / "conf" / "log4j-console.properties", settings)
    rpc, port = free_port(), free_port()
    lines = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc,
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.process.size": "1g",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": 1,
        "taskmanager.memory.process.size": "1200m",
    }
    (settings / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    variables = {"FLINK_HOME": str(home), "FLINK_CONF_DIR": str(settings), "FLINK_LOG_DIR": str(directory / "logs")}
    with environment(variables), contextlib.ExitStack() as processes:
        yield _Cluster(directory, home, port, processes)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace(" ", "T") + "+00:00").timestamp()
