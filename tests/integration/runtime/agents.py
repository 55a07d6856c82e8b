"""Executors that are started on their own, as on machines of their own, and outlive the drivers of a job."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from tests.integration.runtime.processes import PROGRAM

from streamjob_runtime.executors.credentials import SECRET_VARIABLE

SECRET = "0123456789abcdef0123456789abcdef"


class Agents:
    """Two executors for the drivers of one job.

    Args:
        directory: each has a work directory and a log below it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port, self._rpc_port = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of `streamjob run` for them."""
        conf = {"spark.driver.port": str(self._rpc_port), "spark.blockManager.port": "0"}
        settings = (f"--set=sparkConf={{{', '.join(f'{key}: {value!r}' for key, value in conf.items())}}}",)
        return ("--executors", "2", "--executor-address", "127.0.0.1", "--executors-share-files", *settings)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `streamjob run` for them."""
        return {"STREAMJOB_PORT": str(self.port), SECRET_VARIABLE: SECRET}

    def start(self) -> None:
        """Start both."""
        for number in range(2):
            directory = self._directory / f"executor-{number}"
            directory.mkdir(parents=True)
            options = ["--driver", f"http://127.0.0.1:{self.port}", "--name", directory.name, "--memory", "600m"]
            with (directory / "log").open("wb") as output:
                self._processes.append(
                    subprocess.Popen(
                        [PROGRAM, "executor", *options, "--work-dir", str(directory / "work")],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env={**os.environ, SECRET_VARIABLE: SECRET},
                        start_new_session=True,
                    )
                )

    def log(self) -> str:
        """Return what both have logged."""
        return "".join((self._directory / f"executor-{number}" / "log").read_text() for number in range(2))

    def end(self) -> list[int]:
        """Ask both to end; return their exit codes."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self._processes]


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
