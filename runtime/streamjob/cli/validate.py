"""`streamjob validate`: checks a job without starting anything; an invalid one ends it with `InvalidJob`."""

from __future__ import annotations

from typing import Annotated

import typer

from streamjob.job.load import load_job

FileArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A YAML file (a bare job or a StreamJob) or a Python file that defines `job`."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field first, like checkpointing.interval=5s or sources.flights.options.path=data.",
    ),
]


def validate_command(file: FileArgument, overrides: SetOption = None) -> None:
    """Check a job file, and say all that is wrong with it."""
    spec = load_job(file, overrides or ()).spec
    parts = [(spec.sources, "source"), (spec.operators, "operator"), (spec.sinks, "sink")]
    counts = ", ".join(f"{len(each)} {word}{'' if len(each) == 1 else 's'}" for each, word in parts)
    typer.echo(f"{file}: the job {spec.name!r} is valid ({counts})")
