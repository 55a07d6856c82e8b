"""The arguments and options of the commands that read a job: its file, overlays, variables and single fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from streamjob.errors import InvalidInput

if TYPE_CHECKING:
    from streamjob.job.loading.load import LoadedJob, SparkParser

FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE]",
        help="A YAML file (a bare job or a StreamJob), a SQL file, or a Python file that defines `job`; or the first "
        "--file.",
    ),
]
FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="An overlay: a YAML file that is merged into the job. Can be repeated; later files override earlier ones.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a field of the file, like checkpointing.interval=5s or sources.flights.options.path=data.",
    ),
]
VarOption = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="The value of ${var:NAME} in the file. Can be repeated."),
]


class NoFile(InvalidInput):
    """A command that reads a job was called without a file."""


def files_of(file: str | None, files: list[str] | None) -> tuple[str, tuple[str, ...]]:
    """Return the file of a job and its overlays.

    Raises:
        NoFile: neither the argument nor an option names one.
    """
    first, *overlays = [*([file] if file is not None else []), *(files or ())] or [None]
    if first is None:
        raise NoFile("no file of a job is named", "name it: job.yaml, or -f base.yaml -f production.yaml")
    return first, tuple(overlays)


def job_of(
    file: str | None,
    files: list[str] | None,
    overrides: list[str] | None,
    variables: list[str] | None,
    *,
    spark_parser: SparkParser | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedJob:
    """Return the job that the arguments and options of a command name; see `load_job`.

    Raises:
        NoFile: they name no file.
        InvalidInput: the job is invalid.
    """
    from streamjob.job.loading.load import load_job

    path, overlays = files_of(file, files)
    return load_job(
        path, overrides or (), overlays=overlays, variables=variables or (), spark_parser=spark_parser, environ=environ
    )
