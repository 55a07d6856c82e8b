"""`streamjob adopt`: makes the output directory of a plain query one that a job can write to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from streamjob.cli.control import Json

if TYPE_CHECKING:
    from streamjob.stored.sparks_output import Adoption


def adopt_command(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="The output directory of the query: a path, or s3://bucket/path.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Execute the plan. Without this option, only the plan is shown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the output directory of a plain Spark query one that a job can write to. Shows the plan; --yes executes it.

    First stop the query for good. Files that none of its batches has committed are removed: Spark's readers do not see
    them. Then the query's log, _spark_metadata, is removed: because of it, Spark's readers see no other writer's files.
    After a kill, repeat the command. Ends with exit code 2 if the log has an unknown format.
    """
    from streamjob.store.opening import open_directory_of_spark
    from streamjob.stored.sparks_output import adopt, plan_adoption

    store = open_directory_of_spark(directory).store()
    try:
        plan = plan_adoption(store)
        if yes:
            adopt(store, plan)
        if as_json:
            typer.echo(json.dumps({**_fields(plan), "done": yes}, ensure_ascii=False))
            return
        for line in _lines(plan):
            typer.echo(line)
        typer.echo("done" if yes else "nothing was removed: add --yes to do this")
    finally:
        store.close()


def _fields(plan: Adoption) -> dict[str, object]:
    named = {"committed": plan.committed, "missing": list(plan.missing), "otherFiles": plan.others}
    return {**named, "removed": [*plan.strays, *plan.log]}


def _lines(plan: Adoption) -> Iterator[str]:
    yield f"committed by the query: {plan.committed} files, which stay"
    if plan.missing:
        yield f"{len(plan.missing)} of them do not exist any more: {', '.join(plan.missing[:3])}"
    if plan.others:
        yield f"not written by a query: {plan.others} files, which stay, and which readers will see"
    for key in plan.strays:
        yield f"- remove {key}, which no batch has committed"
    yield f"- remove the query's log: {len(plan.log)} files in _spark_metadata"
