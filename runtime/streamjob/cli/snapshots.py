"""`streamjob snapshots`: manages stored checkpoints and savepoints, without a running job."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjob import runtime
from streamjob.cli.control import Json
from streamjob.errors import ExitCode, InvalidInput
from streamjob.ids import CheckpointId, Owner

if TYPE_CHECKING:
    from streamjob.stored.reading import JobSnapshots, StoredSnapshot

# The store readers are imported inside the commands, to keep `streamjob --help` fast.

snapshots_app = typer.Typer(
    name="snapshots",
    help="List, show, verify, inspect and delete stored checkpoints and savepoints, without a running job.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Place = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION",
        help="A location, the root of a job in it (<location>/<namespace>/<name>), or the manifest of one snapshot.",
    ),
]
Id = Annotated[int | None, typer.Argument(metavar="[ID]", help="The snapshot's id.", show_default=False)]
Namespace = Annotated[
    str | None, typer.Option(help="Namespace of the job. With --name alone: default.", metavar="NS", show_default=False)
]
Name = Annotated[str | None, typer.Option(help="Name of the job.", metavar="NAME", show_default=False)]


@snapshots_app.command("list")
def list_command(location: Place, namespace: Namespace = None, name: Name = None, as_json: Json = False) -> None:
    """List the completed snapshots of a job, or of all jobs at a location."""
    from streamjob.cli import snapshot_tables as tables

    with _opened(location, namespace, name, of_all=True) as (jobs, single):
        if single is not None:
            shown = [single]
            _emit(as_json, [tables.entry(single, None)], lambda: tables.print_list(shown, None))
        for job in jobs:
            there = [each for each in job.snapshots if not each.gone]
            _emit(
                as_json,
                [tables.entry(each, job.view.job) for each in there],
                lambda there=there, job=job: tables.print_list(there, job),
            )


@snapshots_app.command("show")
def show_command(
    location: Place, snapshot: Id = None, namespace: Namespace = None, name: Name = None, as_json: Json = False
) -> None:
    """Show the content of a snapshot: chains, watermarks, data in flight, sources, sinks, sizes. Without ID: the
    newest.

    Ends with exit code 3 if its manifest cannot be read.
    """
    from streamjob.cli import snapshot_tables as tables

    with _opened(location, namespace, name) as (jobs, single):
        found = single or _one(jobs).named(None if snapshot is None else CheckpointId(snapshot))
        _emit(as_json, [tables.details(found)], lambda: tables.print_details(found))
        if found.manifest is None:
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))


@snapshots_app.command("verify")
def verify_command(
    location: Place, snapshot: Id = None, namespace: Namespace = None, name: Name = None, as_json: Json = False
) -> None:
    """Read a snapshot's objects and compare each file with its hash. Without ID: all snapshots.

    Without ID, also verifies the rows that sinks have staged, the records that they keep where they write, and the
    copies of the log's records. Reports all problems, and ends with exit code 3 if there are any. A missing copy is
    reported, and is no problem.
    """
    from streamjob.cli import snapshot_tables as tables
    from streamjob.stored.verify import damaged_rows, verify, verify_copies

    with _opened(location, namespace, name, of_all=snapshot is None) as (jobs, single):
        if single is not None:
            subjects: tuple[StoredSnapshot, ...] = (single,)
        elif snapshot is not None:
            subjects = (_one(jobs).named(CheckpointId(snapshot)),)
        else:
            subjects = tuple(each for job in jobs for each in job.snapshots)
        result = verify(subjects)
        problems: list[str] = []
        notes: list[str] = []
        for job in jobs if snapshot is None else ():
            copies = verify_copies(job.location)
            problems += [*copies.differing, *damaged_rows(job.location), *_problems_of_sinks(job)]
            notes += copies.missing
        _emit(
            as_json,
            [tables.verdict(subject, problems) for subject, problems in result.problems],
            lambda: tables.print_verdicts(result),
        )
        told = [*({"problem": each} for each in problems), *({"note": each} for each in notes)]
        _emit(as_json, told, lambda: typer.echo("\n".join((*problems, *notes)), nl=bool(told)))
        if problems or not result.whole:
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))


@snapshots_app.command("inspect")
def inspect_command(
    location: Place,
    snapshot: Id = None,
    namespace: Namespace = None,
    name: Name = None,
    operator: Annotated[
        str | None,
        typer.Option(help="Show the rows of this operator's state. Needs the extra runtime.", metavar="UID"),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(help="Show the records in flight between two chains. Needs the extra runtime.", metavar="FROM:TO"),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help="Show the rows of a query over the views of --operator and --channel.",
            metavar="QUERY",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows to show of each view or query.", metavar="N")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show the state in a snapshot: stores and sizes; or an operator's state as a table, without its job.

    Without ID: the newest. Nothing is written to the store.
    """
    from streamjob.cli import inspection
    from streamjob.cli import snapshot_tables as tables

    with _opened(location, namespace, name) as (jobs, single):
        found = single or _one(jobs).named(None if snapshot is None else CheckpointId(snapshot))
        if found.manifest is None:
            _emit(as_json, [tables.details(found)], lambda: tables.print_details(found))
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))
        if operator is None and channel is None and sql is None:
            inspection.show_overview(found, as_json=as_json)
            return
        inspection.show_rows(
            found, found.manifest, operator=operator, channel=channel, sql=sql, limit=limit, as_json=as_json
        )


@snapshots_app.command("delete")
def delete_command(
    location: Place,
    snapshot: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", help="The snapshot's id; not for a savepoint given by its own URI."),
    ] = None,
    namespace: Namespace = None,
    name: Name = None,
    fence: Annotated[
        bool,
        typer.Option(
            "--fence",
            help="Claim the job's log first, which is required to delete a checkpoint. A process that still runs the "
            "job is superseded: it ends with exit code 4.",
        ),
    ] = False,
    with_older: Annotated[bool, typer.Option("--with-older", help="Also delete all older checkpoints.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a savepoint, or a checkpoint of a stopped job.

    A job's newest completion is never deleted, except for a savepoint given by its own URI: that belongs to you.
    """
    from streamjob.stored.deletion import delete_alone, delete_snapshot

    with _opened(location, namespace, name) as (jobs, single):
        if single is not None:
            deleted = delete_alone(single)
        elif snapshot is None:
            raise InvalidInput(f"{location} holds the snapshots of a job", "say which one by its id")
        else:
            deleted = delete_snapshot(
                _one(jobs),
                CheckpointId(snapshot),
                fence=fence,
                with_older=with_older,
                owner=Owner(uuid.uuid4().hex),
                now=time.time(),
            )
    ids = ", ".join(str(each) for each in deleted.ids)
    _emit(
        as_json,
        [{"deleted": list(deleted.ids), "objects": deleted.objects}],
        lambda: typer.echo(f"deleted {ids}: {deleted.objects} objects"),
    )


@contextmanager
def _opened(
    location: str, namespace: str | None, name: str | None, *, of_all: bool = False
) -> Iterator[tuple[list[JobSnapshots], StoredSnapshot | None]]:
    """Yield the jobs at a location, or the single snapshot that it names.

    With `of_all`, a damaged log does not hide the other jobs: it is reported after them.
    """
    from streamjob.protocol.log.records import LogDamaged
    from streamjob.store.base import StoreDenied
    from streamjob.stored.locations import find_jobs, find_snapshot
    from streamjob.stored.reading import read_job, read_snapshot

    try:
        single = find_snapshot(location) if namespace is None and name is None else None
        if single is not None:
            yield [], read_snapshot(single)
            return
        roots = find_jobs(location, namespace, name)
        damaged: list[LogDamaged] = []
        jobs = []
        try:
            for root in roots:
                try:
                    jobs.append(read_job(root))
                except LogDamaged as error:
                    if not of_all or len(roots) == 1:
                        raise
                    damaged.append(error)
            yield jobs, None
        finally:
            for each in damaged:
                typer.echo(f"error: {each}", err=True)
            for root in roots:
                root.store.close()
        if damaged:
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))
    except StoreDenied as error:
        raise InvalidInput(error.what, error.fix) from error


def _problems_of_sinks(job: JobSnapshots) -> list[str]:
    """Return a sentence for each problem that the job's sinks find; none without the extra `runtime`."""
    newest = next((each.manifest for each in job.snapshots if each.newest), None)
    if newest is None or not runtime.has_spark():
        return []
    return list(runtime.problems_of_sinks(newest, job.view.job))


def _one(jobs: list[JobSnapshots]) -> JobSnapshots:
    if len(jobs) != 1:
        names = ", ".join(str(job.view.job) for job in jobs)
        raise InvalidInput(f"there are several jobs: {names}", "say which one with --namespace and --name")
    return jobs[0]


def _emit(as_json: bool, objects: list[dict[str, Any]], show: Any) -> None:
    if not as_json:
        show()
        return
    for each in objects:
        typer.echo(json.dumps(each, ensure_ascii=False))
