"""`streamjob convert`: writes a job as YAML or SQL."""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.errors import InvalidInput
from streamjob.job.converting import converted, converted_tests
from streamjob.job.job_tests import file_beside
from streamjob.job.load import load_job


class FileForm(StrEnum):
    """The form of a job file."""

    YAML = "yaml"
    SQL = "sql"


class UnusableTarget(InvalidInput):
    """The file to write exists, or cannot be written."""


def convert_command(
    file: FileArgument = None,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    to: Annotated[
        FileForm | None, typer.Option(help="The form to write. Default: YAML for a SQL file, otherwise SQL.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="A new file to write to. Default: standard output."),
    ] = None,
) -> None:
    """Write a job in another form, with overlays merged and variables replaced.

    Comments outside of queries are lost. The tests in a YAML file go into NAME.tests.yaml next to a SQL file NAME.sql.
    """
    path, overlays = files_of(file, files)
    loaded = load_job(path, overrides or (), overlays=overlays, variables=variables or ())
    form = to or (FileForm.YAML if path.endswith(".sql") else FileForm.SQL)
    if output is None:
        typer.echo(converted(loaded.written, form.value, loaded.tests), nl=False)
        return
    apart = form is FileForm.SQL and bool(loaded.tests)
    text = converted(loaded.written, form.value, () if apart else loaded.tests)
    beside = file_beside(Path(output))
    if apart and beside.exists():
        raise _unusable(str(beside), os.strerror(errno.EEXIST))
    _write(Path(output), text)
    if apart:
        _write(beside, converted_tests(loaded.tests))


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise _unusable(str(file), error.strerror) from None


def _unusable(file: str, why: str | None) -> UnusableTarget:
    return UnusableTarget(f"{file}: cannot be written: {why}", "name a file that does not exist")
