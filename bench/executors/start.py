"""Measures how long an executor's start takes, with the archive of classes and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.executors.results import Start
from bench.executors.setting import JOBS, MEMORY, Setting
from bench.proc import cpu_seconds, descendants
from bench.processes import RunFailed, environment, kill_tree, streamjob
from bench.rounds import rounds
from bench.running import command, running
from tests.integration.runtime.agents import SECRET, free_port

from streamjob_runtime.executors.agent import REGISTERED_FILE
from streamjob_runtime.executors.credentials import SECRET_VARIABLE
from streamjob_runtime.spark.class_data import DIRECTORY_VARIABLE

_POLL_SECONDS = 0.02


def start(setting: Setting, count: int, on_run: Callable[[Start], None]) -> tuple[Start, ...]:
    """Let executors join a job without state, in turn with and without the archive. Raises RunFailed."""
    directory = setting.work / "start"
    (directory / "input").mkdir(parents=True)
    port, rpc = free_port(), free_port()
    conf = {"spark.driver.port": str(rpc), "spark.blockManager.port": "0"}
    changes: dict[str, object] = {
        "sources.records.options.path": directory / "input",
        "sinks.report.options.path": directory / "output",
        "sparkConf": "{" + ", ".join(f"{key}: {value!r}" for key, value in conf.items()) + "}",
    }
    job = command(JOBS / "latency.yaml", setting.location("start"), directory / "work", changes)
    job += ["--executors", "1", "--executor-address", "127.0.0.1", "--executors-share-files"]
    runs: list[Start] = []
    with environment({"STREAMJOB_PORT": str(port), SECRET_VARIABLE: SECRET}):
        standing = _executor(directory / "standing", port, archive=True)
        try:
            with running(job, directory / "work", directory / "log.txt", setting.timeout):
                for number, turn in rounds((True, False), count, None):
                    for archive in turn:
                        runs.append(_start(directory / "probe", port, number, setting.timeout, archive=archive))
                        on_run(runs[-1])
        finally:
            kill_tree(standing)
    shutil.rmtree(directory)
    return tuple(runs)


def _executor(directory: Path, port: int, *, archive: bool) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True)
    driver = f"http://127.0.0.1:{port}"
    options = ["--driver", driver, "--name", directory.name, "--memory", MEMORY, "--work-dir", str(directory / "work")]
    empty = directory / "no-archive"
    empty.mkdir()
    changed = {} if archive else {DIRECTORY_VARIABLE: str(empty)}
    with (directory / "log").open("wb") as output:
        return subprocess.Popen(
            streamjob("executor", *options),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **changed},
            start_new_session=True,
        )


def _start(directory: Path, port: int, number: int, timeout: float, *, archive: bool) -> Start:
    load, begun = os.getloadavg()[0], time.monotonic()
    process = _executor(directory, port, archive=archive)
    try:
        while not (directory / "work" / REGISTERED_FILE).exists():
            if process.poll() is not None or time.monotonic() > begun + timeout:
                raise RunFailed.told_by(directory / "log", "the executor did not come")
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - begun
        cpu = sum(map(cpu_seconds, (process.pid, *descendants(process.pid))))
    finally:
        kill_tree(process)
    shutil.rmtree(directory)
    return Start(archive=archive, round=number, seconds=seconds, cpu=cpu, load_before=load)
