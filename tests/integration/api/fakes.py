"""A job that the control API can be tested against, and a server in front of it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.unit.view.samples import MANIFEST, a_job, checkpoints

from streamjob.client.models import (
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    ControlFile,
    JobPart,
    JobReport,
    JobState,
    JobView,
    TriggerState,
    TriggerView,
)
from streamjob.ids import CheckpointId, TriggerId
from streamjob_runtime.control.api.job_control import StateConflict
from streamjob_runtime.control.api.server import ControlServer


class FakeJob:
    """A JobControl in memory: requests stay queued until a test resolves them, unless `prompt`."""

    def __init__(self, *, prompt: bool = False) -> None:
        self.prompt = prompt
        self.view = a_job()
        self.statistics = checkpoints("completed", "failed", "completed")
        self.policy = CheckpointingView(
            interval=10, timeout=600, min_pause=0, mode="aligned", tolerable_failed_checkpoints=10, num_retained=3
        )
        self.health = (True, "")
        self.readiness = (True, "")
        self.asked: list[tuple[str, TriggerId]] = []
        self.stopped = threading.Event()
        self.failure: str | None = None
        self.locations: list[str | None] = []
        self.drains: list[bool] = []
        self._triggers: dict[TriggerId, TriggerView] = {}

    def job(self) -> JobView:
        return self.view

    def report(self, include: Collection[JobPart], triggers: Collection[TriggerId]) -> JobReport:
        return JobReport(
            **dict(self.view),
            checkpoints=self.statistics if "checkpoints" in include else None,
            checkpointing=self.policy if "checkpointing" in include else None,
            triggers={each: self._triggers[each] for each in triggers if each in self._triggers} if triggers else None,
        )

    def checkpoints(self) -> CheckpointsView:
        return self.statistics

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail | None:
        return next((entry for entry in self.statistics.history if entry.id == checkpoint), None)

    def trigger_checkpoint(self, trigger_id: TriggerId) -> None:
        if self.view.state.terminal:
            raise StateConflict(f"the job is {self.view.state}", "Start it again.")
        self._accept("checkpoint", TriggerView(trigger_id=trigger_id, kind="checkpoint", state=TriggerState.QUEUED))

    def trigger_savepoint(self, location: str | None, trigger_id: TriggerId) -> None:
        self.locations.append(location)
        self._accept("savepoint", TriggerView(trigger_id=trigger_id, kind="savepoint", state=TriggerState.QUEUED))

    def stop(self, *, savepoint: bool, location: str | None, drain: bool, trigger_id: TriggerId) -> None:
        self.drains.append(drain)
        self.locations.append(location)
        self._accept("stop", TriggerView(trigger_id=trigger_id, kind="stop", state=TriggerState.QUEUED))
        if self.prompt:
            self.view = a_job(state=JobState.STOPPED)
            self.stopped.set()

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        self.policy = self.policy.model_copy(update=changes.changed())
        return self.policy

    def trigger(self, trigger_id: TriggerId) -> TriggerView | None:
        return self._triggers.get(trigger_id)

    def healthy(self) -> tuple[bool, str]:
        return self.health

    def ready(self) -> tuple[bool, str]:
        return self.readiness

    def resolve(self, trigger_id: TriggerId, state: TriggerState = TriggerState.COMPLETED) -> None:
        """End a request."""
        failed = state is TriggerState.FAILED
        self._triggers[trigger_id] = self._triggers[trigger_id].model_copy(
            update={
                "state": state,
                "checkpoint": None if failed else CheckpointId(15),
                "result": None if failed else MANIFEST,
                "failure": self.failure or "the store is away" if failed else None,
            }
        )

    def _accept(self, kind: str, view: TriggerView) -> None:
        self.asked.append((kind, view.trigger_id))
        self._triggers[view.trigger_id] = view
        if self.prompt:
            self.resolve(view.trigger_id, TriggerState.FAILED if self.failure else TriggerState.COMPLETED)


def metrics_text() -> bytes:
    """Return a substitute for metrics."""
    return b"streamjob_up 1\n"


def token_of(workdir: Path) -> str:
    """Return the token of the job that runs in a work directory."""
    control = ControlFile.model_validate_json((workdir / "control.json").read_bytes())
    return Path(control.token_file).read_text()


@contextmanager
def serving(job: FakeJob, workdir: Path) -> Iterator[httpx.Client]:
    """Serve a job while the context lasts, and yield an HTTP client that knows the token."""
    server = ControlServer(job, workdir, metrics=metrics_text)
    server.start()
    headers = {"Authorization": f"Bearer {token_of(workdir)}"}
    try:
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as http:
            yield http
    finally:
        server.stop(linger=0.0)
