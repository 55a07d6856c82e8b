"""A real job on a runtime without Spark, and a server in front of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
from tests.unit.runtime.fake_runtime import NOW, FakeRuntime
from tests.unit.view.samples import MANIFEST, WATERMARK_MS

from streamjob.client.models import ControlFile
from streamjob.ids import BatchId, CheckpointId, OperatorUid, TriggerId
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import SnapshotKind
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.manifest import ChainState
from streamjob_runtime.control.api.server import ControlServer
from streamjob_runtime.control.profiles import Language, Recorder
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.profiling.stacks import Stacks
from streamjob_runtime.spark.page import SparkPage

SCHEMA = "at TIMESTAMP, id INT"
JOB: dict[str, Any] = {
    "name": "flights",
    "sources": [
        {"name": "flights", "format": "csv", "schema": SCHEMA, "options": {"path": "in"}},
        {"name": "weather", "format": "csv", "schema": SCHEMA, "options": {"path": "sky"}},
    ],
    "operators": [
        {
            "name": "hours",
            "inputs": ["flights", "weather"],
            "sql": "SELECT * FROM flights UNION ALL SELECT * FROM weather",
        }
    ],
    "sinks": [{"name": "report", "input": "hours", "format": "parquet", "options": {"path": "output"}}],
}
FIRST_ID = 12
ROWS = 452_104
"""Rows in ten seconds."""


class Runtime(FakeRuntime):
    """Takes each checkpoint at once, when it is let to.

    Args:
        prompt: handle each request at once; otherwise requests wait until a test asks for it.
        begun: the job has read rows and taken two checkpoints, between which one failed.
    """

    def __init__(self, *, prompt: bool, begun: bool) -> None:
        spec = read_spec(JOB).spec
        assert spec is not None
        self.prompt = False
        self.failure: str | None = None
        self.stopped = threading.Event()
        self.received: list[m.Event] = []
        self._queue: deque[m.Event] = deque()
        super().__init__(LoadedJob(spec, Path("/"), "job.yaml"), self._deliver, last_id=FIRST_ID - 1)
        self._send_all(m.ChainStatus.RUNNING)
        if begun:
            self._checkpoint(0.42)
            self.failure = "a chain could not write its files to the store: 503 Slow Down"
            self._checkpoint(5)
            self.failure = None
            self._checkpoint(1.26)
        self.received.clear()
        self.prompt = prompt

    def _checkpoint(self, seconds: float) -> None:
        """Take a checkpoint for which a chain needs some seconds."""
        uid = TriggerId(f"before-{len(self.received)}")
        self.coordination.post(m.TriggerRequested(now=self.clock(), trigger_id=uid, kind=SnapshotKind.CHECKPOINT))
        self.handle_until(uid, seconds)

    def _deliver(self, event: m.Event) -> None:
        self.received.append(event)
        self._queue.append(event)
        if self.prompt:
            self._handle(self._queue.popleft())

    def handle_until(self, trigger_id: TriggerId, seconds: float = 0.5) -> None:
        """Handle what was delivered until a request has its outcome."""
        while True:
            status = self.coordination.request(trigger_id)
            if status is not None and status.state.resolved:
                return
            self._handle(self._queue.popleft(), seconds)

    def _handle(self, event: m.Event, seconds: float = 0.5) -> None:
        for action in self.coordination.handle(event):
            self._execute(action, seconds)

    def _execute(self, action: m.Action, seconds: float) -> None:
        match action:
            case m.StartCheckpoint():
                self.clock.now += seconds
                for chain in action.chains:
                    acknowledgement = m.ChainAcknowledgement(
                        state=ChainState(uid=chain, operators=(), batch=BatchId(0)),
                        metrics=m.AcknowledgementMetrics(checkpointed_size=1_200_000, state_size=14_500_000),
                    )
                    self._handle(
                        m.ChainAcknowledged(now=self.clock(), id=action.id, acknowledgement=acknowledgement), seconds
                    )
            case m.CompleteCheckpoint():
                self._handle(self._completion(action.id))
            case m.CommitOutput():
                self._handle(m.OutputCommitted(now=self.clock(), id=action.id))
            case m.DrainSources():
                self._send_all(m.ChainStatus.DRAINED)
            case m.EndJob():
                self.coordination.enter_if_possible(JobState.STOPPING)
                self.coordination.end(JobState.STOPPED, None)
                self.stopped.set()
            case _:
                pass

    def _completion(self, checkpoint: CheckpointId) -> m.Event:
        if self.failure is None:
            return m.CompletionSucceeded(now=self.clock(), id=checkpoint, uri=MANIFEST)
        failure = m.CompletionFailure.NOT_WRITTEN
        return m.CompletionFailed(now=self.clock(), id=checkpoint, failure=failure, message=self.failure)

    def _send_all(self, status: m.ChainStatus) -> None:
        for chain in self.plan.chains:
            self._handle(m.ChainStateChanged(now=self.clock(), chain=chain.uid, status=status))


class ServedJob(RunningJob):
    """The job that a server serves; requests stay queued until a test resolves them, unless `prompt`.

    Args:
        prompt: see Runtime.
        begun: see Runtime.
    """

    def __init__(self, *, prompt: bool = False, begun: bool = True) -> None:
        self.runtime = Runtime(prompt=prompt, begun=begun)
        self.profiled = threading.Event()
        self.spark: SparkPage | None = None
        super().__init__(cast(Any, self.runtime.runner), recorders=self._recorders, spark_page=lambda: self.spark)
        if begun:
            self._read()
        self.runtime.clock.now = NOW + 134
        # The first view imports modules that a process with Spark has long imported; no request must wait for that.
        self.job()

    def _recorders(self) -> list[Recorder]:
        return [Recorder("driver", ("java",), self._stacks)]

    def _stacks(self, seconds: float) -> dict[Language, Stacks]:
        assert self.profiled.wait(30)
        return {"java": {("main", "io.Job.run"): 900.0, ("main", "io.Job.run", "io.Rows.read"): 100.0}}

    def _read(self) -> None:
        """Let the job's chain read all its input in ten seconds."""
        self.runtime.begin_epoch()
        (chain,) = self.runtime.chains.values()
        self.runtime.clock.now = NOW + 120
        self.observe()
        chain.query.add(ROWS)
        chain.rows = 23_456
        chain.watermarks = {OperatorUid("flights"): WATERMARK_MS, OperatorUid("weather"): WATERMARK_MS}
        chain.ended = True
        self.runtime.clock.now += 10
        self.observe()

    @property
    def asked(self) -> list[tuple[str, TriggerId]]:
        """The kinds and ids of the requests that have reached the epoch."""
        kinds = {SnapshotKind.CHECKPOINT: "checkpoint", SnapshotKind.SAVEPOINT: "savepoint"}
        return [
            ("stop" if isinstance(event, m.StopRequested) else kinds[event.kind], event.trigger_id)
            for event in self._requested
        ]

    @property
    def _requested(self) -> list[m.TriggerRequested | m.StopRequested]:
        received = self.runtime.received
        return [event for event in received if isinstance(event, m.TriggerRequested | m.StopRequested)]

    @property
    def locations(self) -> list[str | None]:
        """The locations of the requests."""
        return [event.location for event in self._requested]

    @property
    def drains(self) -> list[bool]:
        """Which requests for a stop drain the job."""
        return [event.drain for event in self._requested if isinstance(event, m.StopRequested)]

    @property
    def policy(self) -> CheckpointingPolicy:
        """The policy in force."""
        return self.runtime.coordination.policy

    def enter(self, *states: JobState) -> None:
        """Let the job enter states, one after the other."""
        for state in states:
            self.runtime.coordination.enter(state)

    def resolve(self, trigger_id: TriggerId) -> None:
        """Let the runtime carry out a request."""
        self.runtime.handle_until(trigger_id)


def metrics_text() -> bytes:
    """Return what stands for metrics."""
    return b"streamjob_up 1\n"


def token_of(workdir: Path) -> str:
    """Return the token of the job that runs in a work directory."""
    control = ControlFile.model_validate_json((workdir / "control.json").read_bytes())
    return Path(control.token_file).read_text()


@contextmanager
def serving(job: RunningJob, workdir: Path) -> Iterator[httpx.Client]:
    """Serve a job while the context lasts, and yield an HTTP client that knows the token."""
    server = ControlServer(job, workdir, metrics=metrics_text)
    server.start()
    headers = {"Authorization": f"Bearer {token_of(workdir)}"}
    try:
        with httpx.Client(base_url=server.url, headers=headers, timeout=60.0, trust_env=False) as http:
            yield http
    finally:
        server.stop(linger=0.0)
