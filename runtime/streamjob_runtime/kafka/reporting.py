"""Reports the positions of completed checkpoints to Kafka's consumer groups, for people who monitor those.

As with Flink's Kafka source, nothing depends on the reports: a job continues from its checkpoints and never reads a
group's offsets. A separate thread makes the reports. During a report, only the newest checkpoint waits, since its
positions include the earlier ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamjob.errors import StreamJobError
from streamjob.ids import OperatorUid
from streamjob.job.connectors.kafka_source import FORMAT, consumer_group, reports_offsets
from streamjob.job.loading.load import LoadedJob
from streamjob.snapshot.manifest import Manifest
from streamjob_runtime.kafka.admin import KafkaAdmin
from streamjob_runtime.kafka.positions import read_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAST_REPORT_SECONDS = 5.0

log = logging.getLogger("streamjob")


class OffsetReports:
    """Counts failed reports across the epochs of a process; logs a warning for the first one of each source."""

    def __init__(self) -> None:
        self._failures: dict[OperatorUid, int] = {}

    @property
    def failures(self) -> Mapping[OperatorUid, int]:
        """The number of failed reports of each reporting source."""
        return dict(self._failures)

    def begin(self, source: OperatorUid) -> None:
        """Register a source that reports."""
        self._failures.setdefault(source, 0)

    def failed(self, source: OperatorUid, reason: str) -> None:
        """Count a failed report."""
        self._failures[source] = self._failures.get(source, 0) + 1
        message = "The positions of source %r were not reported to Kafka; the job does not need that: %s"
        log.log(logging.WARNING if self._failures[source] == 1 else logging.DEBUG, message, source, reason)


@dataclass(frozen=True, slots=True)
class ReportedSource:
    """A source whose positions are reported.

    Args:
        uid: the source.
        name: its name in messages.
        group: the consumer group.
        options: the source's options, including secrets.
    """

    uid: OperatorUid
    name: str
    group: str
    options: Mapping[str, str] = field(repr=False)


def reported_sources(loaded: LoadedJob, namespace: str, job: str) -> Iterator[ReportedSource]:
    """Yield the Kafka sources of a job that report positions, each with its group."""
    for source in loaded.spec.sources:
        if source.format == FORMAT:
            options = loaded.options(source)
            if reports_offsets(options):
                group = consumer_group(options, namespace, job, source.uid)
                yield ReportedSource(source.uid, source.name, group, options)


class OffsetReporter:
    """Reports for one epoch; `note` may be called from any thread and returns at once.

    Args:
        sources: the sources that report.
        connect: opens a client for a source.
        reports: counts failed reports.
    """

    def __init__(
        self,
        sources: tuple[ReportedSource, ...],
        connect: Callable[[ReportedSource], KafkaAdmin],
        reports: OffsetReports,
    ) -> None:
        self._sources = sources
        self._connect = connect
        self._reports = reports
        self._clients: dict[OperatorUid, KafkaAdmin] = {}
        self._changed = threading.Condition()
        self._waiting: Manifest | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="report-offsets", daemon=True)
        for source in sources:
            reports.begin(source.uid)
        if sources:
            self._thread.start()

    def note(self, manifest: Manifest) -> None:
        """Schedule a report of a completed checkpoint's positions."""
        with self._changed:
            self._waiting = manifest
            self._changed.notify()

    def close(self) -> None:
        """Finish the pending report within a few seconds, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._sources:
            self._thread.join(_LAST_REPORT_SECONDS)

    def _run(self) -> None:
        while (manifest := self._next()) is not None:
            for source in self._sources:
                self._report(source, manifest)
        for client in self._clients.values():
            client.close()

    def _next(self) -> Manifest | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting is not None)
            manifest, self._waiting = self._waiting, None
            return manifest

    def _report(self, source: ReportedSource, manifest: Manifest) -> None:
        position = next((each.position for each in manifest.sources if each.uid == source.uid), None)
        offsets = read_offsets(position)
        if not offsets:
            return
        try:
            if source.uid not in self._clients:
                self._clients[source.uid] = self._connect(source)
            self._clients[source.uid].report_offsets(source.group, offsets)
        except StreamJobError as error:
            self._reports.failed(source.uid, error.what)
        except Exception as error:
            # Spark may be stopping or gone; code that needs it reports that itself.
            self._reports.failed(source.uid, type(error).__name__)


def report_offsets(
    spark: SparkSession, loaded: LoadedJob, namespace: str, job: str, reports: OffsetReports
) -> OffsetReporter:
    """Return the reporter for a job's Kafka sources in an epoch.

    Args:
        job: its name in the store.
        reports: counts failed reports.
    """

    def connect(source: ReportedSource) -> KafkaAdmin:
        return KafkaAdmin.open(spark, source.options, f"Source {source.name!r}")

    return OffsetReporter(tuple(reported_sources(loaded, namespace, job)), connect, reports)
