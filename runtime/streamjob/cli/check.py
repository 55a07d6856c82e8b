"""`streamjob check`: what becomes of each part of a job that starts from a snapshot; nothing is started."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from streamjob.cli.validate import FileArgument, SetOption
from streamjob.errors import ExitCode
from streamjob.extras import from_extra

if TYPE_CHECKING:
    from rich.console import Console

    from streamjob.job.load import LoadedJob
    from streamjob.job.plan import Plan
    from streamjob.protocol.log import JobId
    from streamjob.stored.restorable import Found
    from streamjob.stored.verdicts import Comparison, Finding

    Judge = Callable[[LoadedJob, Found, Comparison, bool], Comparison]
    QueryCheck = Callable[
        [str, LoadedJob, Plan, JobId, bool, Judge | None, Callable[[], float]], tuple[str, Comparison]
    ]

_JUDGE = "streamjob_runtime.judging"
"""What compares state with what a job's operators keep; it has a Spark, and comes with the extra `runtime`."""
_QUERIES = "streamjob_runtime.from_spark"
"""What reads the checkpoints of plain queries, and comes with the extra `runtime`, too."""

_STYLES = {"restored": "green", "rewritten": "cyan", "new": "", "dropped": "yellow", "refused": "red"}


def check_command(
    file: FileArgument,
    restore_from: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SNAPSHOT",
            help="The snapshot: by URI or path or, for one of this job, as checkpoints/<epoch>-<id>; latest: the last"
            " completed checkpoint; spark:DIRECTORY: the checkpoint of a plain Structured Streaming query.",
        ),
    ],
    location: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Where the job's checkpoints are kept. Default: checkpointing.location of the job, or"
            " .streamjob/snapshots beside the file.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NS", help="Namespace of the job in the store. Default: the file's, or default."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the job in the store. Default: the file's.")
    ] = None,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Give up state whose operator the job does not have.")
    ] = False,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark/--no-spark",
            help="Where the graphs do not tell, such as for a changed query over state, plan the chains on an embedded"
            " Spark, which takes seconds; without, only the graphs are compared.",
        ),
    ] = True,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Say what a start from a snapshot would restore, rewrite, drop and refuse, without starting the job.

    Ends with exit code 3 if the job would be refused.
    """
    from streamjob.job.load import load_job
    from streamjob.job.plan import plan
    from streamjob.protocol.log import JobId
    from streamjob.stored.restorable import FROM_SPARK

    loaded = load_job(file, overrides or ())
    planned = plan(loaded.spec)
    job = JobId(namespace or loaded.namespace or "default", name or loaded.spec.name)
    judge = _judge() if spark else None
    if restore_from.startswith(FROM_SPARK):
        uri, compared = _query_check()(restore_from, loaded, planned, job, allow_non_restored_state, judge, time.time)
    else:
        found = _compare(loaded, planned, restore_from, location, job, allow_non_restored_state, judge)
        if found is None:
            typer.echo(f"{restore_from}: there is no snapshot, so the job begins anew", err=True)
            return
        uri, compared = found
    if as_json:
        for each in compared.findings:
            typer.echo(json.dumps(as_object(each, compared), ensure_ascii=False))
    else:
        _print(compared, uri)
    if compared.refusals:
        raise typer.Exit(int(ExitCode.CANNOT_RESTORE))


def _compare(
    loaded: LoadedJob,
    planned: Plan,
    restore_from: str,
    location: str | None,
    job: JobId,
    allow: bool,
    judge: Judge | None,
) -> tuple[str, Comparison] | None:
    """Return a snapshot's URI, and what becomes of each part; None if the job would start from nothing."""
    from streamjob.stored.comparing import compare
    from streamjob.stored.restorable import opened

    with opened(loaded, restore_from, location, job.namespace, job.name) as found:
        if found is None:
            return None
        compared = compare(loaded.spec, planned, found.manifest, found.uri, allow)
        if judge is not None and compared.undecided and not compared.refusals:
            compared = judge(loaded, found, compared, allow)
        return found.uri, compared


def as_object(finding: Finding, compared: Comparison) -> dict[str, Any]:
    """Return what `--json` prints of one part; `decided` is false where only Spark could tell, and was not asked."""
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


def _judge() -> Judge | None:
    if find_spec("pyspark") is None:
        return None

    def judge(loaded: LoadedJob, found: Found, compared: Comparison, allow: bool) -> Comparison:
        return cast("Judge", import_module(_JUDGE).judge)(loaded, found, compared, allow)

    return judge


def _query_check() -> QueryCheck:
    with from_extra("`streamjob check --from spark:`", "runtime"):
        # It reads changelogs, which are compressed.
        import_module("pyarrow")
        return cast("QueryCheck", import_module(_QUERIES).check_query)


def _print(compared: Comparison, uri: str, console: Console | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    target = console or Console(highlight=False)
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
        what = f"chain {chain}: whether its state fits {names} only Spark can tell; it was not asked"
        target.print(what, soft_wrap=True)
    if not compared.refusals:
        target.print(f"the job can start from here{', as far as the graphs tell' if compared.undecided else ''}")
