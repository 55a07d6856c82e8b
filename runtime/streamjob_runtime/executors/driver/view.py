"""Builds the control API's view of executors from figures; a pure function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from streamjob.client.models import ExecutorsView, ExecutorView
from streamjob.protocol.placement import Counts
from streamjob_runtime.executors.driver.fleet import Executor, Fleet
from streamjob_runtime.executors.driver.loads import Load


def executors_view(
    fleet: Fleet, counts: Mapping[str, Counts], sizes: Mapping[str, int], load_of: Callable[[str], Load]
) -> ExecutorsView:
    """Return the view of a job's executors.

    Args:
        counts: open partitions and stores, by executor.
        sizes: bytes of state in the last checkpoint, by executor.
        load_of: returns the work of an executor.
    """
    views = tuple(
        _view(each, counts.get(each.id, Counts()), sizes.get(each.id, 0), load_of(each.id)) for each in fleet.live()
    )
    return ExecutorsView(
        wanted=fleet.wanted,
        lost=fleet.lost(),
        skew=skew([each.state_stores for each in views]),
        row_skew=skew([each.state_rows or 0 for each in views]),
        byte_skew=skew([each.state_bytes for each in views]),
        record_skew=skew([each.records_in_per_second for each in views]),
        work_skew=skew([each.busy for each in views]),
        executors=views,
    )


def skew(figures: Collection[float]) -> float | None:
    """Return the ratio of the largest figure to the mean of all; None if all are 0, or there is none."""
    total = sum(figures)
    return max(figures) * len(figures) / total if total else None


def _view(executor: Executor, counts: Counts, size: int, load: Load) -> ExecutorView:
    return ExecutorView(
        id=executor.id,
        name=executor.name,
        host=executor.host,
        cores=executor.cores,
        state_partitions=counts.partitions,
        state_stores=counts.stores,
        # By default RocksDB does not count its rows, and Spark reports 0.
        state_rows=load.totals.rows or None,
        state_bytes=size,
        tasks=load.totals.tasks,
        records_in=load.totals.records,
        records_in_per_second=load.records_per_second,
        bytes_in=load.totals.size,
        busy=min(1.0, load.working / executor.cores),
    )
