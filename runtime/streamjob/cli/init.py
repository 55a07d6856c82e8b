"""`streamjob init`: writes a first job that runs."""

from __future__ import annotations

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from streamjob.errors import InvalidInput

JOB = "job.py"


class CannotInit(InvalidInput):
    """The files of a first job cannot be written."""


def init_command(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIRECTORY]", help="Where to write. Default: the current directory.")
    ] = Path(),
) -> None:
    """Write a first job that runs: a Python file and a little data.

    No file that exists is changed.
    """
    contents = {directory / name: content for name, content in first_job()}
    if there := [str(file) for file in contents if file.exists()]:
        raise CannotInit(f"{', '.join(there)}: there already", "name a directory that does not have these files")
    try:
        for file, content in contents.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as target:
                target.write(content)
            typer.echo(f"wrote {file}")
    except OSError as error:
        raise CannotInit(f"{error.filename}: cannot be written: {error.strerror}", "name another directory") from None
    typer.echo(f"next: streamjob run {shlex.quote(str(directory / JOB))}")
    typer.echo(f"then: cat {shlex.quote(str(directory / 'output'))}/*.json")


def first_job() -> list[tuple[str, bytes]]:
    """Return the files of the first job, by relative path."""
    return sorted(_contents(files("streamjob.cli") / "first_job", ""))


def _contents(directory: Traversable, place: str) -> list[tuple[str, bytes]]:
    found = []
    for each in directory.iterdir():
        if each.is_dir():
            found += _contents(each, f"{place}{each.name}/")
        elif not each.name.endswith(".pyc"):
            found.append((place + each.name, each.read_bytes()))
    return found
