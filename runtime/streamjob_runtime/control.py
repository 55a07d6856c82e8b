"""The running job as the control API sees it: views of what is known, and requests put to the coordinator."""

from __future__ import annotations

import threading
from typing import Any

from streamjob.client.models import (
    ChainView,
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    InputView,
    JobState,
    JobView,
    LastCheckpointView,
    RestoredFromView,
    SinkView,
    SnapshotKind,
    TriggerView,
)
from streamjob.ids import CheckpointId, OperatorUid, TriggerId
from streamjob.job.graph import graph_of
from streamjob.job.spec import CheckpointingPolicy
from streamjob.protocol import messages as m
from streamjob_runtime.api.control import InvalidChange, NotYetSupported, StateConflict
from streamjob_runtime.chain import Chain
from streamjob_runtime.metrics import Metrics
from streamjob_runtime.progress import ProgressReader, Rate
from streamjob_runtime.requests import Requests
from streamjob_runtime.runner import Runner

_TAKES_CHECKPOINTS = frozenset({JobState.RUNNING, JobState.FINISHING})


class RunningJob:
    """Implements `JobControl` on a runner.

    Args:
        runner: the job.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._requests = Requests(runner.triggers)
        self._lock = threading.Lock()
        self._chain: Chain | None = None
        self._progress = ProgressReader()
        self._rates = (Rate(), Rate())
        self._records_in = 0
        self._records_out: int | None = 0
        self._records_out_before: int | None = 0
        self._last_batch_ms: int | None = None
        self._watermarks: dict[OperatorUid, int] = {}
        loaded = runner.job.loaded
        self._graph: dict[str, Any] = graph_of(loaded.spec, loaded.directory)

    def observe(self, metrics: Metrics | None = None) -> None:
        """Read what Spark reports of the query; called about once a second by one thread."""
        epoch = self._runner.epoch
        chain = epoch.chain if epoch else None
        if chain is None:
            return
        with self._lock:
            if chain is not self._chain:
                self._records_out_before = self._records_out
                self._chain, self._progress = chain, ProgressReader()
        batches = self._progress.new_batches(chain.queries)
        with self._lock:
            self._records_in += sum(batch.rows_in for batch in batches)
            if batches:
                self._last_batch_ms = batches[-1].duration_ms
            now = self._runner.job.clock()
            self._rates[0].note(now, self._records_in)
            self._records_out = _sum(self._records_out_before, chain.outputs.rows)
            self._rates[1].note(now, self._records_out or 0)
            self._watermarks = dict(chain.watermarks_now())
        for batch in batches if metrics else ():
            assert metrics is not None
            metrics.observe_batch(chain.uid, batch.duration_ms / 1000)

    def job(self) -> JobView:
        """Return the job as it stands."""
        runner = self._runner
        now = runner.job.clock()
        with runner.lock:
            epoch, ledger, lifecycle = runner.epoch, runner.ledger, runner.lifecycle
            latest = runner.statistics.overview().latest
            failure = runner.failure
        restored = epoch.restored if epoch else None
        last = max(filter(None, (latest.completed, latest.savepoint)), key=lambda each: each.id, default=None)
        return JobView(
            state=lifecycle.state,
            name=runner.job.name,
            namespace=runner.job.namespace,
            graph=self._graph,
            attempt=runner.attempt,
            epoch=ledger.epoch if ledger else None,
            restarts=lifecycle.restarts,
            start_time=runner.started,
            uptime=now - runner.started,
            location=runner.store.uri,
            chains=(self._chain_view(now),) if epoch and epoch.chain else (),
            sinks=tuple(self._sink_views()),
            last_checkpoint=_last_checkpoint(last) if last else None,
            restored_from=RestoredFromView(
                id=restored.manifest.id, kind=SnapshotKind(restored.manifest.kind), path=restored.uri
            )
            if restored
            else None,
            failure=failure,
        )

    def _chain_view(self, now: float) -> ChainView:
        plan = self._runner.job.chain
        with self._lock:
            chain, watermarks = self._chain, self._watermarks
            inputs = tuple(
                InputView(
                    uid=source.uid,
                    watermark_ms=watermarks.get(source.uid),
                    lag_ms=round(now * 1000) - watermarks[source.uid] if source.uid in watermarks else None,
                    ended=chain is not None and chain.ended,
                )
                for source in plan.sources
            )
            return ChainView(
                uid=plan.uid,
                operators=plan.uids(),
                batch=chain.last_published if chain else -1,
                records_in=self._records_in,
                records_out=self._records_out,
                records_in_per_second=self._rates[0].per_second,
                records_out_per_second=self._rates[1].per_second,
                watermark_ms=min(watermarks.values(), default=None),
                inputs=inputs,
                last_batch_ms=self._last_batch_ms,
            )

    def _sink_views(self) -> list[SinkView]:
        targets = {sink["uid"]: sink.get("options", {}).get("path") for sink in self._graph["sinks"]}
        return [
            SinkView(uid=sink.uid, format=sink.format, target=targets[sink.uid], delivery=sink.delivery)
            for sink in self._runner.job.chain.sinks
        ]

    def checkpoints(self) -> CheckpointsView:
        """Return counts, summary, the latest of each kind, and the history."""
        with self._runner.lock:
            return self._runner.statistics.overview()

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail | None:
        """Return one checkpoint with its tasks, or None if the history does not hold it."""
        with self._runner.lock:
            return self._runner.statistics.details(checkpoint)

    def trigger_checkpoint(self, trigger_id: TriggerId) -> None:
        """Ask for a checkpoint."""
        self._requests.note(trigger_id, "checkpoint")
        event = m.TriggerRequested(now=self._runner.job.clock(), trigger_id=trigger_id, kind=SnapshotKind.CHECKPOINT)
        state = self._runner.lifecycle.state
        if state not in _TAKES_CHECKPOINTS or not self._runner.post(event):
            self._requests.forget(trigger_id)
            raise StateConflict(f"A job that is {state} takes no checkpoints", "ask again when it is RUNNING")

    def trigger_savepoint(self, location: str | None, trigger_id: TriggerId) -> None:
        """Refuse: this version has no savepoints."""
        raise NotYetSupported(
            "This version takes no savepoints", "take a checkpoint, which numRetained keeps for a while"
        )

    def stop(self, *, savepoint: bool, location: str | None, drain: bool, trigger_id: TriggerId) -> None:
        """Ask the job to stop behind a last checkpoint."""
        if savepoint or drain:
            raise NotYetSupported("This version stops with a last checkpoint only", "ask for a plain stop")
        state = self._runner.lifecycle.state
        if state.terminal:
            raise StateConflict(f"The job is {state} already")
        self._requests.note(trigger_id, "stop")
        self._runner.stop_now(trigger_id)

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Change the fields that were sent, and return the policy in force. Raises InvalidChange."""
        changed = {name: getattr(changes, name) for name in changes.model_fields_set}
        if "interval" in changed and changed["interval"] is None:
            raise InvalidChange(
                "interval", "a job without periodic checkpoints is not supported", "send a long interval"
            )
        policy = CheckpointingPolicy.model_validate({**self._runner.policy.model_dump(), **changed})
        self._runner.change_policy(policy)
        return CheckpointingView.model_validate(policy.model_dump(include=set(CheckpointingView.model_fields)))

    def trigger(self, trigger_id: TriggerId) -> TriggerView | None:
        """Return what became of a request, or None if the id is unknown."""
        return self._requests.view(trigger_id)

    def healthy(self) -> tuple[bool, str]:
        """Return whether the process does its work."""
        state = self._runner.lifecycle.state
        return (False, f"the job is {state}") if state in (JobState.FAILED, JobState.SUPERSEDED) else (True, "")

    def ready(self) -> tuple[bool, str]:
        """Return whether the job processes records."""
        state = self._runner.lifecycle.state
        return (True, "") if state in _TAKES_CHECKPOINTS else (False, f"the job is {state}")


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _last_checkpoint(checkpoint: CheckpointDetail) -> LastCheckpointView:
    triggered = checkpoint.trigger_timestamp / 1000
    return LastCheckpointView(
        id=CheckpointId(checkpoint.id),
        kind=SnapshotKind.SAVEPOINT if checkpoint.is_savepoint else SnapshotKind.CHECKPOINT,
        triggered=triggered,
        completed=triggered + checkpoint.end_to_end_duration / 1000,
        duration_ms=checkpoint.end_to_end_duration,
        checkpointed_size=checkpoint.checkpointed_size,
        state_size=checkpoint.state_size,
        path=checkpoint.external_path or "",
    )
