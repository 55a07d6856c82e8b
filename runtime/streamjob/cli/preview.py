"""`streamjob preview`: shows what an operator returns for a sample of its sources."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from streamjob import runtime
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, files_of
from streamjob.cli.test import chosen, tests_of
from streamjob.client.console import console_for
from streamjob.job.loading.load import LoadedJob, load_job


class PreviewFormat(StrEnum):
    """The output formats of a preview."""

    TABLE = "table"
    JSON = "json"


def preview_command(
    file: FileArgument = None,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    operator: Annotated[
        str | None,
        typer.Option(help="The operator or source to show. Default: the input of the only sink.", metavar="NAME"),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="The number of rows to show.", metavar="N")] = 20,
    sample: Annotated[int, typer.Option(min=1, help="Rows to read from each source.", metavar="N")] = 1000,
    test: Annotated[
        str | None,
        typer.Option(help="Take the given rows of this test, instead of a sample.", metavar="NAME"),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Longest time to wait for the rows of a source, in seconds.", metavar="SECONDS")
    ] = 30.0,
    format: Annotated[PreviewFormat, typer.Option(help="The output format.")] = PreviewFormat.TABLE,  # noqa: A002
) -> None:
    """Show what an operator returns for a sample of its sources, on an embedded Spark.

    The operators run as they do in the job, on the first rows of each source, as if the source ended there. Nothing is
    published, and neither the job's snapshots nor its sources notice it.
    """
    path, overlays = files_of(file, files)
    runtime.require("`streamjob preview`")
    parser = runtime.parse_with_spark
    loaded = load_job(path, overrides or (), overlays=overlays, variables=variables or (), spark_parser=parser)
    given = _given(loaded, Path(path), test) if test is not None else None
    shown = runtime.preview_job(loaded, operator, rows=rows, sampled=sample, given=given, within=wait)
    if format is PreviewFormat.JSON:
        for row in shown.rows:
            typer.echo(json.dumps(runtime.json_of(row), ensure_ascii=False))
        return
    _print(shown)


def _given(loaded: LoadedJob, file: Path, test: str) -> dict[str, list[Any]]:
    (named,) = chosen(loaded, tests_of(loaded, file), [test])
    given: dict[str, list[Any]] = {source.name: [] for source in loaded.spec.sources}
    for step in named.all_steps():
        for source, rows in step.given.items():
            given[source] += rows
    return given


def _print(shown: runtime.Preview) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns:
        table.add_column(Text(column), overflow="fold")
    for row in shown.texts():
        table.add_row(*map(Text, row))
    console = console_for()
    console.print(table)
    console.print(shown.summary(), style="dim", markup=False)
