"""The JSON models of the control API, shared by the server and its clients.

JSON names are camelCase; the statistics of checkpoints keep Flink's REST names. Unless a name has a unit, times are in
seconds since 1970, durations in seconds and sizes in bytes. Clients ignore unknown fields; the server refuses them in
requests.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, field_validator, model_serializer
from pydantic.alias_generators import to_camel

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.client.chain_models import (
    BatchTimesView,
    ChainView,
    ChannelView,
    InputView,
    OperatorView,
    PartitionView,
    View,
)
from streamjob.client.executor_models import ExecutorsView, ExecutorView
from streamjob.client.profile_models import MOST_SECONDS
from streamjob.figures import Detail, Figure, Unit
from streamjob.ids import ChainUid, CheckpointId, Epoch, OperatorUid, TriggerId
from streamjob.protocol.coordination.statistics import CheckpointingStatistics as CheckpointsView
from streamjob.protocol.coordination.statistics import CheckpointStatistics as CheckpointDetail
from streamjob.protocol.coordination.statistics import TaskStatistics
from streamjob.protocol.coordination.triggers import SnapshotKind, TriggerState
from streamjob.protocol.lifecycle import JobState

__all__ = [
    "Accepted",
    "BatchTimesView",
    "ChainView",
    "ChannelView",
    "CheckpointDetail",
    "CheckpointRequest",
    "CheckpointingChanges",
    "CheckpointingView",
    "CheckpointsView",
    "CodeRequest",
    "ControlFile",
    "ExecutorView",
    "ExecutorsView",
    "FieldProblem",
    "HealthView",
    "InputView",
    "JobPart",
    "JobReport",
    "JobState",
    "JobView",
    "LastCheckpointView",
    "LastPublishedView",
    "MigratingView",
    "NewSession",
    "OperatorView",
    "PartitionView",
    "Problem",
    "ProfileRequest",
    "RestoredFromView",
    "RewritingView",
    "SavepointRequest",
    "SessionCode",
    "SessionRequest",
    "SessionView",
    "SinkView",
    "SnapshotKind",
    "SparkPageRequest",
    "SparkPageView",
    "StopRequest",
    "TaskStatistics",
    "TriggerState",
    "TriggerView",
]


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class LastPublishedView(View):
    """The last checkpoint whose output a sink has published."""

    id: Annotated[CheckpointId, Figure("sink_last_published_checkpoint_id")] = Field(
        description="Id of the last checkpoint that the sink has published."
    )
    time: Annotated[float, Figure("sink_last_published_timestamp_seconds", Unit.TIME)] = Field(
        description="When the sink has published its last checkpoint, since 1970."
    )
    duration_ms: int = Field(description="Duration of the publication, in ms.")


class SinkView(View):
    """A sink: its target (a path, URI, table or topic, without secrets) and its progress in this process."""

    uid: OperatorUid
    name: str = ""
    format: Annotated[str, Figure(unit=Unit.TEXT, heading="format", detail=Detail.NARROW)]
    target: Annotated[str | None, Figure(unit=Unit.TEXT, heading="target", detail=Detail.NARROW)] = None
    delivery: Literal["exactly-once", "at-least-once"]
    lossy: bool = Field(
        default=False, description="Whether rows may be missing after a restart: a source behind it cannot be replayed."
    )
    records: Annotated[int | None, Figure("sink_records_total", heading="written")] = Field(
        default=0, description="Records that the sink has written; null if it does not report them."
    )
    records_published: Annotated[int | None, Figure("sink_records_published_total", heading="published")] = Field(
        default=0, description="Records of the sink that readers can see; null if it does not report them."
    )
    batches_published: Annotated[int, Figure("sink_batches_published_total")] = Field(
        default=0, description="Batches that the sink has published with a checkpoint; 0 with at-least-once delivery."
    )
    batches_waiting: Annotated[int, Figure("sink_waiting_batches", heading="batches waiting")] = Field(
        default=0, description="Staged batches of the sink that wait for a checkpoint."
    )
    last_published: LastPublishedView | None = Field(
        default=None, description="Null before the first publication, and with at-least-once delivery."
    )
    failures: Annotated[int, Figure("sink_failures_total", heading="errors", rare=True)] = Field(
        default=0, description="Calls of the sink that raised an error, including those interrupted by a stop."
    )

    @property
    def promise(self) -> Annotated[str, Figure(unit=Unit.TEXT, heading="delivery", detail=Detail.PANEL)]:
        """What becomes of a row that a source has given once."""
        return "lossy" if self.lossy else self.delivery


class TableView(View):
    """A table that the job's operators join with their inputs, as it is in this process."""

    name: str
    format: str
    rows: Annotated[int, Figure("table_rows", heading="rows")] = Field(
        default=0, description="Rows of the table that batches see now."
    )
    size: Annotated[int, Figure("table_bytes", Unit.BYTES, heading="size")] = Field(
        default=0, description="Bytes of the table's rows in memory."
    )
    loaded: Annotated[
        float, Figure("table_age_seconds", Unit.AGE, "Time since the rows of the table were read.", heading="read")
    ] = Field(description="When these rows were read.")
    reloads: Annotated[int, Figure("table_reloads_total", heading="reloads")] = Field(
        default=0, description="How often the table was read again since the last restart."
    )
    failures: Annotated[int, Figure("table_reload_failures_total")] = Field(
        default=0, description="How often the table could not be read again since the last restart."
    )
    problem: Annotated[str | None, Figure(unit=Unit.TEXT, heading="problem")] = Field(
        default=None, description="Why it could not be read again the last time; null if it could."
    )


class LookupView(View):
    """An operator that asks a table for the keys of its rows, since the last restart."""

    uid: OperatorUid
    table: Annotated[str, Figure(unit=Unit.TEXT, heading="table")]
    hits: Annotated[int, Figure("lookup_hits_total")] = Field(
        default=0, description="Rows whose key was cached, since the last restart."
    )
    misses: Annotated[int, Figure("lookup_misses_total")] = Field(
        default=0, description="Rows whose key was not cached, since the last restart."
    )
    queries: Annotated[int, Figure("lookup_queries_total", heading="queries")] = Field(
        default=0, description="Queries of the database, since the last restart."
    )
    retries: Annotated[int, Figure("lookup_retries_total", heading="retries")] = Field(
        default=0, description="Failed queries that were tried again, since the last restart."
    )
    query_seconds: Annotated[float, Figure("lookup_query_seconds_total", Unit.SECONDS)] = Field(
        default=0.0, description="Time of all queries, in all tasks, since the last restart."
    )

    @property
    def hit_rate(self) -> Annotated[float | None, Figure(unit=Unit.SHARE, heading="hit rate")]:
        """The share of rows whose key was cached; None before the first row."""
        rows = self.hits + self.misses
        return self.hits / rows if rows else None

    @property
    def mean_query_seconds(self) -> Annotated[float | None, Figure(unit=Unit.SECONDS, heading="took")]:
        """The mean time of a query; None before the first."""
        return self.query_seconds / self.queries if self.queries else None


class LastCheckpointView(View):
    """The last completed checkpoint or savepoint."""

    id: Annotated[CheckpointId, Figure("last_checkpoint_id")] = Field(
        description="Id of the last completed checkpoint."
    )
    kind: SnapshotKind
    triggered: float
    completed: Annotated[
        float,
        Figure("last_checkpoint_timestamp_seconds", Unit.TIME),
        Figure("last_checkpoint_age_seconds", Unit.AGE, "Time since the last completed checkpoint."),
    ] = Field(description="Completion of the last completed checkpoint, since 1970.")
    duration_ms: Annotated[int, Figure("last_checkpoint_duration_seconds", Unit.MS)] = Field(
        description="Time from the trigger of the last completed checkpoint to its completion."
    )
    checkpointed_size: Annotated[int, Figure("last_checkpoint_size_bytes", Unit.BYTES)] = Field(
        description="Bytes that the last completed checkpoint wrote."
    )
    state_size: Annotated[int, Figure("last_checkpoint_state_size_bytes", Unit.BYTES)] = Field(
        description="Bytes of all files that the last completed checkpoint refers to."
    )
    path: str = Field(description="URI of its manifest.")
    unaligned: Annotated[bool, Figure("last_checkpoint_unaligned")] = Field(
        default=False, description="Whether a chain did not wait for all its barriers in the last completed checkpoint."
    )
    alignment_ms: int = Field(default=0, description="The longest alignment of a chain, in ms.")
    persisted_data: int = Field(default=0, description="Bytes in flight that went into it.")
    tasks: dict[ChainUid, TaskStatistics] = Field(
        default_factory=dict, description="The part of each chain, under Flink's REST names."
    )


class RestoredFromView(View):
    """The snapshot that this epoch started from."""

    id: CheckpointId
    kind: SnapshotKind
    path: str = Field(description="URI of its manifest.")
    completed: float | None = Field(default=None, description="When it was completed; null if not known.")


class MemoryView(View):
    """The memory of the driver: of Java's heap, and outside of it, such as RocksDB's and that of Python's workers."""

    heap: int = Field(description="Most bytes of Java's heap.")
    heap_live: int = Field(description="Bytes of the heap that the last garbage collection has left.")
    outside_heap: int | None = Field(
        default=None,
        description="Bytes in use outside the heap, by all processes of the container; null outside of a container.",
    )
    container: int | None = Field(
        default=None, description="The memory limit of the container in bytes; null without one."
    )
    measured: float = Field(description="When this was measured.")


class RewritingView(View):
    """A rewrite of the job's state for another number of partitions, before the job runs."""

    partitions: int = Field(description="State partitions of the snapshot.")
    max_parallelism: int = Field(description="State partitions that the job is to have.")


class ReplayingView(View):
    """The batches that sinks have published behind the restored checkpoint, and that run again to be compared."""

    done: int = Field(description="Batches that have run again.")
    batches: int = Field(description="Batches that have to run again, of all chains.")


class MigratingView(View):
    """A change of the state of some operators to the form that their queries need, before the job runs."""

    operators: tuple[OperatorUid, ...] = Field(description="The operator that keeps the state; several if either may.")
    step: Literal["reading", "writing", "verifying"] = Field(
        description="Whether the former state is counted, the new one is written, or what was written is read back."
    )
    done: int = Field(description="Partitions that the step has done.")
    partitions: int = Field(description="Partitions that the step has to do; 0 until that is known.")

    @property
    def told(self) -> str:
        """The step and how far it is, in words."""
        return f"{self.step}, {self.done} of {self.partitions} partitions" if self.partitions else self.step


class JobView(View):
    """The current state of the job."""

    state: JobState
    state_since: float | None = Field(default=None, description="When it entered the state; null if not known.")
    name: str
    namespace: str
    graph: dict[str, Any] = Field(default_factory=dict, description="The graph of the running job, without secrets.")
    attempt: Annotated[int, Figure("attempt")] = Field(
        default=0, description="Number that the controller gave to this process."
    )
    epoch: Annotated[Epoch | None, Figure("epoch")] = Field(
        default=None, description="Epoch of the last claim of the job's log; null before it."
    )
    restarts: Annotated[int, Figure("restarts_total")] = Field(
        default=0, description="Restarts after failures in this process."
    )
    starts: int | None = Field(
        default=None,
        description="Starts in the last hour, in this process and others, as far as the log still knows them; null "
        "until the job's log is claimed.",
    )
    start_time: Annotated[float, Figure("start_time_seconds", Unit.TIME)] = Field(
        description="Start of this process, since 1970."
    )
    uptime: float = Field(description="Seconds since the start of this process.")
    location: str | None = Field(default=None, description="URI of the job's root in the store.")
    records_in: int = Field(default=0, description="Records read from sources in this process.")
    records_out: int | None = Field(
        default=0, description="Records written to sinks in this process; null if a sink does not report it."
    )
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    chains: tuple[ChainView, ...] = Field(default=(), description="All chains, each after those that it reads.")
    channels: tuple[ChannelView, ...] = ()
    sinks: tuple[SinkView, ...] = ()
    executors: ExecutorsView | None = Field(
        default=None, description="The executors in processes of their own; null if the job computes in this one."
    )
    memory: MemoryView | None = Field(
        default=None, description="The memory of the driver, measured every ten seconds; null before that."
    )
    tables: tuple[TableView, ...] = Field(default=(), description="The tables that operators join.")
    lookups: tuple[LookupView, ...] = Field(default=(), description="The operators that ask tables for keys.")
    last_checkpoint: LastCheckpointView | None = None
    restored_from: RestoredFromView | None = None
    rewriting: RewritingView | None = Field(
        default=None, description="The rewrite of the state in progress; null at all other times."
    )
    migrating: MigratingView | None = Field(
        default=None, description="The change of state to a new form in progress; null at all other times."
    )
    replaying: ReplayingView | None = Field(
        default=None, description="The published batches that run again after a failure; null at all other times."
    )
    spark_page: bool = Field(
        default=False, description="Whether Spark has its own page, which `POST /v1/spark-page` opens."
    )
    failure: str | None = Field(default=None, description="Why the job failed last, in one paragraph.")
    waiting: Literal["preparing", "prepared"] | None = Field(
        default=None,
        description="With `--wait-for-start`: whether the process is still preparing, or is prepared; null once it was "
        "told to start.",
    )

    def kind_of(self, entry: CheckpointDetail) -> SnapshotKind:
        """Return the kind of a snapshot in the job's log, as far as the views tell."""
        if entry.is_savepoint:
            return SnapshotKind.SAVEPOINT
        last = self.last_checkpoint
        # The statistics have Flink's kinds, which do not include the final record.
        is_last = last is not None and last.id == entry.id and entry.class_name == "completed"
        return last.kind if last is not None and is_last else SnapshotKind.CHECKPOINT


class StartView(View):
    """The process that was told to start."""

    attempt: int = Field(default=0, description="The controller's number of it.")


class TriggerView(View):
    """A request for a checkpoint, a savepoint or a stop, and its outcome."""

    trigger_id: TriggerId
    kind: Literal["checkpoint", "savepoint", "stop"]
    state: TriggerState
    checkpoint: CheckpointId | None = None
    result: str | None = Field(default=None, description="URI of the manifest, once completed with a snapshot.")
    failure: str | None = None


class CheckpointingView(LiveCheckpointingPolicy, View):
    """The checkpointing policy in force; durations are written like `10s`."""

    model_config = ConfigDict(json_schema_extra=_without_defaults, json_schema_serialization_defaults_required=True)


JobPart = Literal["checkpoints", "checkpointing"]
"""The parts that `GET /v1/job` can include on request."""


class JobReport(JobView):
    """The current state of the job, plus the requested parts, all of the same moment. Other parts are omitted."""

    checkpoints: CheckpointsView | None = Field(
        default=None, description="With `include=checkpoints`: the answer of `GET /v1/checkpoints`."
    )
    checkpointing: CheckpointingView | None = Field(
        default=None, description="With `include=checkpointing`: the checkpointing policy in force."
    )
    triggers: dict[TriggerId, TriggerView] | None = Field(
        default=None, description="With `trigger=ID`: the outcomes of these requests; unknown ones are omitted."
    )

    @model_serializer(mode="wrap")
    def _leave_out_what_was_not_asked_for(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if value is not None or name not in _ON_DEMAND}


_ON_DEMAND = JobReport.model_fields.keys() - JobView.model_fields.keys()


class HealthView(View):
    """Whether the process is healthy or ready, and if not, why."""

    ok: bool
    reason: str = ""


class Accepted(View):
    """The request was accepted. Query its outcome with this id."""

    trigger_id: TriggerId


_TriggerIdField = Annotated[
    TriggerId | None,
    Field(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Id of the request. A request with the same id is the same request.",
    ),
]
_Location = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=2048,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="URI of a directory for the savepoint.",
    ),
]
_MOST = 2**63 - 1
"""The largest number in a resource, so a running job takes over each policy that a StreamJob can have."""


class Request(BaseModel):
    """Base of request bodies: unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, extra="forbid"
    )


class CheckpointRequest(Request):
    """Body of `POST /v1/checkpoints`."""

    trigger_id: _TriggerIdField = None


class SavepointRequest(Request):
    """Body of `POST /v1/savepoints`."""

    location: _Location = None
    trigger_id: _TriggerIdField = None


class ProfileRequest(Request):
    """Body of `POST /v1/profiles`; a profile may take at most five minutes."""

    seconds: float = Field(default=30.0, ge=1.0, le=MOST_SECONDS, allow_inf_nan=False)
    trigger_id: _TriggerIdField = None


class StopRequest(Request):
    """Body of `POST /v1/stop`; `drain` drains the job first, as if all input had ended."""

    savepoint: bool = False
    location: _Location = None
    drain: bool = False
    trigger_id: _TriggerIdField = None


class CheckpointingChanges(LiveCheckpointingPolicy, Request):
    """Body of `PATCH /v1/checkpointing`: only the given fields change; durations are written like `10s`.

    With `interval: null` there are no periodic checkpoints; with `alignedCheckpointTimeout: null` an aligned checkpoint
    stays aligned.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults, strict=True)

    @field_validator("*")
    @classmethod
    def _fits_into_64_bits(cls, value: Any) -> Any:
        if isinstance(value, int) and value > _MOST:
            raise ValueError(f"it is more than {_MOST}")
        return value

    def changed(self) -> dict[str, Any]:
        """Return the given fields by their Python names; durations in seconds."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class SessionRequest(Request):
    """Body of `POST /v1/sessions`."""

    code: Annotated[str, Field(min_length=1, max_length=200, description="A code that was not used before.")]


class SparkPageRequest(Request):
    """Body of `POST /v1/spark-page`."""

    base: str = Field(
        default="",
        max_length=1000,
        description="The path that a proxy has before those of the driver, such as `/jobs/a`. Default: none.",
    )


class SparkPageView(View):
    """An address of Spark's own page."""

    path: str = Field(description="Its path, with the proxy's.")
    expires_at: float


class CodeRequest(Request):
    """Body of `POST /v1/sessions/codes`."""

    write: bool = Field(default=False, description="Whether the session may change the job.")


class SessionCode(View):
    """A code for one session of the job's page."""

    code: str
    expires_at: float = Field(description="When the code expires, a minute after it was issued.")


class NewSession(View):
    """A new session of the job's page."""

    token: str = Field(description="The session's bearer token.")
    expires_at: float = Field(description="When the session expires, eight hours after it began.")
    write: bool = Field(description="Whether the session may change the job.")


class SessionView(View):
    """The rights of the caller."""

    write: bool = Field(description="Whether the caller may change the job.")
    expires_at: float | None = Field(description="When the session expires; null for the job's own token.")


class FieldProblem(View):
    """A problem with one field of a request; `field` is its path in the body."""

    field: str
    message: str


class Problem(View):
    """An error answer, `application/problem+json` (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    fix: str = Field(default="", description="What the caller can do about it.")
    errors: tuple[FieldProblem, ...] = ()


class ControlFile(View):
    """`<workdir>/control.json`: the address of the job that runs there."""

    url: str
    pid: int
    token_file: str = Field(description="Absolute path of the file with the bearer token.")
