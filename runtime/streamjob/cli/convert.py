"""`streamjob convert`: writes a job as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, job_of
from streamjob.errors import InvalidInput
from streamjob.job.loading.converting import converted


class UnusableTarget(InvalidInput):
    """The file to write exists, or cannot be written."""


def convert_command(
    file: FileArgument = None,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="A new file to write to. Default: standard output."),
    ] = None,
) -> None:
    """Write a job, such as one in SQL, as YAML, with overlays merged and variables replaced.

    Comments outside of queries are lost.
    """
    loaded = job_of(file, files, overrides, variables)
    text = converted(loaded.written, loaded.tests)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with Path(output).open("x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise UnusableTarget(
            f"{output}: cannot be written: {error.strerror}", "name a file that does not exist"
        ) from None
