"""`streamjob validate`: checks a job without starting it; raises `InvalidJob` if the job is invalid."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from streamjob import runtime
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.job.loading.load import load_job


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
        runtime.require("`streamjob validate --spark`")
        loaded = load(spark_parser=runtime.parse_with_spark, environ=os.environ)
        runtime.validate(loaded)
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
