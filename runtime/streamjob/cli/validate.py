"""`streamjob validate`: checks a job without starting it; raises `InvalidJob` if the job is invalid."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import Annotated

import typer

from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.extras import from_extra
from streamjob.job.loading.load import load_job

_PARSER = "streamjob_runtime.spark.parsing"
_VALIDATOR = "streamjob_runtime.process.checking.validation"
"""Asks Spark; part of the extra `runtime`."""


def validate_command(
    file: FileArgument = None,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Also check columns, functions, types, sources and sinks with an embedded Spark, which takes seconds.",
        ),
    ] = False,
) -> None:
    """Check a job file without starting the job, and report all mistakes.

    Without --spark, only the file is checked: names, graph, options and syntax.
    """
    path, overlays = files_of(file, files)
    load = partial(load_job, path, overrides or (), overlays=overlays, variables=variables or ())
    if spark:
        with from_extra("`streamjob validate --spark`", "runtime"):
            import_module("pyspark")
        parser = import_module(_PARSER).parse_with_spark
        loaded = load(spark_parser=parser, environ=os.environ)
        import_module(_VALIDATOR).validate(loaded)
    else:
        loaded = load()
    spec = loaded.written
    tables = [(spec.tables, "table")] if spec.tables else []
    parts = [(spec.sources, "source"), *tables, (spec.operators, "operator"), (spec.sinks, "sink")]
    counts = ", ".join(f"{len(each)} {word}{'' if len(each) == 1 else 's'}" for each, word in parts)
    typer.echo(f"{loaded.origin}: the job {spec.name!r} is valid ({counts})")
    if not spark:
        typer.echo(
            "not checked: whether columns, functions and types exist and fit, and whether sources and sinks can be "
            "reached; use --spark"
        )
