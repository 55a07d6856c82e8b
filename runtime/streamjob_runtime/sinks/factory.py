"""Builds a job's sinks, from its specification or from the graph in a snapshot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from streamjob.errors import StreamJobError
from streamjob.extras import from_extra
from streamjob.ids import Epoch, OperatorUid
from streamjob.job.connectors import delta, iceberg, jdbc, kafka_source, postgresql
from streamjob.job.connectors.bucket_files import path_problem
from streamjob.job.connectors.changes import is_upsert
from streamjob.job.connectors.of_spark import FUNCTION
from streamjob.job.connectors.options import (
    encodings_of,
    option,
    resolve_registry,
    with_resolved_encodings,
)
from streamjob.job.connectors.registry import sink_of, source_of
from streamjob.job.connectors.resolving import resolve_options
from streamjob.job.model.formats import EXACTLY_ONCE_FORMATS, is_python_sink
from streamjob.job.model.spec import BATCH, OutputMode, SinkSpec
from streamjob.job.query.functions import NotFound, find_function
from streamjob.sink import Sink, SinkContext, Staging
from streamjob_runtime.sinks.at_least_once.batch import BatchSink
from streamjob_runtime.sinks.at_least_once.console import ConsoleSink
from streamjob_runtime.sinks.at_least_once.jdbc import JdbcSink
from streamjob_runtime.sinks.at_least_once.memory import MemorySink
from streamjob_runtime.sinks.encoding import EncodingSink
from streamjob_runtime.sinks.errors import UnusableSink
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink
from streamjob_runtime.sinks.kafka.sink import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SinkSurroundings:
    """The job and the epoch that a sink is built for.

    Args:
        job: the job's name.
        epoch: the epoch that will stage and commit.
        directory: the job file's directory, the base of relative paths and modules.
        environ: the environment for `${env:NAME}` in options.
        staging: returns the staging in the snapshot store for a sink's uid; None if there is none.
        spark: starts Spark or returns its session, for sinks that need it before their first batch.
        modes: the output modes of the job's operators by name, for sinks that stage; default append.
    """

    job: str
    namespace: str
    epoch: Epoch
    directory: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    staging: Callable[[OperatorUid], Staging] | None = None
    spark: Callable[[], SparkSession] | None = None
    modes: Mapping[str, OutputMode] = field(default_factory=dict)

    def context(self, sink: OperatorUid, options: Mapping[str, str]) -> SinkContext:
        """Return the context with which a sink is opened."""
        context = SinkContext(self.job, self.namespace, sink, self.epoch, options)
        return context if self.staging is None else replace(context, staging=self.staging(sink))


def build_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> Sink:
    """Return the sink, opened.

    Raises:
        UnusableSink: the specification names an unknown sink, or a delivery that the sink does not support.
        MissingExtra: packages for the sink are not installed.
        UnusablePlace, PlaceTaken, PlaceFull: the file sink's path is unusable.
        MissingVariable: an option refers to an environment variable that is not set.
    """
    sink, context = make_sink(spec, surroundings)
    sink.open(context)
    return sink


def make_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> tuple[Sink, SinkContext]:
    """Return the sink, not opened, and the context to open it with.

    Raises:
        UnusableSink, MissingExtra, MissingVariable: see `build_sink`.
    """
    options = resolve_options(spec, surroundings.directory, surroundings.environ)
    sink = _sink(spec, options, surroundings)
    encodings = encodings_of(spec)
    keyed = source_of(spec.format).records and is_upsert(spec)
    if (encodings or keyed) and surroundings.spark is not None:
        registries = {
            name: resolve_registry(each.registry, surroundings.directory, surroundings.environ)
            for name, each in encodings.items()
            if each.registry is not None
        }
        sink = EncodingSink(with_resolved_encodings(spec, surroundings.environ), sink, surroundings.spark, registries)
    return sink, surroundings.context(spec.uid, options)


def build_sink_from_graph(sink: Mapping[str, Any], surroundings: SinkSurroundings) -> Sink:
    """Return a sink of a snapshot's graph, opened. The job may no longer have it, but its committables are due.

    Raises:
        UnusableSink: the snapshot does not describe a sink, or see `build_sink`.
    """
    made, context = make_sink_from_graph(sink, surroundings)
    made.open(context)
    return made


def make_sink_from_graph(sink: Mapping[str, Any], surroundings: SinkSurroundings) -> tuple[Sink, SinkContext]:
    """Return a sink of a graph, not opened, and the context to open it with.

    Raises:
        UnusableSink: the graph does not describe a sink, or see `make_sink`.
    """
    known = {name for key, each in SinkSpec.model_fields.items() for name in (key, each.alias) if name}
    try:
        spec = SinkSpec.model_validate({key: value for key, value in sink.items() if key in known})
    except ValidationError as error:
        raise UnusableSink(
            f"sink {sink.get('uid') or sink.get('name')} of the snapshot cannot be read: {error}",
            "start from a snapshot that this version or an older one wrote",
        ) from error
    return make_sink(spec, surroundings)


def _sink(spec: SinkSpec, options: Mapping[str, str], surroundings: SinkSurroundings) -> Sink:
    if is_python_sink(spec.format):
        return _custom_sink(spec, surroundings.directory)
    if (make := _OURS.get((spec.format, spec.delivery))) is not None:
        extra = sink_of(spec.format).extra
        with nullcontext() if extra is None else from_extra(f"sink {spec.name}", extra):
            return make(spec, surroundings)
    if spec.delivery == "exactly-once":
        if spec.format not in EXACTLY_ONCE_FORMATS:
            raise UnusableSink(
                f"sink {spec.name}: format {spec.format} cannot deliver exactly once",
                f"say `delivery: at-least-once`, use {', '.join(sorted(EXACTLY_ONCE_FORMATS))} or your own sink",
            )
        return _file_sink(spec, options)
    return BatchSink(spec.format, spec.partition_by)


def _postgresql_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> Sink:
    from streamjob_runtime.sinks.postgresql.sink import PostgresqlSink

    return PostgresqlSink(spec.name, publishes_batches=spec.publish == BATCH)


def _iceberg_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> Sink:
    from streamjob_runtime.sinks.iceberg.sink import IcebergSink

    return IcebergSink(spec.name)


def _delta_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> Sink:
    from streamjob_runtime.sinks.delta.sink import DeltaSink

    return DeltaSink(
        spec.name,
        spec.partition_by,
        at_once=spec.delivery == "at-least-once",
        publishes_batches=spec.publish == BATCH,
    )


def _function_sink(spec: SinkSpec, surroundings: SinkSurroundings) -> Sink:
    from streamjob_runtime.sinks.at_least_once.function import FunctionSink

    reference = spec.function or ""
    mode = surroundings.modes.get(spec.input, "append")

    def find() -> Any:
        try:
            return find_function(reference, surroundings.directory)
        except NotFound as error:
            raise UnusableSink(f"sink {spec.name}: {error.what}", error.fix) from error

    return FunctionSink(spec.name, find, reference, mode, surroundings.spark)


_OURS: Mapping[tuple[str, str], Callable[[SinkSpec, SinkSurroundings], Sink]] = {
    ("console", "at-least-once"): lambda spec, _: ConsoleSink(spec.name),
    ("memory", "at-least-once"): lambda spec, _: MemorySink(spec.name),
    (FUNCTION, "at-least-once"): _function_sink,
    (delta.FORMAT, "at-least-once"): _delta_sink,
    (delta.FORMAT, "exactly-once"): _delta_sink,
    (iceberg.FORMAT, "exactly-once"): _iceberg_sink,
    (jdbc.FORMAT, "at-least-once"): lambda spec, _: JdbcSink(spec.name),
    (kafka_source.FORMAT, "exactly-once"): lambda spec, surroundings: KafkaSink(
        spec.name, surroundings.spark, publishes_batches=spec.publish == BATCH
    ),
    (postgresql.FORMAT, "exactly-once"): _postgresql_sink,
}
"""By format and delivery. Files have a sink of their own, and all others are Spark's."""


def _file_sink(spec: SinkSpec, options: Mapping[str, str]) -> Sink:
    path = option(options, "path")
    if not path:
        raise UnusableSink(f"sink {spec.name}: has no path", "add `options: {path: …}`")
    parts = urlsplit(path)
    if path.startswith("/"):
        return FileSink(spec.format, LocalPlace(Path(path)), spec.partition_by)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return FileSink(spec.format, LocalPlace(Path(unquote(parts.path))), spec.partition_by)
    if (problem := path_problem(spec.format, path)) is not None:
        raise UnusableSink(f"sink {spec.name}: {problem[0]}", problem[1])
    # Imported here, since loading boto3 would delay a local job noticeably.
    from streamjob_runtime.sinks.bucket.sink import BucketSink

    return BucketSink(spec.name, spec.format, path, spec.partition_by)


def _custom_sink(spec: SinkSpec, directory: Path) -> Sink:
    try:
        made = find_function(spec.format, directory)()
    except NotFound as error:
        raise UnusableSink(f"sink {spec.name}: {error.what}", error.fix) from error
    except StreamJobError:
        raise
    except Exception as error:
        raise UnusableSink(
            f"sink {spec.name}: {spec.format}() failed with {type(error).__name__}: {error}",
            "a sink's class takes no argument; its options come with `open`",
        ) from error
    if not isinstance(made, Sink):
        missing = [name for name in ("open", "stage", "commit", "abort", "close") if not hasattr(made, name)]
        raise UnusableSink(
            f"sink {spec.name}: {spec.format} is not a sink: it lacks {', '.join(missing)}",
            "implement streamjob.sink.Sink",
        )
    return made
