"""Does by hand what a job does with a sink: opens it for an epoch, writes batches to it and commits them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from streamjob.ids import BatchId, CheckpointId, Epoch, OperatorUid
from streamjob.sink import Sink, SinkContext, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_Sink = TypeVar("_Sink", bound=Sink)


class _ChecksColumns(Sink, Protocol):
    def check_schema(self, schema: StructType) -> None: ...


def opened(sink: _Sink, options: Mapping[str, str], epoch: int = 1, job: str = "job") -> _Sink:
    """Return a sink for the operator `report`, opened."""
    sink.open(SinkContext(job, "default", OperatorUid("report"), Epoch(epoch), options))
    return sink


def staged_in(sink: _ChecksColumns, rows: DataFrame, number: int = 0) -> Staged:
    """Stage a batch whose columns the sink takes."""
    sink.check_schema(rows.schema)
    return sink.stage(rows, BatchId(number))


def commit(sink: Sink, checkpoint: int, *staged: Staged) -> None:
    """Commit what was staged, after its way through a snapshot."""
    committables = [json.loads(json.dumps(each.committable)) for each in staged if each.committable is not None]
    sink.commit(CheckpointId(checkpoint), committables)
