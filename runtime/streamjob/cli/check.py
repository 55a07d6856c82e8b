"""`streamjob check`: what becomes of each part of a job that starts from a snapshot; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from streamjob.cli.validate import FileArgument, SetOption
from streamjob.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from streamjob.job.load import LoadedJob
    from streamjob.stored.restorable import Found
    from streamjob.stored.verdicts import Comparison, Finding

    Judge = Callable[[LoadedJob, Found, Comparison, bool], Comparison]

_JUDGE = "streamjob_runtime.judging"
"""What compares state with what a job's operators keep; it has a Spark, and comes with the extra `runtime`."""

_STYLES = {"restored": "green", "rewritten": "cyan", "new": "", "dropped": "yellow", "refused": "red"}


def check_command(
    file: FileArgument,
    restore_from: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SNAPSHOT",
            help="The snapshot: by URI or path or, for one of this job, as checkpoints/<epoch>-<id>; latest: the last"
            " completed checkpoint.",
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
    from streamjob.stored.comparing import compare
    from streamjob.stored.restorable import opened

    loaded = load_job(file, overrides or ())
    planned = plan(loaded.spec)
    with opened(loaded, restore_from, location, namespace, name) as found:
        if found is None:
            typer.echo(f"{restore_from}: there is no snapshot, so the job begins anew", err=True)
            return
        compared = compare(loaded.spec, planned, found.manifest, found.uri, allow_non_restored_state)
        judge = _judge() if spark and compared.undecided and not compared.refusals else None
        if judge is not None:
            compared = judge(loaded, found, compared, allow_non_restored_state)
        if as_json:
            for each in compared.findings:
                typer.echo(json.dumps(as_object(each, compared), ensure_ascii=False))
        else:
            _print(compared, found.uri)
    if compared.refusals:
        raise typer.Exit(int(ExitCode.CANNOT_RESTORE))


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
    try:
        import_module("pyspark")
    except ModuleNotFoundError:
        return None
    return cast("Judge", import_module(_JUDGE).judge)


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
