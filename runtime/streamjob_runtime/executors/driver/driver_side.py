"""The executors of one attempt of a job, from the driver's side."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.client.models import ExecutorsView
from streamjob.clock import Clock
from streamjob.ids import ChainUid
from streamjob.telemetry.logs import process_fields
from streamjob_runtime.executors.build_id import this_build
from streamjob_runtime.executors.credentials import Credentials, secret_of
from streamjob_runtime.executors.driver.fleet import Executor, Fleet
from streamjob_runtime.executors.driver.launcher import Launcher
from streamjob_runtime.executors.driver.loads import Loads, read_totals
from streamjob_runtime.executors.driver.lost_and_joined import BetweenEpochs, EpochOnExecutors
from streamjob_runtime.executors.driver.options import ExecutorOptions
from streamjob_runtime.executors.driver.routes import AgentRoutes
from streamjob_runtime.executors.driver.segments import SegmentsOnExecutors
from streamjob_runtime.executors.driver.state import StateOnExecutors
from streamjob_runtime.executors.driver.view import executors_view
from streamjob_runtime.executors.messages import COUNTING_SECONDS, PROFILE, Profile, Profiled, Welcome
from streamjob_runtime.spark.gateway import call_errors, driver_address, java_context, our_java
from streamjob_runtime.spark.session import SparkExecutors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT_SECONDS = 120.0
"""How long a job waits for executors that are missing before it starts on those that are there."""
_SETTLE_SECONDS = 5.0
"""How long to wait for more executors before state moves to those that have joined."""
_EVENT_MS = 1000
_DISASSOCIATED = "Remote RPC client disassociated"
_DISCONNECTED = "its connection to the driver has ended"
"""Spark also names causes that it cannot know."""

log = logging.getLogger("streamjob")


class DriverSide:
    """The job's executors.

    Args:
        workdir: the job's work directory; processes of this machine get directories below it.
        store: the URI of the job's root in its store.
        clock: seconds since 1970.

    Raises:
        NoSecret: executors come from elsewhere, and the environment has no secret.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        workdir: Path,
        store: str,
        clock: Clock,
    ) -> None:
        self._options = options
        self._store = store
        secret = secrets.token_hex(32) if options.address is None else secret_of()
        self._credentials = Credentials.derive(secret, uuid.uuid4().hex)
        self.fleet = Fleet(options.instances, this_build(), clock)
        self.segments = SegmentsOnExecutors(self.fleet, store, clock)
        self.state = StateOnExecutors(self.fleet, self.segments)
        self.routes = AgentRoutes(self.fleet, self._credentials, self.state.handlers())
        self._loads = Loads()
        self._java_loads: Any = None
        self._launcher: Launcher | None = None
        if options.address is None:
            self._launcher = Launcher(options, workdir / "executors", secret, os.environ)
        self._closing = threading.Event()
        self.fleet.listen(BetweenEpochs(self.fleet))

    @property
    def for_spark(self) -> SparkExecutors:
        """What Spark's driver needs for them."""
        return SparkExecutors(self._options.cores, self._credentials.spark_secret, self._options.address)

    def spark_started(self, spark: SparkSession) -> None:
        """Take executors from now on, and follow which of them Spark has."""
        address = driver_address(spark)
        events = our_java(spark).ExecutorEvents.of(java_context(spark))
        self._java_loads = our_java(spark).ExecutorLoads.of(java_context(spark))
        threading.Thread(target=self._follow, args=(events,), name="executors", daemon=True).start()
        self.fleet.open(
            Welcome(
                executor="",
                driver_url=address.url,
                application=address.application,
                java_options=address.java_options,
                store=self._store,
                job={name: value for name, value in process_fields().items() if name != "epoch"},
            )
        )

    def start(self, url: str) -> None:
        """Start executors, if they are processes of this machine, for the control API at a URL."""
        if self._launcher is not None:
            self._launcher.start(url)

    def stop(self) -> None:
        """Let all executors go, and end those that were started; the control API must still answer."""
        self._closing.set()
        self.fleet.close()
        if self._launcher is not None:
            self._launcher.stop()

    def wait(self, stopped: Callable[[], bool]) -> Sequence[Executor]:
        """Return the executors; wait for missing ones first, unless the job is stopped. Raises NoExecutors."""
        return self.fleet.wait(_WAIT_SECONDS, stopped)

    def observe(self, now: float) -> None:
        """Read the work of the executors; one thread calls this about once a second, with the monotonic time."""
        if self._java_loads is None:
            return
        try:
            lines = self._java_loads.lines()
        except call_errors():
            # Java is gone; the last figures stay.
            return
        self._loads.note(read_totals(lines), now)

    def view(self) -> ExecutorsView:
        """Return the executors, with the state and the work of each."""
        return executors_view(self.fleet, self.state.counts(), self.state.sizes(), self._loads.of)

    def profile(self, executor: str, seconds: float) -> Profiled:
        """Return where an executor spends its CPU time, from now on for some seconds.

        Raises:
            CommandFailed: it could not record that.
            ExecutorLost: it is lost, or does not answer.
        """
        body = Profile(seconds=seconds).model_dump(mode="json")
        return Profiled.model_validate(self.fleet.ask(executor, PROFILE, body, seconds + 2 * COUNTING_SECONDS))

    @contextmanager
    def followed(self, fail: Callable[[ChainUid, str], None], restart: Callable[[str], None]) -> Iterator[None]:
        """Follow the executors for an epoch, see `EpochOnExecutors`; at its end let those go that are to end."""
        epoch = EpochOnExecutors(self.fleet, self.state, fail, restart, _SETTLE_SECONDS)
        self.fleet.listen(epoch)
        try:
            yield
        finally:
            self.fleet.listen(BetweenEpochs(self.fleet))
            epoch.close()
            self.fleet.release_all()

    def _follow(self, events: Any) -> None:
        while not self._closing.is_set():
            try:
                event = events.next(_EVENT_MS)
            except call_errors():
                # Java is gone, and so are the executors.
                return
            if event is None:
                continue
            kind, executor, detail = event
            if kind == "added":
                self.fleet.registered_in_spark(executor, detail)
            else:
                self.fleet.lose(executor, _DISCONNECTED if detail.startswith(_DISASSOCIATED) else detail)
