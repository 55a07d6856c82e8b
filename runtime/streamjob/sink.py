"""What a sink is: it stages a batch, and publishes or discards what was staged.

The two-phase commit of Flink's Sink V2 (FLIP-143, FLIP-191) for micro-batches. A batch is staged where no reader sees
it; what describes it, the committable, goes into the next checkpoint's manifest. Once the job's log names that
checkpoint, the committables are published, exactly once whoever does it: `commit` is called at least once for each
completed checkpoint, again after every crash in between, and by the next owner of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import JsonValue

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A staged object: its name, which may be part of a committable, and the epoch that staged it."""

    name: str
    epoch: Epoch


class Staging(Protocol):
    """Objects of one sink beside its job's snapshots, for sinks whose system has no place for rows that wait.

    What lies there outlives the process and its machine, and goes when the job's snapshots are deleted. Nobody but the
    sink deletes single objects: what `commit` has published, and in `abort` what lower epochs have left. Methods may be
    called from any thread, and raise a `StoreError` if the store fails.
    """

    @property
    def scratch(self) -> Path:
        """A local directory of this sink and epoch, which exists; it is gone with the process."""
        ...

    def put(self, content: bytes | Path) -> str:
        """Stage bytes, or the content of a file, in this epoch; return the name, which no other object ever has."""
        ...

    def fetch(self, name: str, target: Path) -> bool:
        """Write an object's content to a file; return whether there is such an object."""
        ...

    def list(self) -> Iterator[StagedObject]:
        """Yield what the sink has staged, in all epochs."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; one that does not exist is deleted already."""
        ...


class NoStaging(StreamJobError):
    """The sink stages beside the snapshots of its job, and runs without any."""

    def __init__(self) -> None:
        super().__init__("the sink was opened without a place to stage at", "give its SinkContext a staging")


class StagedRowsGone(StreamJobError):
    """Rows of a completed checkpoint are neither published nor where they were staged, or are damaged."""


class _Nowhere:
    """The staging of a sink that has none."""

    @property
    def scratch(self) -> Path:
        raise NoStaging

    def put(self, content: bytes | Path) -> str:
        raise NoStaging

    def fetch(self, name: str, target: Path) -> bool:
        raise NoStaging

    def list(self) -> Iterator[StagedObject]:
        raise NoStaging

    def delete(self, names: Iterable[str]) -> None:
        raise NoStaging


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Where a sink lives: the job and namespace, the sink's uid, its options, the epoch that runs it.

    `staging` is a place beside the job's snapshots, for sinks that have none of their own.
    """

    job: str
    namespace: str
    uid: OperatorUid
    epoch: Epoch
    options: Mapping[str, str]
    staging: Staging = field(default_factory=_Nowhere, repr=False)


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged batch: its committable (None if there is nothing to publish) and the rows written, where known."""

    committable: JsonValue
    rows: int | None = None


@runtime_checkable
class Sink(Protocol):
    """An exactly-once sink. Any exception restarts the job.

    `stage` and `commit` run beside each other on two threads; a batch that takes long must not hold up publication.
    Otherwise one method is called at a time.
    """

    def open(self, context: SinkContext) -> None:
        """Prepare to stage and publish in this epoch; check that the place can be used. Called before all else."""
        ...

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Write a batch where no reader sees it, in exactly one Spark action, and describe it.

        The same batch may be staged again in another epoch: names must not clash between epochs.
        """
        ...

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Publish what the checkpoint covers. Idempotent; what a consumer has removed since is not made again.

        Raises:
            StagedRowsGone: rows are neither published nor staged.
        """
        ...

    def abort(self) -> None:
        """Discard what earlier epochs staged and nobody will publish; never what this or a later epoch has staged.

        Called once after a restore, after the last completed checkpoint was committed.
        """
        ...

    def close(self) -> None:
        """Release what `open` took."""
        ...


@runtime_checkable
class Previews(Protocol):
    """A sink that can tell beforehand whether it could be opened, for `streamjob check`; optional."""

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Raise what `open` and `check_schema` would raise, and change nothing: another process may use the place.

        Called on a sink that is not opened; `schema` is None where Spark was not asked, and Spark may not run then.
        """
        ...


@runtime_checkable
class ChecksSchema(Protocol):
    """A sink that can tell from the columns alone whether it can take the rows; optional."""

    def check_schema(self, schema: StructType) -> None:
        """Raise a `StreamJobError` if such rows cannot be written. Called behind `open`, before all batches."""
        ...
