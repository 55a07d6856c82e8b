"""The process behind `streamjob executor`: offers an executor to the driver, and runs its Java.

The agent outlives drivers: it offers its executor again and again, and starts a Java for each attempt that takes it.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamjob.telemetry.logs import describe_process
from streamjob_runtime.executors.agent.client import DriverAway, DriverClient, Refused
from streamjob_runtime.executors.agent.java_process import JavaSettings, java_of_agent, start_java
from streamjob_runtime.executors.agent.line_socket import LineSocket
from streamjob_runtime.executors.agent.profiling import ExecutorProfiler
from streamjob_runtime.executors.agent.work import ExecutorWork
from streamjob_runtime.executors.build_id import this_build
from streamjob_runtime.executors.messages import (
    LEAVE,
    POLL_SECONDS,
    PROFILE,
    Command,
    Commands,
    Done,
    Drain,
    Leave,
    Nothing,
    Poll,
    Profile,
    Registration,
    Welcome,
)
from streamjob_runtime.spark.process.java import Java
from streamjob_runtime.spark.process.java_death import oom_kills, why_ended
from streamjob_runtime.spark.process.sockets import socket_directory

REGISTERED_FILE = "registered"
"""Exists in the work directory while Spark has the executor, and from one driver to the next: see Mark."""

_RETRY_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_AWAY_SECONDS = 30.0
"""How long the driver may be silent before the agent gives its Java up; Spark's own limit is the same."""
_END_SECONDS = 10.0
_CHANGE_SECONDS = 120.0
"""How long the next driver may take; a driver waits as long for its executors."""
_COMMAND_THREADS = 5
"""One of them may be busy with a profile for minutes."""

Perform = Callable[[Command], dict[str, Any]]
"""Does what the driver asks for, and returns the answer."""

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The options of `streamjob executor`.

    Args:
        driver: the URL of the driver's control API.
        name: the executor's name, which no other executor of the job has.
        cores: number of tasks at a time.
        memory: size of Java's heap, as Java takes it: `1g`.
        workdir: the local directory for state and scratch files.
        secret: the secret that the job's processes share.
        grace: seconds that the driver has on SIGTERM to move the executor's state to others.
    """

    driver: str
    name: str
    cores: int
    memory: str
    workdir: Path
    secret: str
    grace: float = 20.0


class Agent:
    """Offers an executor from `run` to `stop`."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._environment = dict(os.environ)
        self._client = DriverClient(settings.driver.rstrip("/"), settings.name, settings.secret)
        self._draining = threading.Event()
        self._stopped = threading.Event()
        self._mark = Mark(settings.workdir / REGISTERED_FILE)
        self._said = ""

    def drain(self) -> None:
        """Let `run` return once the driver has moved the executor's state, or the grace period is over."""
        if self._draining.is_set():
            self.stop()
        self._draining.set()

    def stop(self) -> None:
        """Let `run` return: the driver is told, and Java ended."""
        self._draining.set()
        self._stopped.set()

    def run(self) -> None:
        """Offer the executor until `stop` is called."""
        workdir = self._settings.workdir
        workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark.remove()
        build = this_build()
        java = java_of_agent(workdir.absolute(), self._environment)
        while not self._draining.is_set():
            try:
                credentials = self._client.meet()
                address = _own_address(self._settings.driver)
                offer = Registration(address=address, cores=self._settings.cores, build=build)
                welcome = self._client.ask("register", offer, Welcome)
            except (DriverAway, Refused) as error:
                self._say(error.what)
                self._mark.look()
                self._draining.wait(_RETRY_SECONDS)
                continue
            describe_process(**welcome.job, executor=self._settings.name)
            self._say(f"Executor {welcome.executor} starts for attempt {credentials.attempt}")
            begun = time.monotonic()
            if not java.home.exists():
                java = java_of_agent(workdir.absolute(), self._environment)
            self._serve(java, welcome, credentials.spark_secret, address)
            # One that has run is replaced at once.
            self._draining.wait(max(0.0, _RETRY_SECONDS - (time.monotonic() - begun)))
        self._client.close()

    def _say(self, text: str) -> None:
        """Log a state once, however long it lasts."""
        if text != self._said:
            log.info("%s", text)
        self._said = text

    def _serve(self, found: Java, welcome: Welcome, spark_secret: str, address: str) -> None:
        settings = self._settings
        root = settings.workdir.absolute()
        sockets = socket_directory(root)
        work = ExecutorWork(welcome.executor, self._client, root, welcome.store)
        profiler = ExecutorProfiler(sockets)
        listening = LineSocket(sockets / "agent", profiler.beside(work.answer))

        def perform(command: Command) -> dict[str, Any]:
            if command.kind != PROFILE:
                return work.perform(command)
            asked = Profile.model_validate(command.body)
            return profiler.record(asked.seconds, listening).model_dump(mode="json")

        java_settings = JavaSettings(root, root / "spark", sockets, settings.memory, settings.cores, address)
        over = _Over(self._stopped)
        killed_before = oom_kills()
        java = start_java(found, java_settings, welcome, spark_secret, listening.path, self._environment)
        watched = (java, killed_before, (java_settings.scratch, sockets), over)
        threading.Thread(target=_watch, args=watched, name="watch-java", daemon=True).start()
        polling = threading.Thread(target=self._poll, args=(welcome, perform, over), name="poll", daemon=True)
        polling.start()
        try:
            over.wait(until=self._draining)
            if not over.is_set() and self._ask_to_leave(welcome):
                over.wait(seconds=settings.grace)
        finally:
            self._said = ""
            self._mark.lost()
            if over.reason is not None or self._draining.is_set():
                self._leave(welcome, over.reason or "the executor was told to end")
            _end(java)
            listening.close()
            work.close()

    def _ask_to_leave(self, welcome: Welcome) -> bool:
        """Tell the driver that the executor is to end; return whether to wait until it may."""
        try:
            self._client.ask("drain", Drain(executor=welcome.executor), Nothing, seconds=5.0)
        except (DriverAway, Refused) as error:
            log.info("Executor %s ends at once: %s", welcome.executor, error.what)
            return False
        log.info("Executor %s ends once its state is elsewhere", welcome.executor)
        return True

    def _leave(self, welcome: Welcome, reason: str) -> None:
        try:
            self._client.ask("leave", Leave(executor=welcome.executor, reason=reason), Nothing, seconds=5.0)
        except (DriverAway, Refused) as error:
            log.info("The driver could not be told that executor %s ends: %s", welcome.executor, error.what)

    def _poll(self, welcome: Welcome, perform: Perform, over: _Over) -> None:
        registered = False
        heard = time.monotonic()
        with ThreadPoolExecutor(_COMMAND_THREADS, thread_name_prefix="command") as pool:
            while not over.is_set():
                poll = Poll(executor=welcome.executor, registered=registered)
                try:
                    told = self._client.ask("poll", poll, Commands, seconds=POLL_SECONDS + 10.0)
                except Refused as error:
                    over.set(f"the driver refuses it: {error.what}")
                    return
                except DriverAway as error:
                    if time.monotonic() - heard > _AWAY_SECONDS:
                        over.set(error.what)
                        return
                    time.sleep(_RETRY_SECONDS)
                    continue
                heard = time.monotonic()
                if told.registered and not registered:
                    self._mark.set()
                self._mark.look()
                registered = told.registered
                for command in told.commands:
                    if command.kind == LEAVE:
                        over.set("the executor was told to end")
                        return
                    pool.submit(self._perform, welcome, perform, command)

    def _perform(self, welcome: Welcome, perform: Perform, command: Command) -> None:
        try:
            done = Done(executor=welcome.executor, command=command.id, body=perform(command))
        except Exception as error:
            log.warning("The command %r failed: %s", command.kind, error)
            done = Done(executor=welcome.executor, command=command.id, error=str(error) or type(error).__name__)
        try:
            self._client.ask("done", done, Nothing)
        except (DriverAway, Refused) as error:
            log.warning("The driver did not take the result of %r: %s", command.kind, error.what)


class Mark:
    """The file that tells the readiness probe that the job has the executor.

    It stays while one driver follows another, and while the executor ends in order: Kubernetes warns of each probe that
    fails. The driver itself says which executors it has.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._until: float | None = None

    def set(self) -> None:
        """Note that a driver has the executor."""
        self._until = None
        self._file.touch()

    def lost(self) -> None:
        """Note that no driver has it; the file stays for a while."""
        if self._until is None:
            self._until = self._clock() + _CHANGE_SECONDS

    def look(self) -> None:
        """Remove the file if no driver has had the executor for too long."""
        if self._until is not None and self._clock() >= self._until:
            self.remove()

    def remove(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)


class _Over:
    """The end of one executor, with the reason to give to the driver; None if the driver knows it."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped
        self._event = threading.Event()
        self.reason: str | None = None

    def set(self, reason: str | None) -> None:
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set() or self._stopped.is_set()

    def wait(self, *, until: threading.Event | None = None, seconds: float = math.inf) -> None:
        """Wait for the end; return before if an event occurs or the time is over."""
        deadline = time.monotonic() + seconds
        while not self.is_set() and not (until and until.is_set()) and time.monotonic() < deadline:
            self._event.wait(0.2)


def _watch(
    java: subprocess.Popen[bytes], killed_before: int | None, directories: tuple[Path, ...], over: _Over
) -> None:
    """Notice the end of Java, which was started in the first of its directories, or that of a directory."""
    while True:
        try:
            code = java.wait(_LOOK_SECONDS)
            break
        except subprocess.TimeoutExpired:
            for gone in (each for each in directories if not each.is_dir()):
                # Every task would fail; the next Java gets directories of its own.
                over.set(f"its directory {gone} was removed")
                return
    death = why_ended(code, java.pid, (killed_before, oom_kills()), directories[0])
    over.set(f"its Java has ended: {death.cause}")


def _end(java: subprocess.Popen[bytes]) -> None:
    java.terminate()
    try:
        java.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def _own_address(driver: str) -> str:
    """Return the address of this machine from which it reaches the driver; other executors reach it there."""
    parts = urlsplit(driver)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            # Connecting a datagram socket sends nothing.
            probe.connect(address)
            own: str = probe.getsockname()[0]
            return own
    except OSError as error:
        raise DriverAway(f"{driver} cannot be reached: {error}") from None


def run_agent(settings: AgentSettings, *, with_parent: bool = False) -> None:
    """Run an agent until SIGTERM or SIGINT; a second one ends it at once.

    Args:
        with_parent: end, too, when standard input ends, which whoever started the agent holds open.
    """
    agent = Agent(replace(settings, workdir=settings.workdir.absolute()))

    def on_signal(number: int, frame: object) -> None:
        agent.drain()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, on_signal)
    if with_parent:
        threading.Thread(target=_stop_with_parent, args=(agent,), name="parent", daemon=True).start()
    agent.run()


def _stop_with_parent(agent: Agent) -> None:
    while os.read(0, 1024):
        pass
    agent.stop()
