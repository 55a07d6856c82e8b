"""`streamjob plan`: shows the chains of a job; raises `InvalidJob` if the job is invalid."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, job_of
from streamjob.job.planning.drawing import as_json, as_mermaid, as_text
from streamjob.job.planning.plan import plan


class PlanFormat(StrEnum):
    """The output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"


def plan_command(
    file: FileArgument = None,
    format: Annotated[PlanFormat, typer.Option(help="The output format.")] = PlanFormat.TEXT,  # noqa: A002
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
) -> None:
    """Show the chains of a job, and the reason for each channel between them."""
    spec = job_of(file, files, overrides, variables).spec
    planned = plan(spec)
    match format:
        case PlanFormat.TEXT:
            typer.echo(as_text(spec, planned))
        case PlanFormat.JSON:
            typer.echo(json.dumps(as_json(spec, planned)))
        case PlanFormat.MERMAID:
            typer.echo(as_mermaid(spec, planned))
