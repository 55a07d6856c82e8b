"""`streamjob migrate`: changes the state of a snapshot to the form that a job needs, and writes it as a savepoint."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjob import runtime
from streamjob.cli.check import as_object, print_findings
from streamjob.cli.control import Json
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, job_of
from streamjob.cli.store_options import (
    AllowNonRestoredStateOption,
    LocationOption,
    NameOption,
    NamespaceOption,
    StrictOption,
)
from streamjob.client.console import console_for

if TYPE_CHECKING:
    from streamjob.comparison.verdicts import Finding
    from streamjob.runtime import MigrationReport


def migrate_command(
    restore_from: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SNAPSHOT",
            help="The snapshot: by URI or path or, for one of this job, as checkpoints/<epoch>-<id>; latest: the last"
            " completed checkpoint. It has nothing in flight, as a savepoint has. It stays as it is.",
        ),
    ],
    file: FileArgument = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="URI", help="A directory for the savepoint. Default: the job's own, at its location."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing: change a copy of the state on this machine, and show what comes of it."
        ),
    ] = False,
    location: LocationOption = None,
    namespace: NamespaceOption = None,
    name: NameOption = None,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    strict: StrictOption = False,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    as_json: Json = False,
) -> None:
    """Change the state of a snapshot to the form that a job needs, verify it, and write it as a savepoint.

    A start does the same by itself. This command shows beforehand what comes of it, and leaves a snapshot from which
    starts need not do it again. Ends with the exit code of a start: 3 if the job could not be restored, 2 if it could
    not run at all.
    """
    from streamjob.comparison.starting import compare_start
    from streamjob.protocol.log.records import JobId

    note = partial(typer.echo, err=True)
    runtime.require("`streamjob migrate`")
    with ExitStack() as stack:
        parser = runtime.parse_with_spark
        loaded = job_of(file, files, overrides, variables, spark_parser=parser, environ=os.environ)
        job = JobId(namespace or loaded.namespace or "default", name or loaded.spec.name)
        ask = runtime.embedded_spark(stack, "migrate", loaded.spec.parallelism)
        migrator = runtime.Migrator(ask, location, to, write=not check, strict=strict, note=note)
        start = compare_start(
            loaded, restore_from, location, job, allow_non_restored_state, migrator, note, require_snapshot=True
        )
    compared, report = start.compared, migrator.report
    if start.finished or start.uri is None:
        note(f"{restore_from}: the job has finished, so no state is left to change")
        return
    if as_json:
        for each in compared.findings:
            shown = {**as_object(each, compared), "migrations": _migrations(each, report)}
            typer.echo(json.dumps(shown, ensure_ascii=False))
        if not compared.refusals:
            typer.echo(json.dumps(_whole(start.uri, report), ensure_ascii=False))
    else:
        print_findings(compared, start.uri)
        if not compared.refusals:
            _print(start.uri, report, check=check)
    if compared.refusals:
        raise typer.Exit(int(compared.refusals[0].exit_code))


def _migrations(finding: Finding, report: MigrationReport) -> list[dict[str, Any]]:
    """Return the migrations of the state of one part, as JSON."""
    return [
        {**record.model_dump(mode="json", by_alias=True), **asdict(seen)}
        for record, seen in zip(report.records, report.seen, strict=True)
        if finding.kind.value == "operator" and finding.uid in record.operators
    ]


def _whole(uri: str, report: MigrationReport) -> dict[str, Any]:
    return {
        "kind": "snapshot",
        "uid": uri,
        "savepoint": report.savepoint,
        "partitions": report.partitions,
        "bytesBefore": report.bytes_before,
        "bytesAfter": report.bytes_after,
        "seconds": round(report.seconds, 3),
    }


def _print(uri: str, report: MigrationReport, *, check: bool) -> None:
    from rich.text import Text

    from streamjob.client import formatting

    def line(*parts: Any) -> None:
        console_for().print(Text.assemble(*parts), soft_wrap=True)

    if not report.records:
        line(f"no state changes its form: start the job from {uri} as it is")
        return
    for record, seen in zip(report.records, report.seen, strict=True):
        fewer = record.rows_before - record.rows_after
        line(
            (" or ".join(record.operators), "bold"),
            f": {record.rows_before} rows of its {record.state} became {record.rows_after}"
            f"{f', as keys merge or vanish: {fewer} fewer' if fewer > 0 else ''}; verified in "
            f"{report.partitions} partitions, in {record.seconds:.1f} s",
        )
        line(f"  form {record.before} -> {record.after}, checksum {record.checksum_before} -> {record.checksum_after}")
        for each in seen.samples:
            line(f"  {_row(each['before'])} -> {_row(each['after'])}")
        for each in seen.merged:
            line(f"  {each['rows']} rows merge into {_row(each['key'])}")
        for each in seen.vanished:
            line(f"  the rows of {_row(each['key'])} vanish")
    sizes = f"{formatting.size(report.bytes_before)} became {formatting.size(report.bytes_after)}"
    line(f"{sizes} in {report.seconds:.1f} s, with what is read and written")
    if check:
        line("nothing was written: without --check, this writes a savepoint, and a start does the same")
    else:
        line(f"start the job with --from {report.savepoint}")


def _row(row: Any) -> str:
    return "none" if row is None else json.dumps(row, ensure_ascii=False)
