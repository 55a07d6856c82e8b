"""Implements the control API's interface to the job: builds views, and passes requests to the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from streamjob.client.diagnosing import STORE_WINDOW, Circumstances, diagnose
from streamjob.client.models import (
    ChainView,
    ChannelView,
    CheckpointDetail,
    CheckpointingChanges,
    CheckpointingView,
    CheckpointsView,
    ExecutorsView,
    JobPart,
    JobReport,
    JobState,
    JobView,
    LastCheckpointView,
    LookupView,
    MigratingView,
    ReplayingView,
    RestoredFromView,
    RewritingView,
    SinkView,
    SnapshotKind,
    TableView,
    TriggerView,
)
from streamjob.client.page_models import Diagnosis
from streamjob.errors import InvalidInput
from streamjob.ids import ChainUid, CheckpointId, OperatorUid, TriggerId
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import lossy_names
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.requests import must_succeed
from streamjob.protocol.emissions.channels import Backlog
from streamjob.protocol.lifecycle import Lifecycle
from streamjob.store.opening import open_location
from streamjob_runtime.control.api.refusals import InvalidChange, StateConflict
from streamjob_runtime.control.event_log import EventLog
from streamjob_runtime.control.history import History, point_of
from streamjob_runtime.control.profiles import Profiles, Recorder
from streamjob_runtime.control.requests import Requests
from streamjob_runtime.control.start_gate import StartGate
from streamjob_runtime.control.terminal.events import Look
from streamjob_runtime.control.terminal.events import events as events_between
from streamjob_runtime.control.views import (
    chain_view,
    channel_view,
    last_checkpoint_view,
    lookup_view,
    sink_view,
    table_view,
    total,
)
from streamjob_runtime.job.coordination import JobStatus
from streamjob_runtime.job.epoch import EpochView
from streamjob_runtime.job.runner import Runner
from streamjob_runtime.migrating.watching import tasks_of
from streamjob_runtime.monitoring.chain_meter import ChainMeter
from streamjob_runtime.monitoring.memory_meter import MemoryMeter
from streamjob_runtime.monitoring.metered_store import MeteredStore
from streamjob_runtime.monitoring.metrics import Metrics
from streamjob_runtime.monitoring.query_progress import BatchProgress
from streamjob_runtime.monitoring.restart_times import RestartTimes
from streamjob_runtime.spark.gateway import running_java
from streamjob_runtime.spark.page import SparkPage, is_enabled

_TAKES_CHECKPOINTS = frozenset({JobState.RUNNING, JobState.FINISHING})
_ENDS_IN_ORDER = frozenset({JobState.STOPPING, JobState.STOPPED, JobState.FINISHED})
_NOTHING = Backlog()
_FRESH_SECONDS = 1.5


class RunningJob:
    """A job as the control API sees it.

    Methods are called from several threads at a time, and return at once: none waits for a batch, an upload or the
    store. Views are copies of known data; requests are queued, and their outcome is queried by trigger id. Methods that
    take a trigger id are called once per id in a process.

    Args:
        store: its store, whose failures are a part of the diagnosis; None in a test without one.
        recorders: returns the processes that can be profiled.
        spark_page: returns where Spark's own page is; None if the job has not asked for it, or Spark has not started.
        on_batch: receives each batch that has ended.
        gate: keeps the job waiting until a request starts it; None for a job that starts by itself.
    """

    def __init__(
        self,
        runner: Runner,
        store: MeteredStore | None = None,
        recorders: Callable[[], Sequence[Recorder]] = lambda: (),
        spark_page: Callable[[], SparkPage | None] = lambda: None,
        on_batch: Callable[[ChainUid, BatchProgress], None] = lambda _chain, _batch: None,
        gate: StartGate | None = None,
    ) -> None:
        self.gate = gate or StartGate()
        self.spark_page = spark_page
        self._runner = runner
        self._on_batch = on_batch
        self._store = store
        self._restarts = RestartTimes()
        self.history = History([chain.uid for chain in runner.job.plan.chains])
        self.events = EventLog()
        self.profiles = Profiles(runner.job.clock, recorders, self._note_profile)
        self._look: Look | None = None
        self._looked = 0.0
        self._coordination = runner.coordination
        self.requests = Requests(self._coordination.request)
        self._has_spark_page = is_enabled(runner.job.loaded.spec.spark_conf)
        self._memory = MemoryMeter(running_java)
        self._meters = {chain.uid: ChainMeter() for chain in runner.job.plan.chains}
        loaded = runner.job.loaded
        self._graph: dict[str, Any] = graph_of(loaded.spec, loaded.directory)
        self._shown_graph = _without_null(self._graph)
        self._lossy = lossy_names(loaded.spec)

    def observe(self, metrics: Metrics | None = None) -> None:
        """Read Spark's reports about the queries; one thread calls this about once a second."""
        now = self._runner.job.clock()
        self._restarts.note(self._coordination.lifecycle.restarts, now)
        self._memory.observe(now)
        if (executors := self._runner.job.executors) is not None:
            executors.observe(now)
        epoch = self._runner.epoch
        if epoch is None or epoch.emission is None:
            return
        for uid, meter in self._meters.items():
            chain = epoch.chains.get(uid)
            if chain is None:
                meter.rest(now)
                continue
            for batch in meter.observe(chain, epoch.emission, now, self._in_sinks(uid), epoch.begun):
                if metrics is not None:
                    metrics.observe_batch(uid, batch.duration_ms / 1000)
                self._on_batch(uid, batch)

    def record(self, job: JobView, checkpoints: CheckpointsView) -> None:
        """Remember figures and events of the job; the thread that observes it calls this about once a second."""
        now = self._runner.job.clock()
        self.history.note(job, now)
        before, self._look, self._looked = self._look, Look(job, checkpoints), now
        for each in events_between(before, self._look):
            at = now if each.at is None else each.at
            self.events.add(at, each.kind, each.text, weight=each.weight, details=each.details)

    def _in_sinks(self, uid: ChainUid) -> dict[OperatorUid, float]:
        job = self._runner.job
        return {sink.uid: job.sink_meters.of(sink.uid).figures.stage_seconds for sink in job.plan.chain(uid).sinks}

    def executors(self) -> ExecutorsView:
        """Return the executors in processes of their own."""
        return self._executors() or ExecutorsView(wanted=0)

    def _executors(self) -> ExecutorsView | None:
        executors = self._runner.job.executors
        return None if executors is None else executors.view()

    def diagnosis(self) -> Diagnosis:
        """Return the condition of the job in one sentence, with every finding."""
        return self._diagnosis(self.report(), self.checkpoints())

    def _diagnosis(self, job: JobView, checkpoints: CheckpointsView) -> Diagnosis:
        failures = [] if self._store is None else self._store.failures(STORE_WINDOW)
        known = Circumstances(
            now=self._runner.job.clock(),
            policy=_policy_view(self._coordination.policy),
            restarts=self._restarts.times,
            store_failures=len(failures),
            store_error=failures[-1].message if failures else "",
            lag_change=self.history.lag_change(),
            event_lag_change=self.history.event_lag_change(),
            batch_target=self._runner.job.loaded.spec.batch_duration,
        )
        return diagnose(job, checkpoints, known)

    def live(self) -> Mapping[str, Any]:
        """Return the document that the job's page shows, as JSON without null fields."""
        now = self._runner.job.clock()
        look = self._look
        # An observation of a moment ago is shown as it is: for many chains the views cost more than all the rest.
        if look is None or now - self._looked > _FRESH_SECONDS:
            look = Look(self.job(), self.checkpoints())
        job = look.job.model_dump(mode="json", exclude_none=True, exclude={"graph"})
        # The same object each time, so that looking for changes costs nothing.
        job["graph"] = self._shown_graph
        views = {
            "diagnosis": self._diagnosis(look.job, look.checkpoints),
            "checkpoints": look.checkpoints,
            "checkpointing": _policy_view(self._coordination.policy),
            "point": point_of(look.job, now),
        }
        return {"job": job} | {name: view.model_dump(mode="json", exclude_none=True) for name, view in views.items()}

    def last_checkpoint(self) -> LastCheckpointView | None:
        """Return the newest snapshot that this process has completed."""
        return _last_checkpoint(self._coordination.status())

    def job(self) -> JobView:
        """Return the current state of the job."""
        return self.report()

    def report(self, include: Collection[JobPart] = (), triggers: Collection[TriggerId] = ()) -> JobReport:
        """Return the current state of the job, the requested parts, and the state of requests."""
        runner = self._runner
        now = runner.job.clock()
        epoch, status = runner.epoch, self._coordination.status(triggers)
        views = {each: self.requests.view(each, status.requests.get(each)) for each in triggers}
        outcomes = {each: view for each, view in views.items() if view is not None}
        restored = epoch.restored if epoch else None
        chains, channels = self._chain_views(epoch, now)
        seen = {uid: meter.figures for uid, meter in self._meters.items()}
        into_sinks = [seen[chain.uid] for chain in runner.job.plan.chains if chain.sinks]
        return JobReport(
            state=status.lifecycle.state,
            state_since=status.lifecycle.since,
            name=runner.job.name,
            namespace=runner.job.namespace,
            graph=self._graph if epoch is None else _with_partitions(self._graph, epoch.partitions),
            attempt=runner.attempt,
            epoch=status.epoch,
            restarts=status.lifecycle.restarts,
            starts=status.starts,
            start_time=runner.started,
            uptime=now - runner.started,
            location=runner.location,
            records_in=sum(figures.from_sources for figures in seen.values()),
            records_out=total(figures.records_out for figures in into_sinks),
            records_in_per_second=sum(figures.from_sources_rate for figures in seen.values()),
            records_out_per_second=sum(figures.out_rate for figures in into_sinks),
            chains=chains,
            channels=channels,
            sinks=tuple(self._sink_views()),
            executors=self._executors(),
            memory=self._memory.view,
            tables=self._table_views(epoch),
            lookups=_lookup_views(epoch),
            last_checkpoint=_last_checkpoint(status),
            restored_from=RestoredFromView(
                id=restored.manifest.id,
                kind=SnapshotKind(restored.manifest.kind),
                path=restored.uri,
                completed=restored.manifest.completed,
            )
            if restored
            else None,
            rewriting=_rewriting(epoch),
            migrating=_migrating(epoch),
            replaying=_replaying(epoch),
            spark_page=self._has_spark_page,
            failure=status.failure,
            waiting=self.gate.waiting,
            checkpoints=status.checkpoints if "checkpoints" in include else None,
            checkpointing=_policy_view(status.policy) if "checkpointing" in include else None,
            triggers=outcomes if triggers else None,
        )

    def _chain_views(
        self, epoch: EpochView | None, now: float
    ) -> tuple[tuple[ChainView, ...], tuple[ChannelView, ...]]:
        emission = epoch.emission if epoch else None
        if epoch is None or emission is None:
            return (), ()
        job = self._runner.job
        seen = {uid: meter.figures for uid, meter in self._meters.items()}
        finished = {uid for uid in seen if _has_finished(epoch, uid)}
        backlogs = {
            (channel.source, channel.target): emission.backlog(channel.source, channel.target)
            for channel in job.plan.channels
        }
        chains = tuple(
            chain_view(
                plan,
                seen[plan.uid],
                batch=emission.last_emitted(plan.uid),
                finished=plan.uid in finished,
                ended={uid for uid in finished if not backlogs.get((uid, plan.uid), _NOTHING).records},
                now_ms=round(now * 1000),
                report_failures=job.offset_reports.failures,
                graph=self._graph,
                has_readers=bool(job.plan.readers(plan.uid)),
                written={sink.uid: job.sink_meters.of(sink.uid).figures.staged_rows for sink in plan.sinks},
            )
            for plan in job.plan.chains
        )
        channels = tuple(
            channel_view(
                channel,
                backlogs[channel.source, channel.target],
                job.loaded.spec.channels,
                writer=seen[channel.source],
                reader=seen[channel.target],
            )
            for channel in job.plan.channels
        )
        return chains, channels

    def _sink_views(self) -> list[SinkView]:
        options = {sink["uid"]: sink.get("options", {}) for sink in self._graph["sinks"]}
        job = self._runner.job
        return [
            sink_view(sink, options[sink.uid], job.sink_meters.of(sink.uid).figures, lossy=sink.input in self._lossy)
            for sink in job.loaded.spec.sinks
        ]

    def _table_views(self, epoch: EpochView | None) -> tuple[TableView, ...]:
        if epoch is None or epoch.tables is None:
            return ()
        figures = epoch.tables.figures()
        tables = self._runner.job.loaded.spec.tables
        return tuple(table_view(each, figures[each.name]) for each in tables if each.name in figures)

    def checkpoints(self) -> CheckpointsView:
        """Return counts, summary, the latest of each kind, and the history."""
        return self._coordination.status().checkpoints

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointDetail | None:
        """Return one checkpoint with its tasks, or None if it is not in the history."""
        return self._coordination.checkpoint(checkpoint)

    def trigger_checkpoint(self, trigger_id: TriggerId) -> None:
        """Request a checkpoint."""
        self.requests.note(trigger_id, "checkpoint")
        event = m.TriggerRequested(now=self._runner.job.clock(), trigger_id=trigger_id, kind=SnapshotKind.CHECKPOINT)
        self._take(trigger_id, lambda: self._coordination.post(event), "takes no checkpoints")
        self._note_request(trigger_id, "a checkpoint was requested")

    def trigger_savepoint(self, location: str | None, trigger_id: TriggerId) -> None:
        """Request a savepoint. Raises StateConflict, InvalidChange."""
        place = _savepoint_location(location)
        self.requests.note(trigger_id, "savepoint")
        now = self._runner.job.clock()
        event = m.TriggerRequested(now=now, trigger_id=trigger_id, kind=SnapshotKind.SAVEPOINT, location=place)
        self._take(trigger_id, lambda: self._coordination.post(event), "takes no savepoints")
        self._note_request(trigger_id, "a savepoint was requested")

    def stop(self, trigger_id: TriggerId, *, savepoint: bool, location: str | None, drain: bool) -> None:
        """Request a stop with a last checkpoint or savepoint. Raises StateConflict, InvalidChange."""
        if location is not None and not savepoint:
            raise InvalidChange("location", "requires savepoint: true", "add savepoint: true")
        place = _savepoint_location(location)
        self.requests.note(trigger_id, "stop")
        event = m.StopRequested(
            now=self._runner.job.clock(), trigger_id=trigger_id, savepoint=savepoint, location=place, drain=drain
        )
        if must_succeed(event):
            refusal = "takes no savepoints" if savepoint else "cannot be drained"
            self._take(trigger_id, lambda: self._coordination.stop(event), refusal)
        else:
            state = self._coordination.lifecycle.state
            if state.terminal:
                self.requests.forget(trigger_id)
                raise StateConflict(f"The job is {state} already")
            self._coordination.stop(event)
        how = " with a savepoint" if savepoint else ""
        self._note_request(trigger_id, f"a {'drain' if drain else 'stop'}{how} was requested")

    def _note_request(self, trigger_id: TriggerId, sentence: str) -> None:
        self.events.add(self._runner.job.clock(), "request", sentence, details={"trigger": trigger_id})

    def _take(self, trigger_id: TriggerId, post: Callable[[], bool], refusal: str) -> None:
        state = self._coordination.lifecycle.state
        if state not in _TAKES_CHECKPOINTS or not post():
            self.requests.forget(trigger_id)
            raise StateConflict(f"A job that is {state} {refusal}", "ask again when it is RUNNING")

    def patch_checkpointing(self, changes: CheckpointingChanges) -> CheckpointingView:
        """Change the given fields; return the resulting policy."""
        # Applied by a copy of the policy, since null in a job file means the default. The changes have the same valid
        # ranges.
        policy = self._coordination.policy.model_copy(update=changes.changed())
        self._coordination.change_policy(policy)
        written = changes.model_dump(mode="json", exclude_unset=True)
        what = ", ".join(f"{name} {'off' if value is None else value}" for name, value in written.items())
        self.events.add(self._runner.job.clock(), "request", f"checkpointing was changed: {what}")
        return _policy_view(policy)

    def _note_profile(self, sentence: str, profile: TriggerId) -> None:
        self.events.add(self._runner.job.clock(), "request", sentence, details={"profile": profile})

    def trigger(self, trigger_id: TriggerId) -> TriggerView | None:
        """Return the state of a request, or None if the id is unknown."""
        return self.requests.view(trigger_id, self._coordination.request(trigger_id))

    def healthy(self) -> tuple[bool, str]:
        """Return whether the process works."""
        state = self._coordination.lifecycle.state
        return (False, f"the job is {state}") if state in (JobState.FAILED, JobState.SUPERSEDED) else (True, "")

    def ready(self) -> tuple[bool, str]:
        """Return whether the job processes records, or its epoch is ending in order."""
        return readiness(self._coordination.lifecycle)


def readiness(job: Lifecycle) -> tuple[bool, str]:
    """Return whether a job is ready, and the reason if not. A requested stop or a planned restart fails no probe."""
    ready = job.state in _TAKES_CHECKPOINTS | _ENDS_IN_ORDER or job.planned
    return (True, "") if ready else (False, f"the job is {job.state}")


def _lookup_views(epoch: EpochView | None) -> tuple[LookupView, ...]:
    if epoch is None or epoch.tables is None:
        return ()
    lookups = [each for chain in epoch.chains.values() for each in chain.dataflow.lookups.items()]
    return tuple(lookup_view(uid, lookup.table, lookup.figures()) for uid, lookup in lookups)


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(each) for name, each in value.items() if each is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


def _policy_view(policy: CheckpointingPolicy) -> CheckpointingView:
    return CheckpointingView.model_validate(policy.model_dump(include=set(CheckpointingView.model_fields)))


def _savepoint_location(location: str | None) -> str | None:
    """Return the savepoint location as a URI. Callers do not know this process's directory, so it must be absolute."""
    if location is None:
        return None
    if "://" not in location and not location.startswith(("/", "file:")):
        raise InvalidChange("location", f"{location!r} is relative", "send file:///path or s3://bucket/prefix")
    try:
        return open_location(location).uri
    except InvalidInput as error:
        raise InvalidChange("location", error.what, error.fix) from error


def _rewriting(epoch: EpochView | None) -> RewritingView | None:
    rewriting = None if epoch is None else epoch.rewriting
    return None if rewriting is None else RewritingView(partitions=rewriting[0], max_parallelism=rewriting[1])


def _migrating(epoch: EpochView | None) -> MigratingView | None:
    migrating = None if epoch is None else epoch.migrating
    if migrating is None:
        return None
    each, step = migrating
    done, partitions = tasks_of(each.spark)
    return MigratingView(operators=each.operators, step=step.value, done=done, partitions=partitions)


def _replaying(epoch: EpochView | None) -> ReplayingView | None:
    under_way = [each.replaying for each in epoch.chains.values() if each.replaying] if epoch is not None else []
    if not under_way:
        return None
    return ReplayingView(done=sum(done for done, _ in under_way), batches=sum(batches for _, batches in under_way))


def _with_partitions(graph: dict[str, Any], partitions: int | None) -> dict[str, Any]:
    """Return the graph with the number of state partitions in force: without one in the file, the snapshot's."""
    return graph if partitions is None else graph | {"maxParallelism": partitions}


def _has_finished(epoch: EpochView, uid: ChainUid) -> bool:
    chain = epoch.chains.get(uid)
    if chain is not None:
        return chain.ended
    return epoch.restored is not None and epoch.restored.finished(uid)


def _last_checkpoint(status: JobStatus) -> LastCheckpointView | None:
    last = status.last
    if last is None:
        return None
    # Nothing starts after the final record. While that is being written, the last completed checkpoint has not changed.
    is_final = status.finished and not status.checkpoints.counts.in_progress
    kind = SnapshotKind.FINAL if is_final else SnapshotKind.CHECKPOINT
    return last_checkpoint_view(last, SnapshotKind.SAVEPOINT if last.is_savepoint else kind)
