"""An interface of sinks that load what their first batch and commit need, without a claim and without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from streamjob.sink import SinkContext

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
