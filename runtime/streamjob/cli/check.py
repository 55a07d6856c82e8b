"""`streamjob check`: shows what a start from a snapshot would do with each part of a job, without starting it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjob import runtime
from streamjob.cli.control import Json
from streamjob.cli.job_files import FileArgument, FilesOption, SetOption, VarOption, job_of
from streamjob.cli.store_options import (
    AllowNonRestoredStateOption,
    LocationOption,
    NameOption,
    NamespaceOption,
    RequireSnapshotOption,
    StrictOption,
)
from streamjob.client.console import console_for

if TYPE_CHECKING:
    from streamjob.comparison.verdicts import Comparison, Finding
    from streamjob.errors import StreamJobError
    from streamjob.job.loading.load import LoadedJob
    from streamjob.protocol.log.records import JobId

_TERMINATION_LOG = "STREAMJOB_TERMINATION_LOG"
"""The variable with the file that records how a process ended."""

_STYLES = {
    "restored": "green",
    "rewritten": "cyan",
    "migrated": "magenta",
    "new": "",
    "dropped": "yellow",
    "refused": "red",
}


def check_command(
    restore_from: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SNAPSHOT",
            help="The snapshot: by URI or path or, for one of this job, as checkpoints/<epoch>-<id>; latest: the last"
            " completed checkpoint; spark:DIRECTORY: the checkpoint of a plain Structured Streaming query, or"
            " spark:CHAIN=DIRECTORY,CHAIN=DIRECTORY.",
        ),
    ],
    file: FileArgument = None,
    location: LocationOption = None,
    namespace: NamespaceOption = None,
    name: NameOption = None,
    allow_non_restored_state: AllowNonRestoredStateOption = False,
    require_snapshot: RequireSnapshotOption = False,
    strict: StrictOption = False,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark/--no-spark",
            help="Plan the job on an embedded Spark, as a start would, which takes seconds. Without it, only the "
            "graphs are compared, and only sinks that need no Spark are checked.",
        ),
    ] = True,
    files: FilesOption = None,
    overrides: SetOption = None,
    variables: VarOption = None,
    as_json: Json = False,
) -> None:
    """Show what a start from a snapshot would restore, rewrite, drop and refuse, without starting the job.

    Ends with the exit code of a start: 3 if the job could not be restored, 2 if it could not run at all.
    """
    from streamjob.protocol.log.records import JobId

    with _recorded() as record, ExitStack() as stack:
        examine = _examiner(stack, spark, location, strict)
        parser, environ = (runtime.parse_with_spark, os.environ) if spark and examine is not None else (None, None)
        loaded = job_of(file, files, overrides, variables, spark_parser=parser, environ=environ)
        job = JobId(namespace or loaded.namespace or "default", name or loaded.spec.name)
        compared = _check(
            loaded,
            job,
            restore_from,
            location,
            allow_non_restored_state,
            examine,
            require_snapshot=require_snapshot,
            as_json=as_json,
        )
        record(compared.refusals, migrated(compared))
    if compared.refusals:
        raise typer.Exit(int(compared.refusals[0].exit_code))


def _check(
    loaded: LoadedJob,
    job: JobId,
    restore_from: str,
    location: str | None,
    allow: bool,
    examine: Callable[..., Comparison] | None,
    *,
    require_snapshot: bool,
    as_json: bool,
) -> Comparison:
    """Compare, print the findings if there is a snapshot to start from, and return the comparison."""
    from streamjob.comparison.starting import compare_start
    from streamjob.job.planning.plan import plan
    from streamjob.protocol.log.restore import LATEST
    from streamjob.stored.start_snapshot import FROM_SPARK, job_location

    def note(text: str) -> None:
        typer.echo(text, err=True)

    if restore_from.startswith(FROM_SPARK):
        planned = plan(loaded.spec)
        # What reads compressed changelogs.
        runtime.require("`streamjob check --from spark:`", "pyarrow")
        store = job_location(loaded, location).job(job.namespace, job.name).store()
        try:
            if runtime.was_taken_over(restore_from, planned, job, store):
                note(f"{restore_from}: the job has taken it over already, and continues from its newest checkpoint")
                restore_from = LATEST
        finally:
            store.close()
    if examine is not None:
        examine = partial(examine, latest=restore_from == LATEST)
    if restore_from.startswith(FROM_SPARK):
        uri, compared = runtime.check_query(restore_from, loaded, planned, job, allow, examine, time.time)
    else:
        start = compare_start(
            loaded, restore_from, location, job, allow, examine, note, require_snapshot=require_snapshot
        )
        compared = start.compared
        if start.finished:
            note(f"{restore_from}: the job has finished, so a start publishes any unpublished output, and ends")
            return compared
        if start.uri is None:
            compared.check()
            note(f"{restore_from}: there is no snapshot, so the job starts without state")
            return compared
        uri = start.uri
    if as_json:
        for each in compared.findings:
            typer.echo(json.dumps(as_object(each, compared), ensure_ascii=False))
    else:
        _print(compared, uri)
    return compared


def migrated(compared: Comparison) -> str:
    """Return in words which operators get their state in another form, a line for each."""
    changed = [each for each in compared.findings if each.verdict.value == "migrated"]
    return "\n".join(f"{each.kind} {each.uid!r} is migrated: {each.why}" for each in changed)


@contextmanager
def _recorded() -> Iterator[Callable[[Sequence[StreamJobError], str], None]]:
    """Yield what records the result for a supervisor, if one asks for it; an error is recorded, too."""
    if _TERMINATION_LOG not in os.environ:
        yield lambda refusals, told: None
        return
    termination = runtime.TerminationLog.from_environment(os.environ)
    try:
        yield termination.write_check
    except Exception as error:
        termination.write_error(error)
        raise


def as_object(finding: Finding, compared: Comparison) -> dict[str, Any]:
    """Return the `--json` object of one part; `decided` is false if only Spark could tell and was not asked."""
    refusal = finding.refusal
    return {
        "kind": finding.kind.value,
        "uid": finding.uid,
        "verdict": finding.verdict.value,
        "why": finding.why,
        "cause": None if refusal is None else type(refusal).__name__,
        "fix": None if refusal is None else refusal.fix or None,
        "decided": refusal is not None or not compared.undecided,
    }


def _examiner(
    stack: ExitStack, ask_spark: bool, location: str | None, strict: bool
) -> Callable[..., Comparison] | None:
    if not runtime.has_spark():
        return None
    ask = runtime.embedded_spark(stack) if ask_spark else None
    return partial(runtime.examine, ask=ask, location=location, strict=strict)


def print_findings(compared: Comparison, uri: str) -> None:
    """Print a table of the findings, and the refusals."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    target = console_for()
    target.print(Text.assemble(("from ", "dim"), uri), soft_wrap=True)
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for column in ("part", "uid", "verdict", "why"):
        table.add_column(column, overflow="fold")
    for each in compared.findings:
        verdict = Text(each.verdict.value, style=_STYLES[each.verdict.value])
        table.add_row(each.kind.value, Text(each.uid), verdict, Text(each.why))
    target.print(table)
    for error in compared.refusals:
        target.print(Text.assemble(("refused: ", "red"), str(error)), soft_wrap=True)
    for chain, names in compared.undecided.items():
        what = f"chain {chain}: whether its state fits {names} only Spark can check this, and it was not asked"
        target.print(what, soft_wrap=True)


def _print(compared: Comparison, uri: str) -> None:
    print_findings(compared, uri)
    if not compared.refusals:
        target = console_for()
        target.print(f"the job can start from here{', as far as the graphs show' if compared.undecided else ''}")
