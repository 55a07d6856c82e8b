"""Starts the executors of a job as processes on this machine, and starts them again when they end."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from streamjob_runtime.executors.credentials import SECRET_VARIABLE
from streamjob_runtime.executors.driver.options import ExecutorOptions

_COMMAND = "from streamjob.cli.main import main; main()"
_AGAIN_SECONDS = 1.0
_END_SECONDS = 15.0

log = logging.getLogger("streamjob")


class Launcher:
    """Keeps executors running from `start` to `stop`.

    Args:
        workdir: each executor gets a directory of its own below it.
        secret: the secret that the job's processes share.
        environment: that of the executors' processes.
    """

    def __init__(self, options: ExecutorOptions, workdir: Path, secret: str, environment: Mapping[str, str]) -> None:
        self._options = options
        self._workdir = workdir
        self._environment = {**environment, SECRET_VARIABLE: secret}
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, url: str) -> None:
        """Start the executors for a driver's control API."""
        for number in range(self._options.instances):
            thread = threading.Thread(target=self._keep, args=(f"executor-{number}", url), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the executors, and wait for their end."""
        self._stopped.set()
        with self._lock:
            running = list(self._running.values())
        for process in running:
            process.terminate()
        for thread in self._threads:
            thread.join(_END_SECONDS)
        for process in running:
            if process.poll() is None:
                process.kill()

    def _keep(self, name: str, url: str) -> None:
        directory = self._workdir / name
        while not self._stopped.is_set():
            # Again, if somebody has emptied the work directory meanwhile.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (directory / "log").open("ab") as output:
                process = self._spawn(name, url, directory, output)
                with self._lock:
                    self._running[name] = process
                    if self._stopped.is_set():
                        process.terminate()
                code = process.wait()
            if not self._stopped.is_set():
                log.warning("The process of %s has ended with %d, and is started again", name, code)
            self._stopped.wait(_AGAIN_SECONDS)

    def _spawn(self, name: str, url: str, directory: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
        options = {
            "--driver": url,
            "--name": name,
            "--cores": str(self._options.cores),
            "--memory": self._options.memory,
            "--work-dir": str(directory / "work"),
        }
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                _COMMAND,
                "executor",
                *(each for pair in options.items() for each in pair),
                "--with-parent",
            ],
            # The pipe ends with this process, and the executors with it.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=self._environment,
            start_new_session=True,
        )
