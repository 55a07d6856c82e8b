"""The metrics of chains and their inputs, in Prometheus' form."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from streamjob.client.models import InputView, JobView


def chain_metrics(job: JobView) -> Iterator[Metric]:
    """Yield metrics from the views of chains."""
    records_in = CounterMetricFamily("streamjob_records_in", "Records that a chain has read.", labels=["chain"])
    records_out = CounterMetricFamily("streamjob_records_out", "Records that a chain has written.", labels=["chain"])
    batch = GaugeMetricFamily(
        "streamjob_batch_id", "Number of a chain's last emitted batch; -1 before.", labels=["chain"]
    )
    watermark = GaugeMetricFamily(
        "streamjob_watermark_timestamp_seconds",
        "Watermark of a chain's input, since 1970; absent before the first.",
        labels=["chain", "input"],
    )
    lag = GaugeMetricFamily(
        "streamjob_watermark_lag_seconds",
        "Clock minus watermark of a chain's input; absent before the first watermark.",
        labels=["chain", "input"],
    )
    dropped = CounterMetricFamily(
        "streamjob_records_dropped_late",
        "Records that a stateful operator has dropped because they were behind the watermark.",
        labels=["chain", "operator"],
    )
    failed = CounterMetricFamily(
        "streamjob_operator_rows_failed",
        "Rows that an operator with `onError` could not compute, dropped or handed on as dead letters.",
        labels=["chain", "operator"],
    )
    timeless = CounterMetricFamily(
        "streamjob_rows_without_event_time",
        "Rows that a source or operator with `nullEventTime: drop` has dropped because their event time was NULL.",
        labels=["chain", "operator"],
    )
    held_back = GaugeMetricFamily(
        "streamjob_watermark_held_back",
        "1 for an input without records that holds the watermark of its chain behind those of the other inputs, or "
        "whose own watermark is held back by a partition without records.",
        labels=["chain", "input"],
    )
    late = CounterMetricFamily(
        "streamjob_records_late",
        "Records of an input that came behind the watermark of its chain.",
        labels=["chain", "input"],
    )
    ahead = CounterMetricFamily(
        "streamjob_records_ahead",
        "Records of an input whose event time was further ahead of the clock than `maxAhead`.",
        labels=["chain", "input"],
    )
    for chain in job.chains:
        for operator, rows in chain.records_dropped_late.items():
            dropped.add_metric([chain.uid, operator], rows)
        for operator, rows in chain.rows_failed.items():
            failed.add_metric([chain.uid, operator], rows)
        for operator, rows in chain.rows_without_event_time.items():
            timeless.add_metric([chain.uid, operator], rows)
        records_in.add_metric([chain.uid], chain.records_in)
        if chain.records_out is not None:
            records_out.add_metric([chain.uid], chain.records_out)
        batch.add_metric([chain.uid], chain.batch)
        for source in chain.inputs:
            if source.watermark_ms is not None:
                watermark.add_metric([chain.uid, source.uid], source.watermark_ms / 1000)
            if source.lag_ms is not None:
                lag.add_metric([chain.uid, source.uid], source.lag_ms / 1000)
            held_back.add_metric([chain.uid, source.uid], float(_holds_back(source)))
            late.add_metric([chain.uid, source.uid], source.records_late)
            ahead.add_metric([chain.uid, source.uid], source.records_ahead)
    yield from (records_in, records_out, batch, watermark, lag, held_back, dropped, failed, timeless, late, ahead)
    yield from _work_metrics(job)
    yield from _state_metrics(job)
    yield from _source_metrics(job)
    yield from _backpressure_metrics(job)


def _holds_back(source: InputView) -> bool:
    return source.holds_watermark_back or any(each.holds_watermark_back for each in source.partitions)


def _work_metrics(job: JobView) -> Iterator[Metric]:
    busy = GaugeMetricFamily(
        "streamjob_busy_ratio",
        "Share of the last ten seconds that a chain was in batches, without waiting for other chains, 0 to 1.",
        labels=["chain"],
    )
    phases = GaugeMetricFamily(
        "streamjob_batch_phase_seconds",
        "Mean time of a phase in a chain's last batches: `offsets`, `planning`, `execution` or `logs`.",
        labels=["chain", "phase"],
    )
    in_sinks = GaugeMetricFamily(
        "streamjob_batch_sink_seconds",
        "Mean time in a sink in a chain's last batches, a part of the execution.",
        labels=["chain", "sink"],
    )
    for chain in job.chains:
        busy.add_metric([chain.uid], chain.busy)
        if (times := chain.batch_times) is not None:
            for phase in ("offsets", "planning", "execution", "logs"):
                phases.add_metric([chain.uid, phase], getattr(times, phase))
            for sink, seconds in times.sinks.items():
                in_sinks.add_metric([chain.uid, sink], seconds)
    yield from (busy, phases, in_sinks)


def _state_metrics(job: JobView) -> Iterator[Metric]:
    labels = ["chain", "operator"]
    rows = GaugeMetricFamily(
        "streamjob_state_rows", "Rows in the state of an operator; absent if Spark does not count them.", labels=labels
    )
    size = GaugeMetricFamily(
        "streamjob_state_size_bytes", "Bytes of the state of an operator on disk, or in memory.", labels=labels
    )
    for chain in job.chains:
        for operator in chain.operator_figures:
            if operator.state_rows is not None:
                rows.add_metric([chain.uid, operator.uid], operator.state_rows)
            if operator.state_bytes is not None:
                size.add_metric([chain.uid, operator.uid], operator.state_bytes)
    yield from (rows, size)


def _source_metrics(job: JobView) -> Iterator[Metric]:
    labels = ["source", "topic", "partition"]
    position = GaugeMetricFamily(
        "streamjob_source_position_offset", "Offset after the last record that a Kafka source has read.", labels=labels
    )
    lag = GaugeMetricFamily(
        "streamjob_source_lag_records",
        "Offsets between the position of a Kafka source and the end of the partition, as of its last batch.",
        labels=labels,
    )
    behind = GaugeMetricFamily(
        "streamjob_source_lag_seconds",
        "Time since the arrival of the first unread record of a Kafka source, an estimate; absent if not known.",
        labels=["source"],
    )
    failures = CounterMetricFamily(
        "streamjob_source_offset_report_failures",
        "Completed checkpoints whose positions a Kafka source could not report to its consumer group.",
        labels=["source"],
    )
    not_decoded = CounterMetricFamily(
        "streamjob_source_records_not_decoded",
        "Records that a source has dropped because they could not be decoded.",
        labels=["source"],
    )
    changed = GaugeMetricFamily(
        "streamjob_source_files_changed",
        "Files that have changed since a source has read them, and are not read again.",
        labels=["source"],
    )
    too_old = GaugeMetricFamily(
        "streamjob_source_files_too_old",
        "Files that came with a time beyond the `maxFileAge` of a source, and are not read.",
        labels=["source"],
    )
    for source in (each for chain in job.chains for each in chain.inputs if each.chain is None):
        if source.files_changed:
            changed.add_metric([source.uid], source.files_changed)
        if source.files_too_old:
            too_old.add_metric([source.uid], source.files_too_old)
        for each in source.partitions:
            names = [source.uid, each.topic, str(each.partition)]
            position.add_metric(names, each.position)
            if each.lag is not None:
                lag.add_metric(names, each.lag)
        if source.records_not_decoded is not None:
            not_decoded.add_metric([source.uid], source.records_not_decoded)
        if source.lag_seconds is not None:
            behind.add_metric([source.uid], source.lag_seconds)
        if source.offset_report_failures is not None:
            failures.add_metric([source.uid], source.offset_report_failures)
    yield from (position, lag, behind, failures, not_decoded, changed, too_old)


def _backpressure_metrics(job: JobView) -> Iterator[Metric]:
    share = GaugeMetricFamily(
        "streamjob_backpressured_ratio",
        "Share of the last ten seconds that a chain waited for the chains that read it, 0 to 1.",
        labels=["chain"],
    )
    seconds = CounterMetricFamily(
        "streamjob_backpressured_seconds", "Time that a chain has waited for the chains that read it.", labels=["chain"]
    )
    finished = GaugeMetricFamily(
        "streamjob_chain_finished", "1 for a chain whose work is done for good, 0 for the others.", labels=["chain"]
    )
    for chain in job.chains:
        share.add_metric([chain.uid], chain.backpressured)
        seconds.add_metric([chain.uid], chain.backpressured_seconds)
        finished.add_metric([chain.uid], float(chain.finished))
    yield from (share, seconds, finished)
