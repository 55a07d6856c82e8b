"""The checks of a job as a whole, one module per subject."""

from collections.abc import Callable, Iterable

from streamjob.job.checks import (
    encodings,
    functions,
    loops,
    migrations,
    names,
    operators,
    paths,
    publishing,
    settings,
    sinks,
    sources,
    tables,
    temporal,
)
from streamjob.job.checks.subject import Subject
from streamjob.job.model.problem import Problem

CHECKS: tuple[Callable[[Subject], Iterable[Problem]], ...] = (
    names.unique_names,
    names.known_inputs,
    names.no_cycle,
    loops.feedback,
    loops.event_time,
    names.all_used,
    sources.formats,
    sources.schemas,
    encodings.encodings,
    sources.columns,
    sources.watermarks,
    sources.bounds,
    sources.connections,
    tables.formats,
    tables.schemas,
    tables.reloads,
    tables.connections,
    tables.lookups,
    tables.asked_tables,
    operators.code,
    operators.tables,
    operators.queries,
    operators.errors,
    functions.functions,
    functions.names_in_sql,
    operators.watermarks,
    operators.output_modes,
    temporal.joins,
    migrations.renames,
    migrations.migrations,
    sinks.formats,
    sinks.deliveries,
    sinks.partitions,
    sinks.connections,
    publishing.batches,
    paths.paths,
    paths.apart,
    settings.secrets,
    settings.spark_conf,
    settings.parallelism,
)

__all__ = ["CHECKS", "Subject"]
