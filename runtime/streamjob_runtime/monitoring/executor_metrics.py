"""The metrics of executors in processes of their own, in Prometheus' form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from streamjob.client.models import ExecutorsView, ExecutorView

_LABELS = ("executor",)


def executor_metrics(view: ExecutorsView | None) -> Iterator[Metric]:
    """Yield metrics from the view of executors, without samples if the job computes in its own process.

    Args:
        view: the executors; None if there are none.
    """
    wanted = GaugeMetricFamily("streamjob_executors_wanted", "Executors that the job asks for; absent without any.")
    there = GaugeMetricFamily("streamjob_executors", "Executors that are there; absent if the job asks for none.")
    lost = CounterMetricFamily("streamjob_executors_lost", "Executors that were lost; absent if the job asks for none.")
    skew = GaugeMetricFamily(
        "streamjob_executors_skew_ratio",
        "What the executor with the most has, by the mean of all: `stores`, `rows` and `bytes` of state, "
        "`records` and `work`; absent if none has any.",
        labels=["of"],
    )
    if view is not None:
        wanted.add_metric([], view.wanted)
        there.add_metric([], len(view.executors))
        lost.add_metric([], view.lost)
        skews = {
            "stores": view.skew,
            "rows": view.row_skew,
            "bytes": view.byte_skew,
            "records": view.record_skew,
            "work": view.work_skew,
        }
        for name, value in skews.items():
            if value is not None:
                skew.add_metric([name], value)
    yield from (wanted, there, lost, skew)
    yield from _each(() if view is None else view.executors)


def _each(executors: tuple[ExecutorView, ...]) -> Iterator[Metric]:
    gauges: tuple[tuple[str, str, Callable[[ExecutorView], float | None]], ...] = (
        ("state_partitions", "State partitions that an executor has open", lambda each: each.state_partitions),
        (
            "state_rows",
            "Rows in the state of an executor after the last batches; absent if Spark does not count them",
            lambda each: each.state_rows,
        ),
        ("state_size_bytes", "State of an executor in the last checkpoint", lambda each: each.state_bytes),
        (
            "busy_ratio",
            "Share of an executor's cores' time in tasks over the last ten seconds, 0 to 1",
            lambda each: each.busy,
        ),
    )
    counters: tuple[tuple[str, str, Callable[[ExecutorView], float]], ...] = (
        ("tasks", "Tasks of an executor that have ended", lambda each: each.tasks),
        (
            "records_in",
            "Records that the tasks of an executor have read, from sources and from shuffles",
            lambda each: each.records_in,
        ),
        (
            "read_bytes",
            "Bytes that the tasks of an executor have read, as far as sources count them, and from shuffles",
            lambda each: each.bytes_in,
        ),
    )
    for name, documentation, read in gauges:
        gauge = GaugeMetricFamily(f"streamjob_executor_{name}", f"{documentation}.", labels=_LABELS)
        for each in executors:
            if (value := read(each)) is not None:
                gauge.add_metric([each.name], value)
        yield gauge
    for name, documentation, read in counters:
        counter = CounterMetricFamily(f"streamjob_executor_{name}", f"{documentation}.", labels=_LABELS)
        for each in executors:
            counter.add_metric([each.name], read(each))
        yield counter
