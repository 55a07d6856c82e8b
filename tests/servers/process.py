"""A server that tests start as a process of its own, and may end, crash and start again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

LOOPBACK = "127.0.0.1"
_PORTS = 5
_ENDS_WITHIN = 60.0


class ServerMissing(Exception):
    """No server of a kind can be started here, and the run must not go on without one."""


def required() -> bool:
    """Return whether a run without one of the servers must fail."""
    return os.environ.get("CI") == "true"


def free_port(host: str = LOOPBACK) -> int:
    """Return a TCP port of an address of this machine that is free now."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


class ServerProcess:
    """A server, started on entry and ended on exit. A kind of server says how it is made, started and found ready.

    Args:
        directory: where it keeps its data; None for a temporary directory that is removed on exit.
        host: the address of this machine that it listens on.
    """

    kind: ClassVar[str]
    """Its name."""
    crash: ClassVar[signal.Signals] = signal.SIGKILL
    """The signal that ends it like a power cut."""
    last: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal that ends it for good."""
    ready_within: ClassVar[float] = 60.0
    """Seconds from its start until it must answer."""

    def __init__(self, directory: Path | None = None, *, host: str = LOOPBACK) -> None:
        self.host = host
        self.port = 0
        self.directory = directory or Path()
        self._is_temporary = directory is None
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Create its initial files for its port; called again for another port. Raises ServerMissing."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return the command that starts it at its port."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Return whether clients can use it."""
        raise NotImplementedError

    def how_to_run(self) -> dict[str, Any]:
        """Return what else its process is started with, as `subprocess.Popen` takes it."""
        return {}

    def prepare(self, *command: str) -> None:
        """Run a command that creates its data, as the server's user. Raises ServerMissing if that fails."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self.how_to_run())
        if done.returncode != 0:
            raise ServerMissing(f"no {self.kind} server can be made:\n{(done.stdout + done.stderr)[-2000:]}")

    def furnish(self) -> None:
        """Give it what all tests find there, when it runs for the first time."""

    def __enter__(self) -> Self:
        if self._is_temporary:
            # Not below pytest's directories: root's are closed to other users, and a server may run as one.
            made = tempfile.TemporaryDirectory(prefix=f"{self.kind}-server-")
            self.directory = Path(self._cleanup.enter_context(made))
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start_somewhere()
            self.furnish()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(self.last)
        self._cleanup.close()

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self._process is not None, f"the {self.kind} server is not running"
        return self._process.pid

    def start(self) -> None:
        """Start it at its port, with its stored data. Raises ServerMissing."""
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.how_to_run()
            )
        deadline = time.monotonic() + self.ready_within
        while time.monotonic() < deadline and self.is_running:
            if self.answers() and self.is_running:
                return
            time.sleep(0.05)
        raise ServerMissing(f"no {self.kind} server started:\n{self.log()[-2000:]}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, by default in order, and keep its stored data."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Let it crash."""
        self.end(self.crash)

    def log(self) -> str:
        """Return its output."""
        return (self.directory / "server.log").read_text(errors="replace")

    def _start_somewhere(self) -> None:
        for tries_left in reversed(range(_PORTS)):
            self.port = free_port(self.host)
            self.make()
            try:
                self.start()
            except ServerMissing:
                # Another process may have taken the port meanwhile; one that is up and does not answer is no such case.
                if not tries_left or self.is_running:
                    raise
            else:
                return
