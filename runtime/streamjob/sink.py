"""The interface of sinks: a sink stages batches, and commits or discards them later.

This is the two-phase commit of Flink's Sink V2 (FLIP-143, FLIP-191) for micro-batches. A batch is staged where no
reader sees it. The description of the staged rows, the committable, is stored in the next checkpoint's manifest. Once
the job's log names that checkpoint, the committables are committed. `commit` is called at least once for each completed
checkpoint: again after every crash in between, and again by the next owner of the log. The result is exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import JsonValue

from streamjob.errors import CannotRestore, StreamJobError
from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.journal import JournalRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A staged object: its name, which may be part of a committable, and the epoch that staged it."""

    name: str
    epoch: Epoch


class Puts(Protocol):
    """Stages objects of a sink."""

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file, in the epoch; return a name that no other object ever has."""
        ...


class TaskStaging(Puts, Protocol):
    """A sink's objects for Spark's tasks, on any machine. It can be pickled, and contains no credentials."""

    def get(self, name: str) -> bytes:
        """Return the content of an object, of any epoch.

        Raises:
            StagedRowsGone: there is no such object, or its content has changed since it was staged.
        """
        ...


class Staging(Protocol):
    """One sink's objects in the store of the job's snapshots, for sinks whose target has no place for staged rows.

    They outlive the process and its machine, and are deleted with the job's snapshots. Single objects are deleted by
    the sink only: those that `commit` has committed, and in `abort` those of lower epochs. Methods may be called from
    any thread, and raise a `StoreError` if the store fails.
    """

    @property
    def scratch(self) -> Path:
        """A local directory of this sink and epoch. It exists, and disappears with the process."""
        ...

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file, in this epoch; return a name that no other object ever has."""
        ...

    def in_tasks(self) -> TaskStaging:
        """Return what stages objects from tasks; they find the credentials for the store in their environment."""
        ...

    def fetch(self, name: str, target: Path) -> bool:
        """Write an object's content to a file; return False if there is no such object.

        Raises:
            StagedRowsGone: the content has changed since it was staged.
        """
        ...

    def list(self) -> Iterator[StagedObject]:
        """Yield the objects that the sink has staged, in all epochs."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""
        ...


class NoStaging(StreamJobError):
    """The sink stages in the store of its job's snapshots, but runs without one."""

    def __init__(self) -> None:
        super().__init__("the sink was opened without a place to stage at", "give its SinkContext a staging")


class StagedRowsGone(CannotRestore):
    """Rows of a completed checkpoint are neither committed nor staged, or they are damaged."""


class _Nowhere:
    """The staging of a sink that runs without a store."""

    @property
    def scratch(self) -> Path:
        raise NoStaging

    def put(self, content: bytes | Path) -> str:
        raise NoStaging

    def in_tasks(self) -> TaskStaging:
        raise NoStaging

    def fetch(self, name: str, target: Path) -> bool:
        raise NoStaging

    def list(self) -> Iterator[StagedObject]:
        raise NoStaging

    def delete(self, names: Iterable[str]) -> None:
        raise NoStaging


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Everything that a sink is opened with: job, namespace, the sink's uid and options, and the epoch.

    `staging` keeps objects in the store of the job's snapshots, for sinks without a staging place of their own.
    """

    job: str
    namespace: str
    uid: OperatorUid
    epoch: Epoch
    options: Mapping[str, str]
    staging: Staging = field(default_factory=_Nowhere, repr=False)


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged batch: its committable (None if there is nothing to commit) and the number of rows, if known.

    `published` means that readers see the rows now, before the commit.
    """

    committable: JsonValue
    rows: int | None = None
    published: bool = False


@runtime_checkable
class Sink(Protocol):
    """An exactly-once sink. Any exception restarts the job.

    `stage` and `commit` run at the same time, on two threads: a long batch must not delay commit. All other calls
    come one at a time.
    """

    def open(self, context: SinkContext) -> None:
        """Prepare to stage and commit in this epoch, and check that the target can be used. Called first."""
        ...

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write a batch where no reader sees it, in exactly one Spark action, and describe it.

        The same batch may be staged again in another epoch: names must not clash between epochs.
        """
        ...

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Commit the checkpoint's rows. Idempotent, even if a consumer has removed committed rows since.

        Raises:
            StagedRowsGone: rows are neither committed nor staged.
        """
        ...

    def abort(self) -> None:
        """Discard rows that lower epochs staged and never committed. Leave those of this and higher epochs alone.

        Called once after a restore, when the last completed checkpoint has been committed.
        """
        ...

    def close(self) -> None:
        """Release the resources of `open`."""
        ...


@runtime_checkable
class Previews(Protocol):
    """An optional interface: the sink tests without side effects whether it could be opened.

    `streamjob check` asks it, and a process that prepares the start of a job that another process still runs.
    """

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Raise the errors of `open` and `check_schema`, but change nothing: another process may use the target.

        Called on a sink that is not open. `schema` is None if Spark was not asked for it; Spark must not be used here.
        """
        ...


@runtime_checkable
class CommitsTogether(Protocol):
    """An optional interface: sinks of a job commit a checkpoint in one transaction of their target."""

    @property
    def transaction(self) -> Hashable:
        """The target; sinks of one class with the same target commit together."""
        ...

    def commit_together(self, checkpoint: CheckpointId, output: Sequence[tuple[Any, Sequence[JsonValue]]]) -> None:
        """Commit the checkpoint's rows of some sinks, all or none; otherwise as `commit`.

        Args:
            output: this sink and others with its target, each with its committables, in the order of the job file.
        """
        ...


NO_TARGET = ""
"""Stands for the id of what a sink writes to, before it is made."""


@runtime_checkable
class KnowsTarget(Protocol):
    """An optional interface: what the sink writes to has an id, which another thing with the same name has not.

    Each start compares it with that of the snapshot: a table that was made again lacks the rows of earlier checkpoints.
    """

    def target_id(self) -> str | None:
        """Return the id; NO_TARGET if there is no such thing, and None if its id is not known. Called after `open`."""
        ...


@runtime_checkable
class KnowsPublished(Protocol):
    """An optional interface: the sink knows which checkpoint of its job it has published last.

    Each start compares this with the log, so that a log that was lost or restored from a backup is noticed.
    """

    def newest_published(self) -> CheckpointId | None:
        """Return the checkpoint that was committed last, in any epoch and from any log of the job; None if not known.

        Called after `open`, before the first commit; by `streamjob check` after `preview` alone, if the sink has it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """The number of rows of a batch, and the sum of their hashes modulo 2^64."""

    rows: int
    hash: int


@runtime_checkable
class PublishesBatches(Protocol):
    """An optional interface: the sink can publish each batch at once, for `publish: batch`.

    The rows and a record of the batch become visible in one transaction of the target. When a checkpoint covers
    batches, `commit` gets `published_marker` for each, and forgets their records.
    """

    def take_journal(self) -> None:
        """Let no other process publish for the sink from here on; called after `open`.

        Called again if another instance may have taken it since. If another process has, later calls fail.
        """
        ...

    def journal(self) -> Sequence[JournalRecord]:
        """Return the records that are not forgotten; called when the journal is taken, and nothing published yet.

        Raises:
            UnreadableRecord: a record is damaged, or of an unknown form.
        """
        ...

    def journal_id(self) -> str | None:
        """Return the id of what keeps the records; None if there is nothing yet. Called after `open`."""
        ...

    def drop_journal(self) -> int:
        """Delete all records, whatever they say; return their number. Called instead of `journal`."""
        ...

    def measure(self, batch: DataFrame) -> Measured:
        """Compute a batch, in exactly one Spark action, and publish nothing."""
        ...

    def publish(
        self, batch: DataFrame, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        """Compute a batch, in exactly one Spark action, and publish its rows and its record; return the record.

        Args:
            batch: the rows; without any, nothing is published, and None is returned.
            record: makes the record, right before the transaction; blocks until that may begin.
            always: whether to publish a record without rows, too.
        """
        ...


@runtime_checkable
class Rescues(Protocol):
    """An optional interface: rows that the target refuses at `commit` can be written to a file instead."""

    def rescue(self, checkpoint: CheckpointId, committables: Sequence[JsonValue], target: Path) -> int:
        """Write the rows that `commit` would publish to a file, as JSON lines; return their number.

        Called after `open`. The rows stay staged.

        Raises:
            StagedRowsGone: rows are neither committed nor staged.
        """
        ...


@runtime_checkable
class Verifies(Protocol):
    """An optional interface: the sink finds damage to what it keeps where it writes, without side effects.

    `streamjob snapshots verify` and `streamjob check` ask it.
    """

    def verify(
        self, context: SinkContext, checkpoint: CheckpointId, committables: Sequence[JsonValue]
    ) -> Iterator[StreamJobError]:
        """Yield an error for each problem: of its records, and of the rows that `commit` would publish now.

        Called on a sink that is not open. Another process may commit the same checkpoint at the same time.
        """
        ...


@runtime_checkable
class ChecksSchema(Protocol):
    """An optional interface: the sink checks from the columns alone whether it can write the rows."""

    def check_schema(self, schema: StructType) -> None:
        """Raise a `StreamJobError` if such rows cannot be written. Called after `open`, before the first batch."""
        ...
