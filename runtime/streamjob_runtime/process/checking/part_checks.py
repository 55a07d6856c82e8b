"""Checks each part of a job with Spark: whether its columns, functions and types exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from streamjob.errors import InvalidInput, InvalidJob, StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import OperatorSpec, SourceSpec
from streamjob.job.planning.plan import plan
from streamjob_runtime.chain.dataflow import InvalidOperator, apply_operator, timed_operator
from streamjob_runtime.chain.functions.sql_functions import refused_functions
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.source_rows import read_stream, source_rows
from streamjob_runtime.spark.text.error_text import reason
from streamjob_runtime.tables.reading import batch_frame, reading_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_parts(spark: SparkSession, loaded: LoadedJob) -> None:
    """Check functions, sources, tables and operators, each by itself.

    Raises:
        InvalidJob: Spark refuses some of them; lists all.
    """
    parts = [f"function {name!r}" for name in loaded.spec.functions]
    parts += [f"source {each.name!r}" for each in loaded.spec.sources]
    parts += [f"table {each.name!r}" for each in loaded.spec.tables]
    parts += [f"operator {each.name!r}" for each in loaded.spec.operators]
    problems = sorted(_problems(spark, loaded), key=lambda problem: parts.index(problem.where))
    if problems:
        raise InvalidJob(loaded.origin, problems)


def _problems(spark: SparkSession, loaded: LoadedJob) -> Iterator[Problem]:
    """Yield the parts that Spark refuses; readers of a refused part are not checked."""
    for name, error in refused_functions(spark, loaded):
        if isinstance(error, InvalidJob):
            yield from cast("tuple[Problem, ...]", error.problems)
        else:
            yield Problem(f"function {name!r}", error.what.removeprefix(f"Function {name!r}").lstrip(": "), error.fix)
    frames: dict[str, DataFrame] = {}
    for source in loaded.spec.sources:
        try:
            frames[source.name] = _source(spark, loaded, source)
        except StreamJobError as error:
            yield _problem(f"source {source.name!r}", error)
        else:
            frames[source.name].createOrReplaceTempView(source.name)
    for table in loaded.spec.tables:
        try:
            with reading_table(spark, loaded, table) as options:
                frames[table.name] = batch_frame(spark, table, options)
        except StreamJobError as error:
            yield _problem(f"table {table.name!r}", error)
        else:
            frames[table.name].createOrReplaceTempView(table.name)
    for operator in (each for chain in plan(loaded.spec).chains for each in chain.operators):
        inputs = {**frames, **_fed_back(spark, operator)}
        read = {*(each.name for each in operator.inputs), *(operator.tables or ())}
        if operator.lookup is not None:
            read.add(operator.lookup.table)
        if operator.sql is not None:
            # A query that reads a refused table fails for that reason.
            read |= {each.name for each in loaded.spec.tables if each.name not in frames}
        if not read <= inputs.keys():
            continue
        for each in operator.inputs:
            inputs[each.name].createOrReplaceTempView(each.name)
        try:
            frames[operator.name] = apply_operator(spark, loaded, operator, inputs)
            if operator.watermark is not None:
                frames[operator.name] = timed_operator(spark, operator, frames[operator.name])[0].frame
        except InvalidInput as error:
            yield _problem(f"operator {operator.name!r}", error)


def _problem(where: str, error: StreamJobError) -> Problem:
    """Return an error as the problem of a part, which the error may name at its beginning."""
    what = error.what.removeprefix(f"{where}: ").removeprefix(f"{where[0].upper()}{where[1:]}: ")
    return Problem(where, what, error.fix)


def _source(spark: SparkSession, loaded: LoadedJob, source: SourceSpec) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        options = loaded.options(source)
        files = DiscoveredFiles.of(spark, source, options)
        rows = read_stream(spark, source, source.format, options, files)
        return source_rows(spark, loaded, source, rows).frame
    except PySparkException as error:
        raise InvalidOperator(reason(error)) from error


def _fed_back(spark: SparkSession, operator: OperatorSpec) -> dict[str, DataFrame]:
    """Return rows with the declared columns, in place of an operator's feedback."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    found = {}
    for each in operator.inputs:
        if each.feedback:
            columns = cast("StructType", StructType.fromDDL(each.schema_ddl or "")).fields
            rows = spark.readStream.format("rate").load()
            found[each.name] = rows.select(*(f.lit(None).cast(field.dataType).alias(field.name) for field in columns))
    return found
