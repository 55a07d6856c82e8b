"""Executors that are started on their own, as on machines of their own, and outlive the drivers of a job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.integration.runtime.processes import PROGRAM

from streamjob_runtime.executors.credentials import SECRET_VARIABLE

SECRET = "0123456789abcdef0123456789abcdef"


class Agents:
    """Executors for the drivers of one job, two at first.

    Args:
        directory: each has a work directory and a log below it.
        environment: further variables for them.
        share_files: whether they read and write local paths of the job.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str] | None = None, *, share_files: bool = True
    ) -> None:
        self._share_files = share_files
        self._directory = directory
        self._environment = dict(environment or {})
        self.port, self._rpc_port = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of `streamjob run` for them."""
        conf = {"spark.driver.port": str(self._rpc_port), "spark.blockManager.port": "0"}
        settings = (f"--set=sparkConf={{{', '.join(f'{key}: {value!r}' for key, value in conf.items())}}}",)
        shared = ("--executors-share-files",) if self._share_files else ()
        return ("--executors", "2", "--executor-address", "127.0.0.1", *shared, *settings)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `streamjob run` for them."""
        return {"STREAMJOB_PORT": str(self.port), SECRET_VARIABLE: SECRET}

    def start(self) -> None:
        """Start the first two."""
        for _ in range(2):
            self.add()

    def directory(self, number: int) -> Path:
        """Return where the work directory and the log of one are."""
        return self._directory / f"executor-{number}"

    def add(self, environment: Mapping[str, str] | None = None) -> None:
        """Start one more, with variables of its own."""
        directory = self.directory(len(self._processes))
        directory.mkdir(parents=True, exist_ok=True)
        options = ["--driver", f"http://127.0.0.1:{self.port}", "--name", directory.name, "--memory", "600m"]
        with (directory / "log").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [PROGRAM, "executor", *options, "--grace", "120", "--work-dir", str(directory / "work")],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **self._environment, **(environment or {}), SECRET_VARIABLE: SECRET},
                    start_new_session=True,
                )
            )

    def terminate(self, number: int) -> int:
        """Send SIGTERM to one, as the drain of its node does; return its exit code."""
        self._processes[number].send_signal(signal.SIGTERM)
        return self._processes[number].wait(150)

    def kill(self, number: int) -> None:
        """End one as the kernel does when memory runs out; its Java ends with it."""
        self._processes[number].kill()

    def log(self) -> str:
        """Return what they have logged."""
        names = [f"executor-{number}" for number in range(len(self._processes))]
        return "".join((self._directory / name / "log").read_text() for name in names)

    def end(self) -> list[int]:
        """Ask all to end; return their exit codes."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self._processes]


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
