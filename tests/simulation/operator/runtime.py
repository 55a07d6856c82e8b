"""A fake runtime: a driver's process that claims a log, restores, takes checkpoints and answers triggers.

Its behaviour follows from its job file, `job.behaviour`:

- `good` runs for ever; `finite` ends its input after a few checkpoints; `finite-crash` dies after its final one, before
  it has published the output.
- `stuck` never comes to run.
- `crash` fails soon after its start, before a checkpoint; `hang` runs, and completes none.
- `invalid` and `unrestorable` end with the exit codes 2 and 3.
- `stubborn` runs, and every savepoint of it fails.
- `failing` runs, and fails and restarts by itself whenever it is to stop with a savepoint.

One of a run up to what is there has read it after two checkpoints, and ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from streamjob.client.models import (
    CheckpointingChanges,
    CheckpointingView,
    JobView,
    LastCheckpointView,
    RestoredFromView,
    SnapshotKind,
    TriggerState,
    TriggerView,
)
from streamjob.errors import ExitCode
from streamjob.ids import CheckpointId, Epoch, TriggerId
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.actions import CreateDriver, StopJob
from streamjob_operator.decisions.values.observation import Completion
from streamjob_operator.decisions.values.revision import Revision

START = 5
CRASH = 8
CHECKPOINTS_OF_A_FINITE_JOB = 3
CHECKPOINTS_OF_A_RUN = 2


@dataclass
class Log:
    """The job's log: who claimed it last, and what was completed."""

    attempt: int | None = None
    epoch: int = 0
    owner: int | None = None
    final_committed: bool = False
    completions: list[Completion] = field(default_factory=list)

    @property
    def newest(self) -> Completion | None:
        return self.completions[-1] if self.completions else None

    def claim(self, process: Process) -> bool:
        if self.attempt is not None and self.attempt > process.attempt:
            return False
        self.attempt, self.epoch, self.owner = process.attempt, self.epoch + 1, id(process)
        return True

    def complete(self, process: Process, kind: RecordKind, now: float) -> Completion | None:
        """Append a completion; return None if another owner holds the log by now."""
        if self.owner != id(process):
            return None
        number = self.newest.id + 1 if self.newest else 1
        done = Completion(
            id=number,
            kind=kind,
            path=f"s3://bucket/snapshots/{self.epoch}-{number}/manifest.json",
            epoch=self.epoch,
            attempt=process.attempt,
            time=now,
        )
        self.completions.append(done)
        return done


@dataclass
class Start:
    """How a driver started: what the oracle judges."""

    attempt: int
    restore_from: str
    newest: Completion | None


class Process:
    """A driver's process.

    Args:
        created: what the controller asked for.
        revision: its revision.
        log: the job's log.
        starts: takes note of how it starts.
        now: the time, in seconds.
    """

    def __init__(self, created: CreateDriver, revision: Revision, log: Log, starts: list[Start], now: float) -> None:
        self.attempt = created.attempt
        self.created = created
        self.policy = CheckpointingPolicy.model_validate(revision.policy)
        asked = str((revision.content.get("job") or {}).get("behaviour", "good"))
        self.behaviour, _, crashes = asked.partition("-")
        self.exit_code: int | None = None
        self.restarts = 0
        self.state = JobState.CREATED
        self.triggers: dict[str, TriggerView] = {}
        self._log = log
        self._starts = starts
        self.waits = created.waits
        self._prepared_at = now + START
        self._ready_at = now + START
        self._next = 0.0
        self._now = now
        self._last: Completion | None = None
        self._restored: Completion | None = None
        self._done = 0
        self._stop: StopJob | None = None
        self._requests: list[tuple[str, RecordKind, float]] = []
        self._stop_at = 0.0
        self._terminated = False
        self.savepoint_seconds = 3.0
        self.lingers = False
        self.savepoint_fails = False
        self.crashes_behind_savepoint = False
        self.crashes_behind_final = bool(crashes)

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    @property
    def _code_of_stop(self) -> int:
        return ExitCode.of_stop(available_now=self.created.available_now)

    @property
    def last(self) -> Completion | None:
        """Its last completion."""
        return self._last

    def end(self, code: int, state: JobState) -> None:
        self.exit_code, self.state = code, state

    def kill(self) -> None:
        if self.alive:
            self.end(137, self.state)

    def restart(self) -> None:
        """The job fails, and goes on from its newest snapshot in the same process."""
        self.restarts, self._restored = self.restarts + 1, self._log.newest

    def terminate(self) -> None:
        """SIGTERM."""
        self._terminated = True

    def start(self, now: float) -> None:
        """`POST /v1/start`."""
        if self.waits:
            self.waits = False
            self._ready_at = max(self._prepared_at, now + 1)

    def stop(self, request: StopJob, now: float) -> None:
        """`POST /v1/stop`."""
        if request.trigger_id in self.triggers or self.state is not JobState.RUNNING:
            return
        for waiting, _, _ in self._requests:
            self._tell(waiting, TriggerState.FAILED)
        self._requests.clear()
        self._stop, self._stop_at, self.state = request, now + self.savepoint_seconds, JobState.STOPPING
        self._tell(request.trigger_id, TriggerState.IN_PROGRESS)

    def request(self, trigger_id: str, kind: RecordKind, now: float) -> None:
        """`POST /v1/savepoints` or `/v1/checkpoints`."""
        if trigger_id not in self.triggers and self.state is JobState.RUNNING:
            self._requests.append((trigger_id, kind, now + self.savepoint_seconds))
            self._tell(trigger_id, TriggerState.IN_PROGRESS)

    def patch(self, changes: CheckpointingChanges) -> None:
        """`PATCH /v1/checkpointing`."""
        self.policy = CheckpointingPolicy.model_validate(
            {**self.policy.model_dump(by_alias=True), **changes.model_dump(by_alias=True, exclude_unset=True)}
        )

    def step(self, now: float) -> None:
        """Do what is due."""
        if not self.alive:
            return
        if self.state is JobState.CREATED:
            self._begin(now)
        if not self.alive or self.state is JobState.CREATED:
            if self.alive and self._terminated:
                self.end(self._code_of_stop, JobState.STOPPED)
            return
        if self._terminated:
            if self.state is not JobState.STOPPED:
                self._complete(RecordKind.CHECKPOINT, now)
            if self.alive:
                self.end(self._code_of_stop, JobState.STOPPED)
        elif self._stop is not None and now >= self._stop_at:
            self._finish_stop(self._stop, now)
        elif self.state is JobState.RUNNING:
            self._answer(now)
            if self.alive and now >= self._next:
                self._work(now)

    def view(self) -> JobView | None:
        """`GET /v1/job`; None before it listens."""
        if not self.alive:
            return None
        last, source = self._last, self._restored
        return JobView(
            state=self.state,
            name="job",
            namespace="default",
            attempt=self.attempt,
            epoch=Epoch(self._log.epoch),
            start_time=0,
            uptime=0,
            restarts=self.restarts,
            waiting=self._waiting(),
            last_checkpoint=None
            if last is None
            else LastCheckpointView(
                id=CheckpointId(last.id),
                kind=SnapshotKind(last.kind.value),
                triggered=last.time,
                completed=last.time,
                duration_ms=1,
                checkpointed_size=1,
                state_size=1,
                path=last.path,
            ),
            restored_from=None
            if source is None
            else RestoredFromView(id=CheckpointId(source.id), kind=SnapshotKind(source.kind.value), path=source.path),
        )

    def _waiting(self) -> Literal["preparing", "prepared"] | None:
        if not self.waits:
            return None
        return "prepared" if self._now >= self._prepared_at and self.behaviour != "stuck" else "preparing"

    def policy_view(self) -> CheckpointingView:
        """The policy in force."""
        return CheckpointingView.model_validate(
            self.policy.model_dump(by_alias=True, include=set(CheckpointingView.model_fields))
        )

    def _begin(self, now: float) -> None:
        self._now = now
        if now < self._prepared_at or self.behaviour == "stuck":
            return None
        if self.behaviour == "invalid":
            return self.end(ExitCode.INVALID_INPUT, JobState.FAILED)
        if self.waits or now < self._ready_at:
            return None
        if not self._log.claim(self):
            return self.end(ExitCode.SUPERSEDED, JobState.SUPERSEDED)
        newest = self._log.newest
        source = self.created.restore_from
        if self.behaviour == "unrestorable" or (
            source == "latest" and self.created.require_snapshot and newest is None
        ):
            return self.end(ExitCode.CANNOT_RESTORE, JobState.FAILED)
        self._starts.append(Start(self.attempt, source, newest))
        if source == "latest" and newest is not None and newest.kind is RecordKind.FINAL:
            return self._commit_final()
        self.state, self._restored = JobState.RUNNING, newest if source == "latest" else None
        self._next = now + (CRASH if self.behaviour == "crash" else (self.policy.interval or self.policy.timeout))
        return None

    def _work(self, now: float) -> None:
        self._next = now + (self.policy.interval or self.policy.timeout)
        if self.behaviour == "crash":
            return self.end(ExitCode.FAILED, JobState.FAILED)
        if self.behaviour == "hang":
            return None
        self._done += 1
        if self.behaviour == "finite" and self._done >= CHECKPOINTS_OF_A_FINITE_JOB:
            if self._complete(RecordKind.FINAL, now):
                return self.kill() if self.crashes_behind_final else self._commit_final()
            return None
        if self._complete(RecordKind.CHECKPOINT, now) and self._reads_to_its_end():
            self.end(0, JobState.STOPPED)
        return None

    def _reads_to_its_end(self) -> bool:
        return self.created.available_now and self._done >= CHECKPOINTS_OF_A_RUN

    def _commit_final(self) -> None:
        self._log.final_committed = True
        self.end(0, JobState.FINISHED)

    def _complete(self, kind: RecordKind, now: float) -> Completion | None:
        if self.behaviour in ("crash", "hang"):
            return None
        done = self._log.complete(self, kind, now)
        if done is None:
            self.end(ExitCode.SUPERSEDED, JobState.SUPERSEDED)
        else:
            self._last = done
        return done

    def _answer(self, now: float) -> None:
        for request in [each for each in self._requests if each[2] <= now]:
            trigger_id, kind, _ = request
            self._requests.remove(request)
            if self.behaviour == "stubborn" or self.savepoint_fails:
                self.savepoint_fails = False
                self._tell(trigger_id, TriggerState.FAILED)
                continue
            done = self._complete(kind, now)
            if done is None:
                self._tell(trigger_id, TriggerState.FAILED)
                return
            self._tell(trigger_id, TriggerState.COMPLETED, done.path)

    def _finish_stop(self, request: StopJob, now: float) -> None:
        self._stop = None
        fails = self.behaviour in ("stubborn", "hang", "crash") or self.savepoint_fails
        if request.savepoint and self.behaviour == "failing":
            self.state = JobState.RUNNING
            self.restart()
            return self._tell(request.trigger_id, TriggerState.FAILED)
        if request.savepoint and fails:
            self.state, self.savepoint_fails = JobState.RUNNING, False
            return self._tell(request.trigger_id, TriggerState.FAILED)
        done = self._complete(RecordKind.SAVEPOINT if request.savepoint else RecordKind.CHECKPOINT, now)
        if not self.alive:
            return None
        if self.crashes_behind_savepoint:
            return self.end(ExitCode.FAILED, JobState.FAILED)
        self._tell(request.trigger_id, TriggerState.COMPLETED, None if done is None else done.path)
        self.state = JobState.STOPPED
        return None if self.lingers else self.end(self._code_of_stop, JobState.STOPPED)

    def _tell(self, trigger_id: str, state: TriggerState, result: str | None = None) -> None:
        # As long as a stack trace of Java, and longer than a status may be.
        failure = "the store is away, " * 500 if state is TriggerState.FAILED else None
        self.triggers[trigger_id] = TriggerView(
            trigger_id=TriggerId(trigger_id), kind="stop", state=state, result=result, failure=failure
        )
