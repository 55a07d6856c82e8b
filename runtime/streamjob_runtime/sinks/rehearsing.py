"""An interface of sinks that load what their first batch and commit need, without a claim and without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from streamjob.sink import Previews, Sink, SinkContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@runtime_checkable
class Rehearses(Protocol):
    """An optional interface of sinks for a process that prepares the start of a job that another process still runs."""

    def rehearse(self, context: SinkContext, rows: DataFrame) -> None:
        """Do what `open`, `stage` and `commit` do, as far as it claims, fences and writes nothing.

        Args:
            context: of a sink that is not open; its staging is not that of the job.
            rows: a batch without rows.

        Raises:
            StreamJobError: the target refuses something.
        """
        ...


def rehearse_sink(sink: Sink, context: SinkContext, rows: DataFrame) -> None:
    """Rehearse a sink; one that cannot at least checks its target, for which it loads its client.

    Args:
        sink: the sink, not open.
        context: its context; its staging is not that of the job.
        rows: a batch without rows.

    Raises:
        StreamJobError: the target refuses something.
    """
    if isinstance(sink, Rehearses):
        sink.rehearse(context, rows)
    elif isinstance(sink, Previews):
        sink.preview(context, rows.schema)
