"""Runs a session cluster of Flink on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.nexmark.sides import Installed
from bench.processes import RunFailed, kill_tree
from tests.servers.process import free_port

_SLOTS = 2

_SETTINGS: Mapping[str, str] = {
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "jobmanager.memory.process.size": "1600m",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.memory.process.size": "1728m",
    "taskmanager.numberOfTaskSlots": "1",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "parallelism.default": str(_SLOTS),
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "5 s",
    "table.local-time-zone": "UTC",
}


@dataclass
class FlinkCluster:
    """A session cluster on loopback.

    Args:
        directory: for its files.
        installed: Flink.
        settings: changes of Flink's defaults.
        count: TaskManagers, of one slot each.
    """

    directory: Path
    installed: Installed
    settings: Mapping[str, str]
    count: int
    task_managers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    rest: str = ""
    _started: int = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it while the block lasts."""
        rest = free_port()
        self.rest = f"http://127.0.0.1:{rest}"
        (self.directory / "conf").mkdir(parents=True)
        (self.directory / "log").mkdir()
        settings = {
            **_SETTINGS,
            "jobmanager.rpc.port": str(free_port()),
            "rest.port": str(rest),
            "rest.bind-port": str(rest),
            "execution.checkpointing.dir": (self.directory / "checkpoints").as_uri(),
            "io.tmp.dirs": str(self.directory / "tmp"),
            **self.settings,
        }
        defaults = (self._home / "conf" / "config.yaml").read_text()
        # The options of Java that Flink needs; all else of the file is replaced.
        java = defaults[defaults.index("env:") : defaults.index("\njobmanager:")]
        java = "".join(f"{line}\n" for line in java.splitlines() if line and not line.lstrip().startswith("#"))
        lines = "".join(f"{key}: {value}\n" for key, value in settings.items())
        (self.directory / "conf" / "config.yaml").write_text(java + lines)
        for each in (self._home / "conf").glob("log*"):
            (self.directory / "conf" / each.name).write_bytes(each.read_bytes())
        jars = ";".join(each.as_uri() for each in self.installed.jars)
        submitted = {"execution.target": "remote", "pipeline.jars": jars}
        (self.directory / "settings.json").write_text(json.dumps({**settings, **submitted}))
        manager = self._start("jobmanager")
        try:
            for _ in range(self.count):
                self._add()
            yield
        finally:
            for process in (manager, *self.task_managers.values()):
                kill_tree(process)

    def _add(self) -> None:
        name = f"task-manager-{len(self.task_managers)}"
        self.task_managers[name] = self._start("taskmanager", "-D", f"taskmanager.resource-id={name}")

    def kill_one(self, job: str, chance: random.Random) -> None:
        """End a TaskManager that runs a part of the job as the kernel does when memory runs out."""
        vertices = self.get(f"/jobs/{job}").get("vertices", ())
        ids = {
            each["taskmanager-id"]
            for vertex in vertices
            for each in self.get(f"/jobs/{job}/vertices/{vertex['id']}/taskmanagers").get("taskmanagers", ())
        }
        victim = self.task_managers[chance.choice(sorted(ids))]
        os.kill(victim.pid, signal.SIGKILL)

    def add_later(self, seconds: float) -> None:
        """Start one more TaskManager in some seconds."""
        threading.Timer(seconds, self._add).start()

    def submit(self, source: Path, output: Path) -> str:
        """Submit the job, and return its id. Raises RunFailed."""
        script = Path(__file__).with_name("flink_job.py")
        places = ["--settings", str(self.directory / "settings.json"), "--input", str(source), "--output", str(output)]
        done = subprocess.run(
            [str(self.installed.python), str(script), *places],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RunFailed(f"Flink does not take the job: {done.stderr[-3000:]}")
        return done.stdout.split()[-1]

    def get(self, path: str) -> dict[str, Any]:
        """Return an answer of the REST API, {} while there is none."""
        try:
            with urllib.request.urlopen(self.rest + path, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    @property
    def _home(self) -> Path:
        (home,) = self.installed.python.parents[1].glob("lib/python3.*/site-packages/pyflink")
        return home

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory / "log"),
            "FLINK_PID_DIR": str(self.directory),
        }

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        self._started += 1
        with (self.directory / "log" / f"{kind}-{self._started}.out").open("wb") as output:
            return subprocess.Popen(
                [str(self._home / "bin" / f"{kind}.sh"), "start-foreground", *options],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
