"""`streamjob commits`: shows the output of a job's newest checkpoint, and gives up what cannot be published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from streamjob import runtime
from streamjob.cli.control import Json
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, job_of
from streamjob.cli.store_options import LocationOption, NameOption, NamespaceOption
from streamjob.errors import ExitCode, InvalidInput
from streamjob.extras import from_extra


def commits_command(
    file: FileArgument = None,
    files: FilesOption = None,
    location: LocationOption = None,
    namespace: NamespaceOption = None,
    name: NameOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    fence: Annotated[
        bool,
        typer.Option(
            "--fence",
            help="Claim the job's log, and commit what can be committed, as a start would. A process that still runs "
            "the job is superseded: it ends with exit code 4.",
        ),
    ] = False,
    give_up: Annotated[
        str | None,
        typer.Option(
            metavar="UID",
            help="With --fence: give up the commit of this sink, which fails. Its rows go to --rows-to, the other "
            "sinks commit, and the job continues from the same state.",
            show_default=False,
        ),
    ] = None,
    rows_to: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A new file for the rows, as JSON lines.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the commits of a job's newest checkpoint; with --fence, which of them fail, and why.

    Ends with exit code 3 if a commit fails.
    """
    from streamjob.ids import OperatorUid
    from streamjob.protocol.log.records import JobId
    from streamjob.stored.locations import JobLocation
    from streamjob.stored.reading import read_job
    from streamjob.stored.start_snapshot import job_location

    if (give_up is None) != (rows_to is None) or (give_up is not None and not fence):
        raise InvalidInput("--give-up, --rows-to and --fence belong together", "add the missing ones")
    loaded = job_of(file, files, overrides, variables)
    job = JobId(namespace or loaded.namespace or "default", name or loaded.spec.name)
    store = job_location(loaded, location).job(job.namespace, job.name).store()
    try:
        if not fence:
            newest = read_job(JobLocation(job, store)).named(None)
            sinks = () if newest.manifest is None else newest.manifest.sinks
            for state in (each for each in sinks if each.committables):
                due = {"checkpoint": newest.id, "sink": state.uid, "batches": len(state.committables)}
                _show(as_json, due, "batches to publish: {batches}")
            return
        with from_extra("`streamjob commits --fence`", "runtime"):
            opened_commits = runtime.opened_commits
        if rows_to is not None:
            runtime.check_rows_file(rows_to)
        with opened_commits(loaded, store, job) as opened:
            if give_up is not None and rows_to is not None:
                done = opened.give_up(OperatorUid(give_up), rows_to)
                given_up = {"checkpoint": done.outcome.checkpoint, "sink": give_up, "rows": done.rows}
                shown = {**given_up, "file": str(rows_to), "continuesFrom": done.successor}
                _show(
                    as_json,
                    shown,
                    "rows given up: {rows}, in {file}; the job continues from checkpoint {continuesFrom}",
                )
                return
            outcomes = opened.retry()
        for each in outcomes:
            failure = None if each.failure is None else str(each.failure)
            fields = {"checkpoint": each.checkpoint, "sink": each.sink, "batches": each.batches}
            text = "published" if failure is None else "not published: {failure}"
            _show(as_json, {**fields, "published": failure is None, "failure": failure}, text)
        if any(each.failure is not None for each in outcomes):
            raise typer.Exit(int(ExitCode.CANNOT_RESTORE))
    finally:
        store.close()


def _show(as_json: bool, fields: Mapping[str, object], text: str) -> None:
    told = f"checkpoint {{checkpoint}}, sink {{sink}}: {text}".format_map(fields)
    typer.echo(json.dumps(fields, ensure_ascii=False) if as_json else told)
