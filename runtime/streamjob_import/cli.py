"""`streamjob import`: makes a job of a PySpark program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamjob.errors import InvalidInput, InvalidJob
from streamjob.job.loading.load import load_job
from streamjob_import.parts import identifier
from streamjob_import.running import record
from streamjob_import.writing import write_job


class UnusableTarget(InvalidInput):
    """The file to write exists, or cannot be written."""


def import_command(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", exists=True, dir_okay=False, help="A Python file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT", help="Arguments of the program, behind `--`.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The job to write. Default: PROGRAM_job.py beside it."),
    ] = None,
) -> None:
    """Make a job of a PySpark program that streams.

    The program runs once, with a recorder in the place of Spark: no query starts, and Spark reads and
    writes nothing. What else the program does, it does.
    """
    # A module: Python imports the job's functions from it.
    target = output or program.with_name(f"{identifier(program.stem)}_job.py")
    if target.exists():
        raise UnusableTarget(f"{target} exists", "delete it, or name another file with --output")
    recording = record(program, arguments or ())
    text = write_job(recording)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnusableTarget(f"{target}: cannot be written: {error.strerror}", "name another file") from None
    typer.echo(f"wrote {target}")
    if recording.ended:
        typer.echo(f"the program ended at {recording.ended}: queries that it starts later are missing")
    if places := text.count("# DECIDE"):
        typer.echo(f"decide at {places} place{'s' * (places > 1)}: look for DECIDE in it")
    try:
        load_job(target)
    except InvalidJob as error:
        typer.echo(f"before it can run:\n{error}")
        return
    typer.echo(f"next: streamjob validate --spark {target}")
